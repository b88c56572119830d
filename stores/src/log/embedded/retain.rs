//! Retention: the oldest records go, in ranges.
//!
//! Owns: how far a partition's start may move, and moving it. Does not own: when.
//! Invariants: the start is durable before anything is deleted, so a crash between the two leaves records that nobody
//! sees; nothing at or above the slowest consumer's offset goes.

use super::folder::{damaged, family, io};
use super::meta::{Begin, begin_key};
use super::record::{self, Stamp};
use super::shared::{NotWritten, Open, Partition, Shared};
use crate::log::{Bounds, LogError, TopicPartition};
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use rocksdb::WriteBatch;

pub(super) fn retain(shared: &Shared, now: Micros, keep_from: &dyn Fn(TopicPartition) -> Option<i64>) -> Result<u64, LogError> {
    let _alone = shared.retaining.lock();
    let mut dropped = 0;
    for (topic, kept) in Topic::ALL.into_iter().zip(&shared.options.topics) {
        let span = i64::try_from(kept.retention.as_micros()).unwrap_or(i64::MAX);
        let oldest = now.saturating_add_micros(-span);
        let partitions: Vec<&Partition> = shared.partitions().iter().filter(|partition| partition.at.topic == topic).collect();
        for partition in &partitions {
            let bounds = partition.bounds();
            let mut start = first(shared, partition, bounds, |stamp| stamp.timestamp >= oldest)?;
            if let Some(bytes_max) = kept.bytes_max {
                let bytes_max = bytes_max / partitions.len() as u64;
                let position = partition.lock().position;
                start = start.max(first(shared, partition, bounds, |stamp| position.saturating_sub(stamp.position) <= bytes_max)?);
            }
            let start = keep_from(partition.at).map_or(start, |kept| start.min(kept));
            if start > bounds.start {
                move_start(shared, partition, start)?;
                dropped += start.abs_diff(bounds.start);
            }
        }
    }
    Ok(dropped)
}

pub(super) fn drop_before(shared: &Shared, at: TopicPartition, offset: i64) -> Result<(), LogError> {
    let _alone = shared.retaining.lock();
    let partition = shared.partition(at)?;
    let bounds = partition.bounds();
    if offset > bounds.end {
        return Err(LogError::OffsetOutOfRange { topic_partition: at, offset, bounds });
    }
    if offset > bounds.start { move_start(shared, partition, offset) } else { Ok(()) }
}

/// The first offset whose record `keeps`, or the end; times and positions only grow, so what is below it does not.
fn first(shared: &Shared, partition: &Partition, bounds: Bounds, keeps: impl Fn(Stamp) -> bool) -> Result<i64, LogError> {
    let db = shared.db()?;
    let (mut low, mut high) = (bounds.start, bounds.end);
    while low < high {
        // The oldest record first: most of the time it stays.
        let middle = if low == bounds.start && high == bounds.end { low } else { low + (high - low) / 2 };
        if keeps(stamp(&db, partition, middle)?) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

fn stamp(db: &Open<'_>, partition: &Partition, offset: i64) -> Result<Stamp, LogError> {
    let stored = db.get_pinned_cf(family(db, &partition.family)?, record::offset_key(offset)).map_err(io)?;
    stored.and_then(|stored| record::stamp(&stored)).ok_or_else(|| damaged(format_args!("record {offset} of {}", partition.family)))
}

fn move_start(shared: &Shared, partition: &Partition, start: i64) -> Result<(), LogError> {
    let db = shared.writable()?;
    let mut locked = partition.lock();
    let from = partition.bounds().start;
    if start <= from {
        return Ok(());
    }
    let begin = Begin { start, end: locked.end, timestamp: locked.timestamp, position: locked.position };
    let records = family(&db, &partition.family)?;
    let (first, last) = (record::offset_key(from), record::offset_key(start));
    let mut batch = WriteBatch::default();
    batch.put_cf(db.meta()?, begin_key(partition.at), begin.encode());
    batch.delete_range_cf(records, first, last);
    shared.write_batch(&db, batch).map_err(|e| match e {
        NotWritten::Refused(error) => error,
        NotWritten::Unknown(text) => LogError::Io(text),
    })?;
    partition.set_start(&mut locked, start);
    drop(locked);
    // Whole files go at once; what is left in files that reach over the start goes with their next compaction.
    db.delete_file_in_range_cf(records, first, record::offset_key(start - 1)).map_err(io)
}
