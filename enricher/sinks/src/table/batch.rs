//! What will be one commit: rows on their way into files, and the offsets before and after them.
//!
//! Owns: the bounds on memory (rows are encoded every `SINK_ROWS_BYTES`) and on open files (one a day). Does not own:
//! reading (`worker`), committing (`commit`). Invariant: `to` is what `from` becomes when exactly the rows pushed are
//! added; a batch dropped before `finish` leaves no file.

use super::error::SinkError;
use super::file::{FileWriter, Format, day_of};
use super::offsets::Offsets;
use super::rows::{Row, Rows};
use super::warehouse::Warehouse;
use forebay_schemas::limit;
use iceberg::spec::DataFile;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct Batch<R> {
    format: Arc<Format>,
    /// What the table must say for this batch to be added; `None`: nothing yet.
    from: Option<Offsets>,
    to: Offsets,
    days: BTreeMap<i32, Day<R>>,
    rows: u64,
    /// Records that are left out because the table has them.
    known: u64,
    bytes: usize,
}

#[derive(Default)]
struct Day<R> {
    rows: R,
    bytes: usize,
    file: Option<FileWriter>,
}

/// A batch in closed, durable files.
pub(super) struct Written {
    pub from: Option<Offsets>,
    pub to: Offsets,
    pub files: Vec<DataFile>,
    pub rows: u64,
}

impl<R: Rows> Batch<R> {
    /// A batch that goes on from `start`, while the table says `from`.
    pub(super) fn new(format: Arc<Format>, from: Option<Offsets>, start: Offsets) -> Batch<R> {
        Batch { format, from, to: start, days: BTreeMap::new(), rows: 0, known: 0, bytes: 0 }
    }

    /// Nothing to commit: no row, and no record that is only to be passed over.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0 && self.known == 0
    }
    /// Bytes of the records pushed, as they were on the log.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
    pub(super) fn is_wide(&self) -> bool {
        self.days.len() >= limit::SINK_DAYS
    }
    pub(super) fn offsets(&self) -> &Offsets {
        &self.to
    }

    /// Adds a row; `bytes` is the record's size on the log.
    pub(super) fn push(&mut self, partition: i32, row: &R::Row<'_>, bytes: usize) -> Result<(), SinkError> {
        let day = day_of(row.instant());
        let rows = self.days.entry(day).or_default();
        rows.rows.push(row);
        rows.bytes += bytes;
        if rows.bytes >= limit::SINK_ROWS_BYTES / 2 {
            rows.encode(&self.format, day)?;
        }
        self.rows += 1;
        self.bytes += bytes;
        let seen = self.to.seen.entry(partition).or_insert(row.seen());
        *seen = row.seen().max(*seen);
        Ok(())
    }

    /// A record that the table has already.
    pub(super) fn pass_over(&mut self) {
        self.known += 1;
    }

    /// The partition is read up to `next`.
    pub(super) fn advance(&mut self, partition: i32, next: i64) {
        self.to.next.insert(partition, next);
    }

    /// Puts the files. On an error some may be there, which no table names.
    pub(super) fn finish(mut self, warehouse: &Warehouse) -> Result<Written, SinkError> {
        let mut files = Vec::new();
        for (day, mut rows) in std::mem::take(&mut self.days) {
            rows.encode(&self.format, day)?;
            if let Some(file) = rows.file.take() {
                match file.close(warehouse) {
                    Ok(file) => files.push(file),
                    Err(error) => {
                        remove_files(warehouse, &files);
                        return Err(error);
                    }
                }
            }
        }
        Ok(Written { from: self.from, to: self.to, files, rows: self.rows })
    }
}

impl<R: Rows> Day<R> {
    fn encode(&mut self, format: &Arc<Format>, day: i32) -> Result<(), SinkError> {
        if self.rows.len() == 0 {
            return Ok(());
        }
        let batch = self.rows.finish(&format.arrow)?;
        self.bytes = 0;
        if self.file.is_none() {
            self.file = Some(FileWriter::create(format, day)?);
        }
        self.file.as_mut().expect("made above").write(&batch)
    }
}

pub(super) fn remove_files(warehouse: &Warehouse, files: &[DataFile]) {
    warehouse.remove_all(files.iter().map(DataFile::file_path));
}
