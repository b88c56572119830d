//! Finding records by what grows along a partition (`seq`, times, input offsets), without reading it all.
//!
//! Owns: halving over offsets, of which some may hold no record (transaction markers). Does not own: what grows.

use forebay_schemas::limit;
use forebay_stores::log::{Bounds, Log, LogError, Record, TopicPartition};

/// The offset from which on every record is `past`, found by halving: once a record is past, all later ones are.
pub fn first_past<E: From<LogError>>(log: &dyn Log, at: TopicPartition, mut past: impl FnMut(Record) -> Result<bool, E>) -> Result<i64, E> {
    let Bounds { start, end } = log.bounds(at)?;
    let (mut low, mut high) = (start, end);
    while low < high {
        let middle = low + (high - low) / 2;
        match log.reader(at, middle)?.read_to(end, 1, 1)?.pop() {
            Some(record) => {
                let next = record.offset + 1;
                if past(record)? { high = middle } else { low = next }
            }
            None => high = middle,
        }
    }
    Ok(low)
}

/// The newest record, looked for backwards.
pub fn last(log: &dyn Log, at: TopicPartition) -> Result<Option<Record>, LogError> {
    let Bounds { start, end } = log.bounds(at)?;
    if end == start {
        return Ok(None);
    }
    // The last record, and the marker of its transaction.
    let mut back = 2;
    loop {
        let from = (end - back).max(start);
        let mut reader = log.reader(at, from)?;
        let mut last = None;
        while let Some(record) = reader.read_to(end, limit::DELTA_BYTES, limit::COMMIT_RECORDS)?.pop() {
            last = Some(record);
        }
        if last.is_some() || from == start {
            return Ok(last);
        }
        back *= 4;
    }
}
