//! `[log]` as it is written, and what it means.

use super::kafka::password;
use super::{ClientProperties, ConfigError, RegistryConfig, SaslConfig, TlsConfig};
use crate::log::embedded::{EmbeddedOptions, TopicOptions};
use crate::log::kafka::{KafkaOptions, KafkaTopic, Patience, RegistryOptions, SaslOptions};
use forebay_schemas::limit;
use forebay_schemas::quantity::{Size, Span};
use forebay_schemas::topic::{DEV_PARTITIONS, Topic};
use serde::{Deserialize, Deserializer, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// Of Kafka, as all keys from here on: `host:port` of some brokers, by which the others are found.
    pub brokers: Vec<String>,
    /// Copies of each partition, and how many of them must have a record before it counts.
    pub replicas: i32,
    pub min_insync_replicas: i32,
    pub tls: Option<TlsConfig>,
    pub sasl: Option<SaslConfig>,
    pub registry: Option<RegistryConfig>,
    pub client: ClientProperties,
}

/// Where the log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogKind {
    Embedded,
    Kafka,
}

#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopicsConfig {
    pub harvested: TopicConfig,
    pub trusted: TopicConfig,
    pub bad: TopicConfig,
    pub delta: TopicConfig,
    pub windows: TopicConfig,
    pub late: TopicConfig,
    pub repartition: TopicConfig,
}

/// How long and how much of a topic is kept. The embedded log keeps what a consumer still needs; Kafka does not ask.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopicConfig {
    /// On Kafka. Default: `forebay.<topic>`.
    pub name: Option<String>,
    /// Default: by topic, 7 or 30 days.
    pub retention: Option<Span>,
    /// Of keys, values and headers over all partitions. Default: no bound.
    pub max_bytes: Option<Size>,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            kind: LogKind::Embedded,
            dir: None,
            partitions: DEV_PARTITIONS,
            topics: TopicsConfig::default(),
            brokers: Vec::new(),
            replicas: 3,
            min_insync_replicas: 2,
            tls: None,
            sasl: None,
            registry: None,
            client: ClientProperties::default(),
        }
    }
}

