//! Files that no snapshot and no metadata file names: what crashes and lost commits left behind.
//!
//! Owns: the full search, now and then. Does not own: what expiry frees (`expire`), files that another program put
//! (they have other names than ours). Invariants: it runs right after a commit of ours, so that whoever is about to
//! commit older files stands on a table that is gone, and loses; and only a file older than the grace goes, since a
//! younger one may belong to a batch that another sink has begun since. Its name tells a file's age.

use super::error::SinkError;
use super::expire::kept_manifests;
use super::manifests;
use super::stored::Stored;
use super::warehouse::Warehouse;
use forebay_stores::objects::folder::TEMP_PREFIX;
use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// Deletes the orphans of `table` that are older than `grace`; their number. Metadata files go only where they are
/// `ours`.
pub(super) fn sweep(table: &Stored, warehouse: &Warehouse, grace: Duration, ours: bool) -> Result<usize, SinkError> {
    let before = SystemTime::now().checked_sub(grace).unwrap_or(UNIX_EPOCH);
    let current = version_of(&table.location);
    let is_old = |location: &String| match version_of(location) {
        // Whoever tried this version stood on one that is gone.
        Some(version) => ours && current.is_some_and(|current| version <= current),
        None => made_at(location).is_some_and(|made| made < before),
    };
    let mut old = [warehouse.list("data")?, warehouse.list("metadata")?].concat();
    old.retain(is_old);
    if let Some(folder) = warehouse.table_folder() {
        remove_half_put(&folder, before);
    }
    if old.is_empty() {
        return Ok(0);
    }
    let named = named(table, warehouse)?;
    old.retain(|location| warehouse.name(location).is_ok_and(|name| !named.contains(&name)));
    warehouse.remove_all(&old);
    Ok(old.len())
}

/// A folder's object store leaves such a file where it is killed in the midst of a put, and does not list it.
fn remove_half_put(folder: &Path, before: SystemTime) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            remove_half_put(&entry.path(), before);
        } else if entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX) && about.modified().is_ok_and(|changed| changed < before) {
            // What cannot be removed is in nobody's way.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Every object that the current metadata reaches.
fn named(table: &Stored, warehouse: &Warehouse) -> Result<HashSet<String>, SinkError> {
    let metadata = &table.metadata;
    let mut locations = vec![table.location.clone()];
    locations.extend(metadata.metadata_log().iter().map(|log| log.metadata_file.clone()));
    locations.extend(metadata.snapshots().map(|snapshot| snapshot.manifest_list().to_owned()));
    locations.extend(metadata.statistics_iter().map(|statistics| statistics.statistics_path.clone()));
    locations.extend(metadata.partition_statistics_iter().map(|statistics| statistics.statistics_path.clone()));
    for (path, manifest) in kept_manifests(table, warehouse)? {
        locations.push(path);
        locations.extend(manifests::live(&manifest, warehouse)?.iter().map(|entry| entry.file_path().to_owned()));
    }
    // What lies outside the warehouse is not found by a search in it either.
    Ok(locations.iter().filter_map(|location| warehouse.name(location).ok()).collect())
}

/// The number in the name of a metadata file: `00042-<uuid>.metadata.json`.
fn version_of(location: &str) -> Option<u64> {
    file_name(location).strip_suffix(".metadata.json")?.split_once('-')?.0.parse().ok()
}

/// When a data file (`<uuid>.parquet`), manifest (`<uuid>-m0.avro`) or manifest list (`snap-<id>-0-<uuid>.avro`) of
/// ours was named. `None`: another program's.
fn made_at(location: &str) -> Option<SystemTime> {
    let (stem, kind) = file_name(location).rsplit_once('.')?;
    let id = match kind {
        "parquet" => stem,
        "avro" if stem.starts_with("snap-") => stem.get(stem.len().checked_sub(36)?..)?,
        "avro" => stem.rsplit_once("-m")?.0,
        _ => return None,
    };
    let (seconds, nanos) = Uuid::parse_str(id).ok().filter(|id| id.get_version_num() == 7)?.get_timestamp()?.to_unix();
    Some(UNIX_EPOCH + Duration::new(seconds, nanos))
}

fn file_name(location: &str) -> &str {
    location.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ours_tell_their_age_and_others_nothing() {
        let v7 = "019adf2b-a87e-7000-8000-000000000000";
        let at = Some(UNIX_EPOCH + Duration::from_millis(0x019a_df2b_a87e));
        for name in [format!("{v7}.parquet"), format!("{v7}-m12.avro"), format!("snap-42-0-{v7}.avro")] {
            assert_eq!(made_at(&format!("s3://b/w/t/{name}")), at, "{name}");
        }
        let v4 = "7f3c1c1e-55cf-4c0e-9d1f-2f8f7b0f5a10";
        for name in [format!("{v4}.parquet"), format!("00000-0-{v4}-00001.parquet"), format!("{v4}-m0.avro"), "version-hint.text".into()] {
            assert_eq!(made_at(&name), None, "{name}");
        }
        assert_eq!(version_of(&format!("/w/t/metadata/00042-{v4}.metadata.json")), Some(42));
        assert_eq!(version_of(&format!("/w/t/metadata/{v7}-m1.avro")), None);
    }
}
