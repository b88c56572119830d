//! The one table of topics (design §4.3): name, cleanup, retention, timestamps, message bound.

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Topic {
    Harvested,
    Trusted,
    Bad,
    Delta,
}

impl Topic {
    pub const ALL: [Topic; 4] = [Topic::Harvested, Topic::Trusted, Topic::Bad, Topic::Delta];
    /// The word by which commands name it.
    pub fn word(self) -> &'static str {
        match self {
            Topic::Harvested => "harvested",
            Topic::Trusted => "trusted",
            Topic::Bad => "bad",
            Topic::Delta => "delta",
        }
    }
    /// The topic's default name on the log.
    pub fn name(self) -> &'static str {
        match self {
            Topic::Harvested => "forebay.harvested",
            Topic::Trusted => "forebay.trusted",
            Topic::Bad => "forebay.bad",
            Topic::Delta => "forebay.delta",
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
        }
    }
    /// Default retention, hours.
    pub fn retention_hours(self) -> u64 {
        match self {
            Topic::Harvested | Topic::Trusted | Topic::Delta => 7 * 24,
            Topic::Bad => 30 * 24,
        }
    }
}

/// Partitions of every topic in `dev`; equal for all topics, since output partition = input partition.
pub const DEV_PARTITIONS: i32 = 4;
/// The header of a tick (design §4.2): microseconds since the epoch, decimal text.
pub const PUBLISHED_THROUGH: &str = "published_through";
