//! Manifests: which data files a snapshot has. Reading them, writing them, keeping them few.
//!
//! Owns: the manifests of the next snapshot, given those of the last one, files to add and files to take out. Does not
//! own: the snapshot (`commit`). Invariant: a live file that is not taken out is live in the result, with the sequence
//! numbers it had.

use super::error::SinkError;
use super::stored::Stored;
use super::warehouse::{Warehouse, now};
use forebay_schemas::limit;
use iceberg::io::FileIO;
use iceberg::spec::{
    DataFile, FormatVersion, ManifestContentType, ManifestEntry, ManifestFile, ManifestList, ManifestWriter, ManifestWriterBuilder,
    Snapshot,
};
use std::collections::HashSet;
use uuid::Uuid;

/// The manifests of a snapshot.
pub(super) fn of_snapshot(snapshot: &Snapshot, warehouse: &Warehouse) -> Result<Vec<ManifestFile>, SinkError> {
    let bytes = warehouse.read(snapshot.manifest_list())?;
    Ok(ManifestList::parse_with_version(&bytes, FormatVersion::V2)?.consume_entries().into_iter().collect())
}

pub(super) fn of_table(table: &Stored, warehouse: &Warehouse) -> Result<Vec<ManifestFile>, SinkError> {
    table.metadata.current_snapshot().map_or(Ok(Vec::new()), |snapshot| of_snapshot(snapshot, warehouse))
}

/// The files that a manifest has live, not those that it tells were taken out.
pub(super) fn live(manifest: &ManifestFile, warehouse: &Warehouse) -> Result<Vec<ManifestEntry>, SinkError> {
    let scratch = warehouse.scratch(&manifest.manifest_path)?;
    let (entries, _) = now(manifest.load_manifest(&scratch))?.into_parts();
    Ok(entries.into_iter().filter(|entry| entry.is_alive()).map(std::sync::Arc::unwrap_or_clone).collect())
}

/// What the next snapshot changes.
pub(super) struct Change {
    pub added: Vec<DataFile>,
    /// Files that are rewritten into the added ones, by location.
    pub removed: HashSet<String>,
}

/// Writes the manifests of one commit, named after it.
pub(super) struct Writer<'a> {
    pub table: &'a Stored,
    pub warehouse: &'a Warehouse,
    pub snapshot_id: i64,
    pub commit: Uuid,
    /// A memory in which `iceberg` writes.
    pub scratch: FileIO,
    /// Locations of what was put: to be removed when the commit fails.
    pub written: Vec<String>,
}

impl Writer<'_> {
    /// The manifests of the next snapshot, and the files that were taken out.
    pub(super) fn next(&mut self, change: &Change) -> Result<(Vec<ManifestFile>, Vec<DataFile>), SinkError> {
        let (mut manifests, removed) = self.without(&change.removed)?;
        manifests = self.fewer(manifests)?;
        if !change.added.is_empty() {
            let mut writer = self.writer()?;
            for file in &change.added {
                // A negative number: the file gets the snapshot's.
                writer.add_file(file.clone(), -1)?;
            }
            manifests.push(self.put(writer)?);
        }
        Ok((manifests, removed))
    }

    /// The last snapshot's manifests with `removed` taken out of them.
    fn without(&mut self, removed: &HashSet<String>) -> Result<(Vec<ManifestFile>, Vec<DataFile>), SinkError> {
        let (mut kept, mut gone, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
        for manifest in of_table(self.table, self.warehouse)? {
            // A manifest that only tells what was taken out has told it.
            if !manifest.has_added_files() && !manifest.has_existing_files() {
                continue;
            }
            if removed.is_empty() || manifest.content != ManifestContentType::Data {
                kept.push(manifest);
                continue;
            }
            let entries = live(&manifest, self.warehouse)?;
            let (out, stay): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| removed.contains(entry.file_path()));
            if out.is_empty() {
                kept.push(manifest);
                continue;
            }
            if !stay.is_empty() {
                let mut writer = self.writer()?;
                for entry in stay {
                    existing(&mut writer, entry)?;
                }
                kept.push(self.put(writer)?);
            }
            deleted.extend(out.iter().map(|entry| entry.data_file().clone()));
            gone.extend(out);
        }
        if !gone.is_empty() {
            let mut writer = self.writer()?;
            for entry in gone {
                let number = entry.sequence_number().unwrap_or(0);
                writer.add_delete_file(entry.data_file, number, Some(entry.file_sequence_number.unwrap_or(number)))?;
            }
            kept.push(self.put(writer)?);
        }
        Ok((kept, deleted))
    }

    /// The small manifests of our partition spec as one, once there are many.
    fn fewer(&mut self, manifests: Vec<ManifestFile>) -> Result<Vec<ManifestFile>, SinkError> {
        let spec = self.table.metadata.default_partition_spec_id();
        let is_small = |manifest: &ManifestFile| {
            manifest.content == ManifestContentType::Data
                && manifest.partition_spec_id == spec
                && manifest.manifest_length < limit::SINK_MANIFEST_BYTES
                && (manifest.has_added_files() || manifest.has_existing_files())
        };
        let (small, mut kept): (Vec<_>, Vec<_>) = manifests.into_iter().partition(is_small);
        if small.len() < limit::SINK_MANIFESTS {
            kept.extend(small);
            return Ok(kept);
        }
        let mut writer = self.writer()?;
        for manifest in &small {
            for entry in live(manifest, self.warehouse)? {
                existing(&mut writer, entry)?;
            }
        }
        kept.push(self.put(writer)?);
        Ok(kept)
    }

    fn writer(&self) -> Result<ManifestWriter, SinkError> {
        let metadata = &self.table.metadata;
        let location = format!("{}/metadata/{}-m{}.avro", metadata.location(), self.commit, self.written.len());
        let output = self.scratch.new_output(location)?;
        let spec = metadata.default_partition_spec().as_ref().clone();
        Ok(ManifestWriterBuilder::new(output, Some(self.snapshot_id), metadata.current_schema().clone(), spec).build_v2_data())
    }

    fn put(&mut self, writer: ManifestWriter) -> Result<ManifestFile, SinkError> {
        let manifest = now(writer.write_manifest_file())?;
        self.keep(&manifest.manifest_path)?;
        Ok(manifest)
    }

    /// Puts what was written to memory under this location.
    pub(super) fn keep(&mut self, location: &str) -> Result<(), SinkError> {
        self.written.push(location.to_owned());
        self.warehouse.put(location, &now(self.scratch.new_input(location)?.read())?)
    }
}

fn existing(writer: &mut ManifestWriter, entry: ManifestEntry) -> Result<(), SinkError> {
    let number = entry.sequence_number().unwrap_or(0);
    let file_number = Some(entry.file_sequence_number.unwrap_or(number));
    Ok(writer.add_existing_file(entry.data_file, entry.snapshot_id.unwrap_or(0), number, file_number)?)
}
