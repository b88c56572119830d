//! The log: topics of partitions of records, LogAppendTime, delete policy, transactions that also move input offsets.
//!
//! Every form is blocking and is called from threads of its own. Readers are `read_committed`: a record of a
//! transaction is seen when the transaction is committed, or never. Offsets grow along a partition, and some may hold no
//! record (Kafka's transaction markers).

pub mod embedded;
pub mod kafka;

use bytes::Bytes;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use std::time::Duration;

/// What a producer appends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    pub key: Bytes,
    /// `None`: a record without a value (a tick).
    pub value: Option<Bytes>,
    pub headers: Vec<(String, Bytes)>,
}

/// What a reader gets. `timestamp` is the log's append time. Its bytes share one buffer with the records read beside it:
/// copy what is kept for long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub offset: i64,
    pub timestamp: Micros,
    pub key: Bytes,
    pub value: Option<Bytes>,
    pub headers: Vec<(String, Bytes)>,
}

/// A partition of a topic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicPartition {
    pub topic: Topic,
    pub partition: i32,
}

/// Offsets that exist: `[start, end)`. `start` moves up with retention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    pub start: i64,
    pub end: i64,
}

/// The committed place of a lane in one input partition; `metadata` carries `seq` (design §6.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    pub offset: i64,
    pub metadata: String,
}

/// All or nothing: outputs and the input offsets they stand for.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    pub outputs: Vec<(TopicPartition, Entry)>,
    pub offsets: Vec<(TopicPartition, Committed)>,
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The offset is below `Bounds::start` or above `Bounds::end`. Never answered by jumping elsewhere.
    #[error("{topic_partition:?}: offset {offset} is outside the log, which holds {bounds:?}")]
    OffsetOutOfRange { topic_partition: TopicPartition, offset: i64, bounds: Bounds },
    /// The record is larger than `limit::MESSAGE_BYTES`.
    #[error("{topic_partition:?}: a record of {bytes} bytes is over the message limit")]
    TooLarge { topic_partition: TopicPartition, bytes: usize },
    /// Another process owns this log or this lane now.
    #[error("fenced: {0}")]
    Fenced(String),
    /// What waiting does not change: a topic is missing or not as it must be, an ACL or the credentials deny.
    #[error("the log refuses: {0}")]
    Refused(String),
    /// Anything that may pass: no broker answers, a disk is full.
    #[error("log: {0}")]
    Io(String),
}

/// How a commit ended when it did not end well.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Nothing of it is visible; the same buffers may be committed again.
    #[error("transaction aborted: {0}")]
    Aborted(String),
    /// Nobody knows: open the lane anew and read what is committed (design §6.2).
    #[error("outcome of the transaction unknown: {0}")]
    Unknown(String),
    #[error("fenced: {0}")]
    Fenced(String),
    /// As `LogError::Refused`; nothing of it is visible.
    #[error("the log refuses: {0}")]
    Refused(String),
}

/// Of what was found before the transaction began. What waiting does not change is refused, or it would be tried for ever (H11).
impl From<LogError> for CommitError {
    fn from(error: LogError) -> CommitError {
        match error {
            LogError::Fenced(why) => CommitError::Fenced(why),
            LogError::Refused(why) => CommitError::Refused(why),
            LogError::OffsetOutOfRange { .. } | LogError::TooLarge { .. } => CommitError::Refused(error.to_string()),
            LogError::Io(_) => CommitError::Aborted(error.to_string()),
        }
    }
}

/// A log. The id of each topic is given when the topic is created and tells a recreated topic from the old one.
pub trait Log: Send + Sync {
    /// Of every topic, as configured; asks nobody.
    fn partitions(&self, topic: Topic) -> i32;
    fn topic_id(&self, topic: Topic) -> Result<String, LogError>;
    /// Appends in order; durable (synced, or acks=all) when it returns `Ok`. On an error any prefix may be there.
    fn append(&self, entries: Vec<(TopicPartition, Entry)>) -> Result<(), LogError>;
    fn bounds(&self, at: TopicPartition) -> Result<Bounds, LogError>;
    /// A reader that begins at `from`, an offset within the bounds (`end` is allowed).
    fn reader(&self, at: TopicPartition, from: i64) -> Result<Box<dyn Reader>, LogError>;
    /// Opens lane `id` and fences whoever held it (Kafka: `transactional.id`).
    fn lane(&self, id: &str) -> Result<Box<dyn Lane>, LogError>;
    /// What lane `id` has committed for `at`, without opening it.
    fn committed(&self, id: &str, at: TopicPartition) -> Result<Option<Committed>, LogError>;
    /// Blocks until any partition may hold a record at or after the position given for it, at most for `wait`. At once
    /// when one does already.
    fn wait_past(&self, positions: &[(TopicPartition, i64)], wait: Duration);
}

/// Reads one partition forwards.
pub trait Reader: Send {
    /// What is at hand, without waiting: up to about `bytes_max` of records, at least one if there is one. Empty says
    /// "nothing now", not "nothing more": records may be on their way from a broker. Fails with `OffsetOutOfRange` when
    /// retention has passed the reader, with `Io` when a record is missing or damaged.
    fn read(&mut self, bytes_max: usize, records_max: usize) -> Result<Vec<Record>, LogError>;
    /// The next records below `end` (an offset within the log's bounds), waited for; empty when none is left below it.
    /// Bounded as `read` is; fails with `Io` when the log does not give them within `limit::LOG_ANSWER_MS`.
    fn read_to(&mut self, end: i64, bytes_max: usize, records_max: usize) -> Result<Vec<Record>, LogError>;
    /// The offset that the next record will have, or more.
    fn position(&self) -> i64;
}

/// One transactional producer and the offsets it commits.
pub trait Lane: Send {
    fn committed(&mut self, at: TopicPartition) -> Result<Option<Committed>, LogError>;
    /// `Ok` = known committed and durable; readers see it at once, or a moment later when the log is elsewhere.
    fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError>;
}

#[cfg(test)]
mod conformance;
