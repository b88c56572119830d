//! The log on this machine: RocksDB in one folder, one column family a topic and partition (design §8).
//!
//! Owns: offsets, append times, durability, transactions, fencing of lanes, retention; `meta` and `record` are its bytes.
//! Does not own: what records mean, when `retain` is called and what it must leave.
//! Invariants: what `append` or `commit` answered `Ok` survives a power cut; offsets of a partition have no gaps;
//! append times never go backwards; a reader sees a transaction when it is durable, or never; one process a folder.

use super::{Bounds, Committed, Entry, Lane, Log, LogError, Reader, TopicPartition};
use forebay_schemas::limit;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::{DEV_PARTITIONS, Topic};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

mod tuning;
mod meta;
mod record;
mod folder;
mod shared;
mod read;
mod lane;
mod retain;

use shared::{NotWritten, Shared};

/// Where append times come from.
pub type Clock = Arc<dyn Fn() -> Micros + Send + Sync>;

/// How long and how much of a topic is kept. Both are lower bounds: what a consumer still needs is kept longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicOptions {
    pub retention: Duration,
    /// Bytes of keys, values and headers over all partitions of the topic.
    pub bytes_max: Option<u64>,
}

#[derive(Clone)]
pub struct EmbeddedOptions {
    /// Of every topic. Fixed when the folder is made: another number is refused later.
    pub partitions: i32,
    /// In the order of `Topic::ALL`.
    pub topics: [TopicOptions; Topic::ALL.len()],
    /// All memtables together.
    pub memtable_bytes: usize,
    pub cache_bytes: usize,
    pub clock: Clock,
}

impl Default for EmbeddedOptions {
    fn default() -> EmbeddedOptions {
        let kept = |topic: Topic| TopicOptions { retention: Duration::from_secs(topic.retention_hours() * 3_600), bytes_max: None };
        EmbeddedOptions {
            partitions: DEV_PARTITIONS,
            topics: Topic::ALL.map(kept),
            memtable_bytes: limit::LOG_MEMTABLE_BYTES,
            cache_bytes: limit::LOG_CACHE_BYTES,
            clock: Arc::new(|| SystemTime::now().into()),
        }
    }
}

/// The folder stays open, and locked, until this and all readers and lanes of it are dropped. Dropping needs no closing:
/// it does no more than a kill would.
pub struct EmbeddedLog {
    shared: Arc<Shared>,
}

impl fmt::Debug for EmbeddedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedLog").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

impl EmbeddedLog {
    /// Opens the log in `dir` and makes it when there is none. Fails when another process has it open.
    pub fn open(dir: &Path, options: EmbeddedOptions) -> Result<EmbeddedLog, LogError> {
        Ok(EmbeddedLog { shared: Arc::new(Shared::open(dir, options)?) })
    }

    /// Opens what lies in `dir` for reading and changes nothing in it. For a folder that no process writes: what a
    /// running one appends is not seen.
    pub fn open_read_only(dir: &Path) -> Result<EmbeddedLog, LogError> {
        Ok(EmbeddedLog { shared: Arc::new(Shared::open_read_only(dir)?) })
    }

    /// Drops what is older than its topic's retention at `now`, or over its topic's bytes, but nothing at or above
    /// `keep_from`, the committed offset of the partition's slowest consumer (`None`: nobody needs anything).
    /// Returns how many records were dropped.
    pub fn retain(&self, now: Micros, keep_from: &dyn Fn(TopicPartition) -> Option<i64>) -> Result<u64, LogError> {
        retain::retain(&self.shared, now, keep_from)
    }

    /// Drops the records below `offset`, durably, as Kafka's DeleteRecords does.
    pub fn drop_before(&self, at: TopicPartition, offset: i64) -> Result<(), LogError> {
        retain::drop_before(&self.shared, at, offset)
    }
}

impl Log for EmbeddedLog {
    /// 0 when a folder that is open for reading only has no such topic.
    fn partitions(&self, topic: Topic) -> i32 {
        self.shared.topic(topic).map_or(0, |topic| topic.partitions)
    }

    fn topic_id(&self, topic: Topic) -> Result<String, LogError> {
        let meta = self.shared.topic(topic).ok_or_else(|| LogError::Io(format!("no topic {}", topic.word())))?;
        Ok(meta.id.hyphenated().to_string())
    }

    fn append(&self, entries: Vec<(TopicPartition, Entry)>) -> Result<(), LogError> {
        self.shared.write(&entries, |_, _| Ok(())).map_err(|e| match e {
            NotWritten::Refused(error) => error,
            NotWritten::Unknown(text) => LogError::Io(text),
        })
    }

    fn bounds(&self, at: TopicPartition) -> Result<Bounds, LogError> {
        Ok(self.shared.partition(at)?.bounds())
    }

    fn reader(&self, at: TopicPartition, from: i64) -> Result<Box<dyn Reader>, LogError> {
        Ok(Box::new(read::EmbeddedReader::open(&self.shared, at, from)?))
    }

    fn lane(&self, id: &str) -> Result<Box<dyn Lane>, LogError> {
        Ok(Box::new(lane::EmbeddedLane::open(&self.shared, id)?))
    }

    fn committed(&self, id: &str, at: TopicPartition) -> Result<Option<Committed>, LogError> {
        lane::committed(&self.shared, id, at)
    }

    fn wait_past(&self, positions: &[(TopicPartition, i64)], wait: Duration) {
        self.shared.wait_past(positions, wait);
    }
}

#[cfg(test)]
mod tests;
