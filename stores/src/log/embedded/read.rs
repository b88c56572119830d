//! Reading a partition forwards.
//!
//! Owns: the position. Invariant: each record follows the one before it by one; a hole is an error, never a jump.

use super::folder::{damaged, family, io};
use super::record;
use super::shared::{Partition, Shared};
use crate::log::{Bounds, LogError, Reader, Record, TopicPartition};
use bytes::BytesMut;
use rocksdb::ReadOptions;
use std::sync::Arc;

/// Records read together share buffers of this size, so that reading one costs no allocation.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) struct EmbeddedReader {
    shared: Arc<Shared>,
    at: TopicPartition,
    position: i64,
    buffer: BytesMut,
}

impl EmbeddedReader {
    pub fn open(shared: &Arc<Shared>, at: TopicPartition, from: i64) -> Result<EmbeddedReader, LogError> {
        check(at, from, shared.partition(at)?.bounds())?;
        Ok(EmbeddedReader { shared: Arc::clone(shared), at, position: from, buffer: BytesMut::new() })
    }

    /// Why the record at `position` was not found where it must be: retention took it while we read, or it is lost.
    fn hole(&self, partition: &Partition, position: i64) -> LogError {
        match check(self.at, position, partition.bounds()) {
            Err(passed_by_retention) => passed_by_retention,
            Ok(()) => damaged(format_args!("record {position} of {} is missing", partition.family)),
        }
    }
}

fn check(at: TopicPartition, offset: i64, bounds: Bounds) -> Result<(), LogError> {
    if offset < bounds.start || offset > bounds.end {
        return Err(LogError::OffsetOutOfRange { topic_partition: at, offset, bounds });
    }
    Ok(())
}

impl Reader for EmbeddedReader {
    fn read(&mut self, bytes_max: usize, records_max: usize) -> Result<Vec<Record>, LogError> {
        let partition = self.shared.partition(self.at)?;
        let bounds = partition.bounds();
        check(self.at, self.position, bounds)?;
        let mut records = Vec::new();
        if self.position == bounds.end || records_max == 0 {
            return Ok(records);
        }
        let db = self.shared.db()?;
        let mut range = ReadOptions::default();
        range.set_iterate_lower_bound(record::offset_key(self.position));
        range.set_iterate_upper_bound(record::offset_key(bounds.end));
        range.fill_cache(false);
        let mut stored = db.raw_iterator_cf_opt(family(&db, &partition.family)?, range);
        stored.seek_to_first();
        let (mut position, mut bytes) = (self.position, 0);
        while let Some((key, value)) = stored.item() {
            if record::key_offset(key) != Some(position) {
                return Err(self.hole(partition, position));
            }
            if bytes > 0 && bytes + value.len() > bytes_max {
                break;
            }
            if self.buffer.capacity() < value.len() {
                self.buffer = BytesMut::with_capacity(value.len().max(BUFFER_BYTES));
            }
            self.buffer.extend_from_slice(value);
            let record = record::decode(position, self.buffer.split().freeze());
            records.push(record.ok_or_else(|| damaged(format_args!("record {position} of {}", partition.family)))?);
            bytes += value.len();
            position += 1;
            if records.len() == records_max {
                break;
            }
            stored.next();
        }
        stored.status().map_err(io)?;
        if !stored.valid() && position < bounds.end {
            return Err(self.hole(partition, position));
        }
        self.position = position;
        Ok(records)
    }

    fn read_to(&mut self, end: i64, bytes_max: usize, records_max: usize) -> Result<Vec<Record>, LogError> {
        let left = usize::try_from(end.saturating_sub(self.position)).unwrap_or(0);
        self.read(bytes_max, records_max.min(left))
    }

    fn position(&self) -> i64 {
        self.position
    }
}
