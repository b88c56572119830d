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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeLog, tick};
    use forebay_schemas::time::Micros;
    use forebay_schemas::topic::Topic;

    const AT: TopicPartition = TopicPartition { topic: Topic::Harvested, partition: 0 };

    /// Records at these offsets, and none at those between and behind them.
    fn log(offsets: &[i64], end: i64) -> FakeLog {
        let log = FakeLog::new(1);
        let mut next = 0;
        for offset in offsets {
            log.gap(AT, offset - next);
            log.append(vec![tick(0, "g", Micros(0))]).expect("fake");
            next = offset + 1;
        }
        log.gap(AT, end - next);
        log
    }

    #[test]
    fn h22_places_without_records_are_looked_over() {
        for (offsets, end) in [(&[0][..], 1), (&[0], 60), (&[3, 4, 20], 21), (&[3, 4, 20], 90), (&[40], 41), (&[], 0), (&[], 30)] {
            let log = log(offsets, end);
            let found = last(&log, AT).expect("fake").map(|record| record.offset);
            assert_eq!(found, offsets.last().copied(), "{offsets:?} before {end}");
            for bound in 0..=end {
                let past = first_past(&log, AT, |record| Ok::<_, LogError>(record.offset >= bound)).expect("fake");
                let (before, after): (Vec<i64>, Vec<i64>) = offsets.iter().partition(|offset| **offset < past);
                assert!(before.iter().all(|offset| *offset < bound), "{offsets:?}: {past} for {bound}");
                assert!(after.iter().all(|offset| *offset >= bound), "{offsets:?}: {past} for {bound}");
            }
        }
    }
}
