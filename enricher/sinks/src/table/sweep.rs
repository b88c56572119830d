//! Files that no snapshot and no metadata file names: what crashes and lost commits left behind.
//!
//! Owns: the full search, at start and now and then. Does not own: what expiry frees (`expire`). Invariant: only a
//! file older than the grace goes, since a younger one may be named by a commit that is under way.

use super::disk::{self, path_of};
use super::error::SinkError;
use super::expire::kept_manifests;
use super::manifests;
use super::stored::Stored;
use iceberg::io::FileIO;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Deletes the orphans of `table` that are older than `grace`; their number.
pub(super) async fn sweep(table: &Stored, io: &FileIO, grace: Duration) -> Result<usize, SinkError> {
    let folder = table.folder();
    let mut old = Vec::new();
    for part in ["data", "metadata"] {
        find(&folder.join(part), SystemTime::now().checked_sub(grace), &mut old);
    }
    if old.is_empty() {
        return Ok(0);
    }
    let named = named(table, io).await?;
    old.retain(|path| !named.contains(path));
    old.iter().for_each(|path| disk::remove(path));
    Ok(old.len())
}

/// Every file that the current metadata reaches.
async fn named(table: &Stored, io: &FileIO) -> Result<HashSet<PathBuf>, SinkError> {
    let metadata = &table.metadata;
    let mut named = HashSet::from([path_of(&table.location)]);
    named.extend(metadata.metadata_log().iter().map(|log| path_of(&log.metadata_file)));
    named.extend(metadata.snapshots().map(|snapshot| path_of(snapshot.manifest_list())));
    named.extend(metadata.statistics_iter().map(|statistics| path_of(&statistics.statistics_path)));
    named.extend(metadata.partition_statistics_iter().map(|statistics| path_of(&statistics.statistics_path)));
    for (path, manifest) in kept_manifests(table)? {
        named.insert(path_of(&path));
        named.extend(manifests::live(&manifest, io).await?.iter().map(|entry| path_of(entry.file_path())));
    }
    Ok(named)
}

/// Files of the kinds that a table consists of, changed before `before`, below `folder`.
fn find(folder: &Path, before: Option<SystemTime>, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            find(&path, before, found);
        } else if is_of_a_table(&path) && about.modified().is_ok_and(|changed| before.is_some_and(|before| changed < before)) {
            found.push(path);
        }
    }
}

fn is_of_a_table(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    [".parquet", ".avro", ".metadata.json", ".tmp"].iter().any(|end| name.ends_with(end))
}
