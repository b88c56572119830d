//! The one table of topics (design §4.3): name, cleanup, retention, timestamps, message bound.

use crate::limit;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Topic {
    Harvested,
    Trusted,
    Bad,
    Delta,
    Windows,
    Late,
    /// Between the two stages of windows whose keys span partitions; nobody else's to read.
    Repartition,
}

impl Topic {
    pub const ALL: [Topic; 7] =
        [Topic::Harvested, Topic::Trusted, Topic::Bad, Topic::Delta, Topic::Windows, Topic::Late, Topic::Repartition];
    /// The word by which commands name it.
    pub fn word(self) -> &'static str {
        match self {
            Topic::Harvested => "harvested",
            Topic::Trusted => "trusted",
            Topic::Bad => "bad",
            Topic::Delta => "delta",
            Topic::Windows => "windows",
            Topic::Late => "late",
            Topic::Repartition => "repartition",
        }
    }
    /// The topic's default name on the log.
    pub fn name(self) -> &'static str {
        match self {
            Topic::Harvested => "forebay.harvested",
            Topic::Trusted => "forebay.trusted",
            Topic::Bad => "forebay.bad",
            Topic::Delta => "forebay.delta",
            Topic::Windows => "forebay.windows",
            Topic::Late => "forebay.late",
            Topic::Repartition => "forebay.repartition",
        }
    }
    pub fn from_word(word: &str) -> Option<Topic> {
        Topic::ALL.into_iter().find(|t| t.word() == word || t.name() == word)
    }
    /// Id of the value's schema in the Confluent wire format when no registry is configured.
    pub fn schema_id(self) -> u32 {
        match self {
            Topic::Harvested => 1,
            Topic::Trusted => 2,
            Topic::Bad => 3,
            Topic::Delta => 4,
            Topic::Windows => 5,
            Topic::Late => 6,
            Topic::Repartition => 7,
        }
    }
    /// Default retention, hours.
    pub fn retention_hours(self) -> u64 {
        match self {
            Topic::Harvested | Topic::Trusted | Topic::Delta | Topic::Windows | Topic::Late | Topic::Repartition => 7 * 24,
            Topic::Bad => 30 * 24,
        }
    }
    /// A retention below this is refused, hours: what waits for a reader that is down would be gone. Of deltas,
    /// recovery needs as many as the configuration says.
    pub fn retention_hours_min(self) -> u64 {
        match self {
            Topic::Harvested | Topic::Trusted | Topic::Bad | Topic::Windows | Topic::Late | Topic::Repartition => 24,
            Topic::Delta => 48,
        }
    }
}

/// A setting that every topic has on Kafka, whatever the configuration says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Kafka's name for it.
    pub name: &'static str,
    pub value: &'static str,
    /// What goes wrong without it; `None`: nothing that a law forbids.
    pub why: Option<&'static str>,
    /// Whether it may be set on a topic that is there: it does not touch the records in it.
    pub changeable: bool,
}

pub const SETTINGS: [Setting; 4] = [
    Setting {
        name: "cleanup.policy",
        value: "delete",
        why: Some("compaction takes records out of the middle of the log"),
        changeable: false,
    },
    Setting {
        name: "message.timestamp.type",
        value: "LogAppendTime",
        why: Some("log time must be the log's, not its producers'"),
        changeable: true,
    },
    Setting {
        name: "unclean.leader.election.enable",
        value: "false",
        why: Some("a leader that missed records would give their offsets to others"),
        changeable: true,
    },
    Setting { name: "compression.type", value: "producer", why: None, changeable: true },
];

/// The largest batch that a topic must take: a message alone in its batch, with room for the batch's own words.
pub const BATCH_BYTES: usize = limit::MESSAGE_BYTES + limit::BATCH_OVERHEAD_BYTES;
/// Kafka removes whole segments: one at least this often, hours, so that records go at most this much after their time.
pub const SEGMENT_HOURS: u64 = 24;

/// Partitions of every topic in `dev`; equal for all topics, since output partition = input partition.
pub const DEV_PARTITIONS: i32 = 4;
/// The header of a tick (design §4.2): microseconds since the epoch, decimal text.
pub const PUBLISHED_THROUGH: &str = "published_through";
