//! How far the table has taken its topic: stored in the table, in the commit that adds the rows.
//!
//! Owns: the JSON of the table property and snapshot summary `forebay.offsets`, and the judgement whether it fits the
//! log. Does not own: writing it (`commit`). Invariant: offsets that do not fit are never answered by skipping.

use super::error::{Refusal, SinkError};
use forebay_schemas::topic::Topic;
use forebay_stores::log::{Bounds, Log, TopicPartition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Key of the table property and of the snapshot summary.
pub const PROPERTY: &str = "forebay.offsets";

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Offsets {
    /// Id of the topic that fills the table.
    pub topic: String,
    /// Id of the harvested topic, from which all that `seen` speaks of was made.
    pub input: String,
    /// Partition → the offset to read next.
    pub next: BTreeMap<i32, i64>,
    /// Partition → the highest offset among its rows: of trusted events the harvested one (`provenance.offset`), of
    /// window results their own. A record at or below it may be a redelivery and is looked up in the table.
    pub seen: BTreeMap<i32, i64>,
}

impl Offsets {
    pub fn parse(text: &str) -> Result<Offsets, Refusal> {
        serde_json::from_str(text).map_err(|e| Refusal::Unreadable(e.to_string()))
    }
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers alone")
    }
    pub fn covers(&self, partition: i32, offset: i64) -> bool {
        self.next.get(&partition).is_some_and(|next| offset < *next)
    }
}

/// What a sink must know of the log before it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LogView {
    pub of: Topic,
    pub topic: String,
    pub input: String,
    pub bounds: BTreeMap<i32, Bounds>,
}

impl LogView {
    pub(super) fn of(log: &dyn Log, topic: Topic) -> Result<LogView, SinkError> {
        let (id, input) = (log.topic_id(topic)?, log.topic_id(Topic::Harvested)?);
        Ok(LogView { of: topic, topic: id, input, bounds: bounds(log, topic)? })
    }
}

/// Of every partition.
pub(super) fn bounds(log: &dyn Log, topic: Topic) -> Result<BTreeMap<i32, Bounds>, SinkError> {
    let of = |partition| Ok((partition, log.bounds(TopicPartition { topic, partition })?));
    (0..log.partitions(topic)).map(of).collect()
}

/// The offsets to read from. `adopt` is the operator's word that topics which do not fit are to be taken on.
pub(super) fn resume(stored: Option<&Offsets>, log: &LogView, adopt: Option<&str>) -> Result<Offsets, Refusal> {
    let starts = || log.bounds.iter().map(|(partition, bounds)| (*partition, bounds.start));
    let seen = stored.filter(|stored| stored.input == log.input).map(|stored| stored.seen.clone()).unwrap_or_default();
    let next = match stored {
        None => starts().collect(),
        Some(stored) => match fits(stored, log) {
            // A partition that the topic got since then begins at its start.
            Ok(()) => starts().chain(stored.next.iter().map(|(partition, next)| (*partition, *next))).collect(),
            Err(refusal) if !adopt.is_some_and(|ids| ids.split_whitespace().any(|id| id == log.topic)) => return Err(refusal),
            Err(refusal) => {
                tracing::warn!(%refusal, "sink.table.adopt_topic names this topic: reading it from its start");
                starts().collect()
            }
        },
    };
    Ok(Offsets { topic: log.topic.clone(), input: log.input.clone(), next, seen })
}

fn fits(stored: &Offsets, log: &LogView) -> Result<(), Refusal> {
    let of = log.of.word();
    if stored.topic != log.topic {
        return Err(Refusal::OtherTopic { of, stored: stored.topic.clone(), found: log.topic.clone() });
    }
    for (&partition, &offset) in &stored.next {
        let bounds = log.bounds.get(&partition).copied().unwrap_or(Bounds { start: 0, end: 0 });
        if offset > bounds.end {
            return Err(Refusal::PastEnd { of, topic: log.topic.clone(), partition, stored: offset, end: bounds.end });
        }
        if offset < bounds.start {
            return Err(Refusal::BelowStart { of, topic: log.topic.clone(), partition, stored: offset, start: bounds.start });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(topic: &str, input: &str, bounds: &[(i64, i64)]) -> LogView {
        let bounds = (0..).zip(bounds.iter().map(|&(start, end)| Bounds { start, end })).collect();
        LogView { of: Topic::Windows, topic: topic.into(), input: input.into(), bounds }
    }
    fn offsets(topic: &str, next: &[i64], seen: &[i64]) -> Offsets {
        Offsets {
            topic: topic.into(),
            input: "h".into(),
            next: (0..).zip(next.iter().copied()).collect(),
            seen: (0..).zip(seen.iter().copied()).collect(),
        }
    }

    #[test]
    fn fresh_table_reads_from_the_start_and_a_new_partition_too() {
        let two = log("t", "h", &[(3, 9), (0, 4)]);
        assert_eq!(resume(None, &two, None), Ok(offsets("t", &[3, 0], &[])));
        assert_eq!(resume(Some(&offsets("t", &[7], &[70])), &two, None), Ok(offsets("t", &[7, 0], &[70])));
    }

    #[test]
    fn offsets_that_do_not_fit_refuse_until_the_topic_is_adopted() {
        let stored = offsets("t", &[5, 2], &[50, 20]);
        let cases = [
            (log("t2", "h", &[(0, 9), (0, 9)]), "OtherTopic"),
            (log("t", "h", &[(0, 4), (0, 9)]), "PastEnd"),
            (log("t", "h", &[(0, 9), (3, 9)]), "BelowStart"),
            (log("t", "h", &[(0, 9)]), "PastEnd"),
        ];
        for (log, expected) in cases {
            let refusal = resume(Some(&stored), &log, Some("other")).expect_err(expected);
            assert!(format!("{refusal:?}").starts_with(expected), "{refusal:?}");
            assert!(refusal.to_string().contains(&format!("adopt_topic = \"{}\"", log.topic)), "{refusal}");
            let adopted = resume(Some(&stored), &log, Some(&format!("other {}", log.topic))).expect("adopted");
            assert!(adopted.next.iter().all(|(p, next)| *next == log.bounds[p].start));
            assert_eq!(adopted.seen, stored.seen);
        }
        assert!(resume(Some(&stored), &log("t", "h2", &[(0, 9), (0, 9)]), None).expect("fits").seen.is_empty());
    }

    #[test]
    fn text_round_trips_and_tells_what_is_covered() {
        let stored = offsets("t", &[5, 0], &[7]);
        assert_eq!(stored.to_text(), r#"{"topic":"t","input":"h","next":{"0":5,"1":0},"seen":{"0":7}}"#);
        assert_eq!(Offsets::parse(&stored.to_text()), Ok(stored.clone()));
        assert!(Offsets::parse("{}").is_err());
        assert_eq!([(0, 4), (0, 5), (1, 0), (2, 0)].map(|(p, o)| stored.covers(p, o)), [true, false, false, false]);
    }
}