impl LogConfig {
    pub fn dir(&self, data: &Path) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| data.join("log"))
    }

    pub fn embedded(&self) -> EmbeddedOptions {
        let topic = |topic: Topic| {
            let config = self.topics.of(topic);
            TopicOptions { retention: config.retention_of(topic), bytes_max: config.max_bytes.map(|size| size.0) }
        };
        EmbeddedOptions { partitions: self.partitions, topics: Topic::ALL.map(topic), ..EmbeddedOptions::default() }
    }

    /// What the keys say beside each other. Opens no file.
    pub fn check(&self) -> Result<(), ConfigError> {
        match self.kind {
            LogKind::Embedded if self.partitions > limit::LOG_PARTITIONS => {
                fail("log.partitions", &format!("the embedded log has at most {} partitions a topic", limit::LOG_PARTITIONS))
            }
            LogKind::Embedded if !self.brokers.is_empty() => {
                fail("log.brokers", "goes with log.kind = \"kafka\" alone: remove it, or set the kind")
            }
            LogKind::Embedded => Ok(()),
            LogKind::Kafka => self.check_kafka(),
        }
    }

    fn check_kafka(&self) -> Result<(), ConfigError> {
        let is_address = |broker: &String| {
            broker.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && !host.contains(['/', ',', ' ']) && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        if self.brokers.is_empty() || !self.brokers.iter().all(is_address) {
            return fail("log.brokers", "kind = \"kafka\" needs the addresses of brokers, like [\"kafka-1:9092\", \"kafka-2:9092\"]");
        }
        if !(1..=i32::from(i16::MAX)).contains(&self.replicas) {
            return fail("log.replicas", "a partition has at least 1 replica");
        }
        if !(1..=self.replicas).contains(&self.min_insync_replicas) {
            return fail("log.min_insync_replicas", "must be 1 to log.replicas");
        }
        let tls = self.tls.as_ref();
        if tls.is_some_and(|tls| tls.cert_file.is_some() != tls.key_file.is_some()) {
            return fail("log.tls", "cert_file and key_file go together");
        }
        if self.sasl.as_ref().is_some_and(|sasl| sasl.password_file.is_none() && sasl.password.is_none()) {
            return fail("log.sasl.password_file", "names the file that has the password; or set FOREBAY__LOG__SASL__PASSWORD");
        }
        if let Some(registry) = &self.registry {
            if !["http://", "https://"].iter().any(|scheme| registry.url.len() > scheme.len() && registry.url.starts_with(scheme)) {
                return fail("log.registry.url", "expected http://HOST:PORT or https://HOST");
            }
            if registry.username.is_none() && (registry.password_file.is_some() || registry.password.is_some()) {
                return fail("log.registry.username", "a password needs a username");
            }
        }
        self.check_names()
    }

    /// Kafka's own rules for names; two topics under one name would be one.
    fn check_names(&self) -> Result<(), ConfigError> {
        let mut names = Vec::new();
        for (topic, key) in Topic::ALL.into_iter().zip(TopicsConfig::NAME_KEYS) {
            let name = self.topics.of(topic).name_of(topic);
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            if name.is_empty() || name.len() > limit::TOPIC_NAME_BYTES || [".", ".."].contains(&name) || !name.chars().all(allowed) {
                let most = limit::TOPIC_NAME_BYTES;
                return fail(key, &format!("expected 1 to {most} letters, digits, dots, underscores and hyphens, like {:?}", topic.name()));
            }
            if names.contains(&name) {
                return fail(key, "another topic has this name already");
            }
            names.push(name);
        }
        Ok(())
    }

    /// Files that must be there, by their keys.
    pub fn files(&self) -> Vec<(&'static str, &Path)> {
        let (tls, sasl, registry) = (self.tls.as_ref(), self.sasl.as_ref(), self.registry.as_ref());
        let files = [
            ("log.tls.ca_file", tls.and_then(|tls| tls.ca_file.as_deref())),
            ("log.tls.cert_file", tls.and_then(|tls| tls.cert_file.as_deref())),
            ("log.tls.key_file", tls.and_then(|tls| tls.key_file.as_deref())),
            ("log.sasl.password_file", sasl.and_then(|sasl| sasl.password_file.as_deref())),
            ("log.registry.password_file", registry.and_then(|registry| registry.password_file.as_deref())),
            ("log.registry.ca_file", registry.and_then(|registry| registry.ca_file.as_deref())),
        ];
        files.into_iter().filter_map(|(key, file)| Some((key, file?))).collect()
    }

    /// What `kind = "kafka"` needs to be opened. Reads the passwords' files.
    pub fn kafka(&self) -> Result<KafkaOptions, ConfigError> {
        self.check_kafka()?;
        let topic = |topic: Topic| {
            let config = self.topics.of(topic);
            KafkaTopic {
                name: config.name_of(topic).to_owned(),
                retention: config.retention_of(topic),
                bytes_max: config.max_bytes.map(|size| size.0),
            }
        };
        let sasl = self.sasl.as_ref().map(|sasl| {
            let (file, here) = (sasl.password_file.as_deref(), sasl.password.as_ref());
            let password = password(file, here, "log.sasl.password_file", "log.sasl.password")?;
            let password = password.expect("checked above");
            Ok(SaslOptions { mechanism: sasl.mechanism, username: sasl.username.clone(), password })
        });
        let registry = self.registry.as_ref().map(|registry| {
            let (file, here) = (registry.password_file.as_deref(), registry.password.as_ref());
            let password = password(file, here, "log.registry.password_file", "log.registry.password")?;
            let (url, username) = (registry.url.trim_end_matches('/').to_owned(), registry.username.clone());
            Ok(RegistryOptions { url, username, password, ca_file: registry.ca_file.clone() })
        });
        Ok(KafkaOptions {
            brokers: self.brokers.clone(),
            partitions: self.partitions,
            replicas: self.replicas,
            min_insync_replicas: self.min_insync_replicas,
            topics: Topic::ALL.map(topic),
            tls: self.tls.clone(),
            sasl: sasl.transpose()?,
            registry: registry.transpose()?,
            client: self.client.0.clone(),
            patience: Patience::default(),
        })
    }
}

impl TopicsConfig {
    /// In the order of `Topic::ALL`.
    const NAME_KEYS: [&str; Topic::ALL.len()] = [
        "log.topics.harvested.name",
        "log.topics.trusted.name",
        "log.topics.bad.name",
        "log.topics.delta.name",
        "log.topics.windows.name",
        "log.topics.late.name",
        "log.topics.repartition.name",
    ];

    pub fn of(&self, topic: Topic) -> &TopicConfig {
        match topic {
            Topic::Harvested => &self.harvested,
            Topic::Trusted => &self.trusted,
            Topic::Bad => &self.bad,
            Topic::Delta => &self.delta,
            Topic::Windows => &self.windows,
            Topic::Late => &self.late,
            Topic::Repartition => &self.repartition,
        }
    }
}

impl TopicConfig {
    fn name_of(&self, topic: Topic) -> &str {
        self.name.as_deref().unwrap_or(topic.name())
    }
    fn retention_of(&self, topic: Topic) -> Duration {
        self.retention.map_or(Duration::from_secs(topic.retention_hours() * 3_600), |span| span.0)
    }
}

fn fail<T>(key: &'static str, what: &str) -> Result<T, ConfigError> {
    Err(ConfigError { key, what: what.to_owned() })
}

impl<'de> Deserialize<'de> for LogKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LogKind, D::Error> {
        super::kind(deserializer, &[("embedded", LogKind::Embedded), ("kafka", LogKind::Kafka)])
    }
}

fn partitions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    let partitions = i32::deserialize(deserializer)?;
    if (1..=limit::PARTITIONS).contains(&partitions) {
        return Ok(partitions);
    }
    Err(serde::de::Error::custom(format!("partitions must be 1 to {}", limit::PARTITIONS)))
}

#[cfg(test)]
mod tests;
