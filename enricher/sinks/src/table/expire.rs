//! Which snapshots go, and which files go with them.
//!
//! Owns: the choice by number and age, and the files that only the expired snapshots named. Does not own: files that
//! no snapshot ever named (`sweep`). Invariant: a file that a kept snapshot reaches is never deleted; when in doubt
//! (a manifest cannot be read) nothing is.

use super::error::SinkError;
use super::manifests;
use super::stored::Stored;
use super::warehouse::Warehouse;
use iceberg::spec::{ManifestFile, SnapshotRef, TableMetadata};
use std::collections::{HashMap, HashSet};

#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    pub snapshots: usize,
    pub age_ms: i64,
}

/// Ids of the snapshots of `table` that go when one more is added at `now_ms`. Branches keep as `main` does; what a
/// tag or branch of a user names is kept.
pub(super) fn choose(table: &Stored, keep: Keep, now_ms: i64) -> Vec<i64> {
    let metadata = &table.metadata;
    let mut kept = HashSet::new();
    // The snapshot that is being added is the newest of those that are kept.
    retain(metadata, metadata.current_snapshot_id(), keep.snapshots.saturating_sub(1).max(1), keep, now_ms, &mut kept);
    for other in table.others.iter() {
        let count = if other.is_branch { keep.snapshots.max(1) } else { 1 };
        let keep_age = if other.is_branch { keep } else { Keep { age_ms: -1, ..keep } };
        retain(metadata, Some(other.snapshot_id), count, keep_age, now_ms, &mut kept);
    }
    let mut gone: Vec<_> = metadata
        .snapshots()
        .filter(|snapshot| !kept.contains(&snapshot.snapshot_id()) && now_ms - snapshot.timestamp_ms() > keep.age_ms)
        .map(|snapshot| snapshot.snapshot_id())
        .collect();
    gone.sort_unstable();
    gone
}

fn retain(metadata: &TableMetadata, head: Option<i64>, count: usize, keep: Keep, now_ms: i64, kept: &mut HashSet<i64>) {
    let mut next = head.and_then(|id| metadata.snapshot_by_id(id));
    let mut left = count;
    while let Some(snapshot) = next {
        if left > 0 || now_ms - snapshot.timestamp_ms() <= keep.age_ms {
            kept.insert(snapshot.snapshot_id());
            left = left.saturating_sub(1);
        }
        next = snapshot.parent_snapshot_id().and_then(|id| metadata.snapshot_by_id(id));
    }
}

/// Deletes what only expired snapshots named. Runs after the commit, so a crash leaves files, never a gap.
pub(super) fn clean(table: &Stored, expired: &[SnapshotRef], warehouse: &Warehouse) -> Result<(), SinkError> {
    if expired.is_empty() {
        return Ok(());
    }
    let kept = kept_manifests(table, warehouse)?;
    let mut gone: HashMap<String, ManifestFile> = HashMap::new();
    for snapshot in expired {
        let manifests = manifests::of_snapshot(snapshot, warehouse)?;
        gone.extend(manifests.into_iter().filter(|m| !kept.contains_key(&m.manifest_path)).map(|m| (m.manifest_path.clone(), m)));
    }
    let mut files = HashSet::new();
    for manifest in gone.values() {
        files.extend(manifests::live(manifest, warehouse)?.into_iter().map(|entry| entry.data_file.file_path().to_owned()));
    }
    still_named(&kept, warehouse, &mut files)?;
    let lists = expired.iter().map(|snapshot| snapshot.manifest_list());
    warehouse.remove_all(files.iter().map(String::as_str).chain(gone.keys().map(String::as_str)).chain(lists));
    Ok(())
}

/// The manifests of all kept snapshots by path.
pub(super) fn kept_manifests(table: &Stored, warehouse: &Warehouse) -> Result<HashMap<String, ManifestFile>, SinkError> {
    let mut kept = HashMap::new();
    for snapshot in table.metadata.snapshots() {
        kept.extend(manifests::of_snapshot(snapshot, warehouse)?.into_iter().map(|manifest| (manifest.manifest_path.clone(), manifest)));
    }
    Ok(kept)
}

/// Takes out of `files` what a kept manifest has live; the newest manifests first, since they mostly have all.
fn still_named(kept: &HashMap<String, ManifestFile>, warehouse: &Warehouse, files: &mut HashSet<String>) -> Result<(), SinkError> {
    let mut kept: Vec<_> = kept.values().collect();
    kept.sort_unstable_by_key(|manifest| std::cmp::Reverse(manifest.sequence_number));
    for manifest in kept {
        if files.is_empty() {
            break;
        }
        for entry in manifests::live(manifest, warehouse)? {
            files.remove(entry.file_path());
        }
    }
    Ok(())
}
