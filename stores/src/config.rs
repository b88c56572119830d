//! `[log]` and `[objects]` as they are written, and what they mean.
//!
//! Owns: names, defaults and checks of the two sections. Does not own: the data folder, below which both lie by default.

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

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectsConfig {
    pub kind: ObjectsKind,
    /// Default: `objects` in the data folder.
    pub dir: Option<PathBuf>,
}

/// Where objects are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectsKind {
    Folder,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { kind: LogKind::Embedded, dir: None, partitions: DEV_PARTITIONS, topics: TopicsConfig::default() }
    }
}

impl Default for ObjectsConfig {
    fn default() -> ObjectsConfig {
        ObjectsConfig { kind: ObjectsKind::Folder, dir: None }
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

impl ObjectsConfig {
    pub fn dir(&self, data: &Path) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| data.join("objects"))
    }
}

impl<'de> Deserialize<'de> for LogKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LogKind, D::Error> {
        kind(deserializer, &[("embedded", LogKind::Embedded)], &["kafka"])
    }
}

impl<'de> Deserialize<'de> for ObjectsKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ObjectsKind, D::Error> {
        kind(deserializer, &[("folder", ObjectsKind::Folder)], &["s3"])
    }
}

/// `planned` kinds have a message of their own: they are documented, so people will try them.
fn kind<'de, D: Deserializer<'de>, K: Copy>(deserializer: D, known: &[(&str, K)], planned: &[&str]) -> Result<K, D::Error> {
    let text = String::deserialize(deserializer)?;
    if let Some((_, kind)) = known.iter().find(|(name, _)| *name == text) {
        return Ok(*kind);
    }
    let names = known.iter().map(|(name, _)| format!("{name:?}")).collect::<Vec<_>>().join(" or ");
    Err(serde::de::Error::custom(if planned.contains(&text.as_str()) {
        format!("kind = {text:?} is not in this version yet: use {names}")
    } else {
        format!("unknown kind {text:?}: use {names}")
    }))
}

fn partitions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    let partitions = i32::deserialize(deserializer)?;
    if (1..=PARTITIONS_MAX).contains(&partitions) {
        return Ok(partitions);
    }
    Err(serde::de::Error::custom(format!("partitions must be 1 to {PARTITIONS_MAX}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, PartialEq, Debug, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct File {
        log: LogConfig,
        objects: ObjectsConfig,
    }

    #[test]
    fn sections_mean_what_they_say() {
        let text = "[log]\nkind = \"embedded\"\ndir = \"/srv/log\"\npartitions = 8\n[log.topics.bad]\nretention = \"90d\"\nmax_bytes = \"10GiB\"\n[objects]\nkind = \"folder\"\n";
        let file: File = toml::from_str(text).unwrap();
        let options = file.log.embedded();
        assert_eq!((options.partitions, file.log.dir(Path::new("data"))), (8, PathBuf::from("/srv/log")));
        assert_eq!(options.topics[0], EmbeddedOptions::default().topics[0]);
        assert_eq!(options.topics[2], TopicOptions { retention: Duration::from_secs(90 * 86_400), bytes_max: Some(10 << 30) });
        assert_eq!(file.objects.dir(Path::new("data")), PathBuf::from("data/objects"));
        assert_eq!(toml::from_str::<File>(&toml::to_string(&file).unwrap()).unwrap(), file);
        assert_eq!(toml::from_str::<File>("").unwrap(), File::default());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("[log]\nkind = \"kafka\"", "kind = \"kafka\" is not in this version yet: use \"embedded\""),
            ("[log]\nkind = \"paper\"", "unknown kind \"paper\": use \"embedded\""),
            ("[objects]\nkind = \"s3\"", "kind = \"s3\" is not in this version yet: use \"folder\""),
            ("[log]\npartitions = 0", "partitions must be 1 to 64"),
            ("[log]\npartition = 4", "unknown field `partition`, expected one of `kind`, `dir`, `partitions`, `topics`"),
            ("[log]\ntopics.late.retention = \"1d\"", "unknown field `late`"),
            ("[log]\ntopics.bad.retention = \"soon\"", "expected a quantity like \"60s\""),
        ] {
            let error = toml::from_str::<File>(text).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("line 2"), "{error}");
        }
    }
}
