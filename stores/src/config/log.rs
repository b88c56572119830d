//! `[log]` as it is written, and what it means.

use crate::log::embedded::{EmbeddedOptions, TopicOptions};
use forebay_schemas::quantity::{Size, Span};
use forebay_schemas::topic::{DEV_PARTITIONS, Topic};
use serde::{Deserialize, Deserializer, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// More column families would need more memory than the embedded log is given.
const PARTITIONS_MAX: i32 = 64;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    pub kind: LogKind,
    /// The embedded log's folder. Default: `log` in the data folder.
    pub dir: Option<PathBuf>,
    /// Of every topic. Fixed when the log is made.
    #[serde(deserialize_with = "partitions")]
    pub partitions: i32,
    pub topics: TopicsConfig,
}

/// Where the log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogKind {
    Embedded,
}

#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopicsConfig {
    pub harvested: TopicConfig,
    pub trusted: TopicConfig,
    pub bad: TopicConfig,
    pub delta: TopicConfig,
}

/// How long and how much of a topic is kept, at least: what a consumer still needs stays.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopicConfig {
    /// Default: by topic, 7 or 30 days.
    pub retention: Option<Span>,
    /// Of keys, values and headers over all partitions. Default: no bound.
    pub max_bytes: Option<Size>,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { kind: LogKind::Embedded, dir: None, partitions: DEV_PARTITIONS, topics: TopicsConfig::default() }
    }
}

impl LogConfig {
    pub fn dir(&self, data: &Path) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| data.join("log"))
    }

    pub fn embedded(&self) -> EmbeddedOptions {
        let topic = |topic: Topic| {
            let config = self.topics.of(topic);
            let retention = config.retention.map_or(Duration::from_secs(topic.retention_hours() * 3_600), |span| span.0);
            TopicOptions { retention, bytes_max: config.max_bytes.map(|size| size.0) }
        };
        EmbeddedOptions { partitions: self.partitions, topics: Topic::ALL.map(topic), ..EmbeddedOptions::default() }
    }
}

impl TopicsConfig {
    pub fn of(&self, topic: Topic) -> TopicConfig {
        match topic {
            Topic::Harvested => self.harvested,
            Topic::Trusted => self.trusted,
            Topic::Bad => self.bad,
            Topic::Delta => self.delta,
        }
    }
}

impl<'de> Deserialize<'de> for LogKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LogKind, D::Error> {
        super::kind(deserializer, &[("embedded", LogKind::Embedded)], &["kafka"])
    }
}

fn partitions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    let partitions = i32::deserialize(deserializer)?;
    if (1..=PARTITIONS_MAX).contains(&partitions) {
        return Ok(partitions);
    }
    Err(serde::de::Error::custom(format!("partitions must be 1 to {PARTITIONS_MAX}")))
}
