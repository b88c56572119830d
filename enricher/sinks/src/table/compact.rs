//! Small files of one day become one: commits every few seconds must not leave a table of thousands of files.
//!
//! Owns: which files are rewritten and the rewriting. Does not own: the commit (`commit`), removing the old files
//! (`expire`, once no kept snapshot has them). Files are classed by size, each class eight times the last, so a row is
//! rewritten a few times at most. Invariant: as many rows are written as were read, else nothing is committed.

use super::batch;
use super::error::SinkError;
use super::file::{self, FileWriter, Format};
use super::manifests::{self, Change};
use super::stored::Stored;
use super::warehouse::Warehouse;
use forebay_schemas::limit;
use iceberg::spec::{DataFile, Literal, ManifestContentType, PrimitiveLiteral};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Files below this are the smallest class.
const SMALLEST_BYTES: u64 = 8 << 10;

/// The next rewrite of `table`, put and ready to be committed; `None`: nothing to gain.
pub(super) fn rewrite(table: &Stored, warehouse: &Warehouse) -> Result<Option<Change>, SinkError> {
    let Some((day, files)) = choose(table, warehouse)? else { return Ok(None) };
    let format = Arc::new(Format::of(table, warehouse.shape)?);
    let mut writer = FileWriter::create(&format, day)?;
    let mut rows = 0;
    for file in &files {
        for batch in file::read(warehouse, file.file_path(), format.arrow.clone())? {
            let batch = batch?;
            rows += u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
            writer.write(&batch)?;
        }
    }
    let expected: u64 = files.iter().map(DataFile::record_count).sum();
    let written = writer.close(warehouse)?;
    if rows != expected || written.record_count() != expected {
        batch::remove_files(warehouse, &[written]);
        tracing::error!(rows, expected, "rewriting small files lost count of the rows; left as they are");
        return Ok(None);
    }
    Ok(Some(Change { added: vec![written], removed: files.iter().map(|file| file.file_path().to_owned()).collect() }))
}

fn choose(table: &Stored, warehouse: &Warehouse) -> Result<Option<(i32, Vec<DataFile>)>, SinkError> {
    let spec = table.metadata.default_partition_spec_id();
    let mut classes: BTreeMap<(i32, u32), Vec<DataFile>> = BTreeMap::new();
    for manifest in manifests::of_table(table, warehouse)? {
        // Somebody deletes rows by delete files: rewriting would need to apply them. Left to who made them.
        if manifest.content != ManifestContentType::Data {
            return Ok(None);
        }
        for entry in manifests::live(&manifest, warehouse)? {
            let file = entry.data_file;
            if file.file_size_in_bytes() < limit::SINK_SMALL_FILE_BYTES
                && manifest.partition_spec_id == spec
                && let Some(day) = day_of(&file)
            {
                classes.entry((day, class(file.file_size_in_bytes()))).or_default().push(file);
            }
        }
    }
    let full = classes.into_iter().find(|(_, files)| files.len() >= limit::SINK_SMALL_FILES);
    Ok(full.map(|((day, _), mut files)| {
        files.sort_unstable_by(|a, b| a.file_path().cmp(b.file_path()));
        let mut bytes = 0;
        files.retain(|file| {
            bytes += file.file_size_in_bytes();
            bytes <= limit::SINK_REWRITE_BYTES
        });
        (day, files)
    }))
}

fn class(bytes: u64) -> u32 {
    (bytes / SMALLEST_BYTES).max(1).ilog2() / 3
}

fn day_of(file: &DataFile) -> Option<i32> {
    match file.partition().fields() {
        [Some(Literal::Primitive(PrimitiveLiteral::Int(day)))] => Some(*day),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_grow_by_eight() {
        let sizes = [1, 9 << 10, 63 << 10, 65 << 10, 511 << 10, 513 << 10, 4 << 20];
        assert_eq!(sizes.map(class), [0, 0, 0, 1, 1, 2, 3]);
    }
}
