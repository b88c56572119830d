//! Why the enricher does not start or a lane stops. Each message says what to do when there is something to do.

use crate::config::ConfigError;
use crate::delta::ChainError;
use crate::state::StateError;
use forebay_stores::log::{Bounds, LogError};

/// Why `Enricher::start` failed. What a lane meets later is told by `failed`.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the log cannot tell its topics: {0}")]
    Log(LogError),
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Why a lane stopped. Nothing is lost by it: what was not committed is read again at the next start.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    #[error("another process runs this lane now, or this one stood still for longer than a transaction lasts ({0}); of two, stop one")]
    Fenced(String),
    #[error("task {task}: another process committed meanwhile (offset {found:?} where {expected:?} stood); stop one of them")]
    Moved { task: i32, expected: Option<i64>, found: Option<i64> },
    #[error("other enrichers take the same tasks over again and again; give all of a job the same `enricher.lanes`, and each lane to one")]
    Contested,
    #[error(
        "task {task}: record {offset} is next, but the log holds [{start}, {end}): retention took records that were not processed; \
         the raw landing has them"
    )]
    InputGone { task: i32, offset: i64, start: i64, end: i64 },
    #[error("task {task}: the log committed a part of a transaction; it cannot be trusted")]
    Torn { task: i32 },
    #[error("stopped before the last commit was through ({0}); its records are read again at the next start")]
    Stopped(String),
    #[error("stopped while starting")]
    Interrupted,
    #[error("task {task}: {error}")]
    State { task: i32, error: StateError },
    #[error("task {task}: {error}")]
    Recovery { task: i32, error: RecoveryError },
    #[error(transparent)]
    Log(LogError),
    #[error("a defect stopped the lane's thread")]
    Panicked,
}

impl LaneError {
    /// An error of one task's recovery. That nobody answers concerns no task.
    pub fn recovery(task: i32, error: RecoveryError) -> LaneError {
        match error {
            RecoveryError::Log(error @ (LogError::Io(_) | LogError::Refused(_) | LogError::Fenced(_))) => error.into(),
            error => LaneError::Recovery { task, error },
        }
    }
    /// A wish to stop that came before anything was committed.
    pub fn while_starting(self) -> LaneError {
        if let LaneError::Stopped(_) = self { LaneError::Interrupted } else { self }
    }
    /// An error of reading a task's input.
    pub fn reading(task: i32, error: LogError) -> LaneError {
        match error {
            LogError::OffsetOutOfRange { offset, bounds: Bounds { start, end }, .. } => LaneError::InputGone { task, offset, start, end },
            error => error.into(),
        }
    }
}

impl From<LogError> for LaneError {
    fn from(error: LogError) -> LaneError {
        match error {
            LogError::Fenced(why) => LaneError::Fenced(why),
            LogError::OffsetOutOfRange { .. } | LogError::TooLarge { .. } | LogError::Refused(_) | LogError::Io(_) => LaneError::Log(error),
        }
    }
}

/// Why a task's state cannot be had back.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error("a delta cannot be read: {0}")]
    Delta(#[from] forebay_schemas::wire::avro::DecodeError),
    #[error(
        "the committed offset's metadata {0:?} holds no seq: it was not written by this job; delete the group's offsets, and the \
         last delta tells where to go on"
    )]
    Metadata(String),
    #[error("its last commit was made by {holder}, which another process has taken meanwhile; give all of a job the same `enricher.lanes`")]
    HeldByAnother { holder: String },
    #[error(
        "commit {seq} was made from another harvested topic (id {other}; now {found}): its offsets mean nothing here; if the topic is \
         new on purpose, remove the topic of deltas and the state folder too"
    )]
    OtherInput { seq: i64, other: String, found: String },
    #[error("retention took deltas while they were read (offset {offset}; now from {start}): keep the topic of deltas longer")]
    DeltasGone { offset: i64, start: i64 },
    #[error("the topic had {committed} partitions when this was committed and has {found} now; keys would change their tasks")]
    Partitions { committed: i64, found: i32 },
    #[error(
        "commit {seq} stands at offset {offset}, but the log holds [{start}, {end}): retention took records that were not \
         processed, or the log was cut"
    )]
    InputGone { seq: i64, offset: i64, start: i64, end: i64 },
    #[error("deltas end at commit {found}, but commit {committed} was made: state cannot be had back from the log")]
    DeltasEnd { committed: i64, found: i64 },
    #[error(
        "the oldest delta kept follows commit {prev_seq} and is {age_s} s older than the last; a state from deltas alone needs \
         {needed_s} s (dedup.ttl and a quarter): keep the topic of deltas longer"
    )]
    DeltasTooYoung { prev_seq: i64, age_s: i64, needed_s: i64 },
    #[error("commit {seq}: offset {committed} is committed, but its delta says {delta}; the offset was moved by hand")]
    OffsetMoved { seq: i64, committed: i64, delta: i64 },
    #[error(
        "there is local state (commit {seq}), but the log has neither a committed offset nor deltas for it; if the log is \
         new on purpose, remove the state folder of this task"
    )]
    Orphan { seq: i64 },
    #[error("the deltas are those of job {found:?}; a job of another name needs topics of its own")]
    OtherJob { found: String },
    #[error("stopped while recovering")]
    Stopped,
}
