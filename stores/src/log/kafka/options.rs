//! What a log on Kafka is opened with. `LogConfig::kafka` makes it.

use crate::config::{SaslMechanism, Secret, TlsConfig};
use forebay_schemas::topic::Topic;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, PartialEq, Debug)]
pub struct KafkaOptions {
    /// `host:port`; at least one.
    pub brokers: Vec<String>,
    /// Of every topic.
    pub partitions: i32,
    pub replicas: i32,
    pub min_insync_replicas: i32,
    /// In the order of `Topic::ALL`.
    pub topics: [KafkaTopic; Topic::ALL.len()],
    /// `None`: the brokers are spoken to in clear.
    pub tls: Option<TlsConfig>,
    pub sasl: Option<SaslOptions>,
    /// `None`: schemas have the ids of the built-in list.
    pub registry: Option<RegistryOptions>,
    /// Properties of librdkafka beside those that the log sets.
    pub client: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KafkaTopic {
    pub name: String,
    pub retention: Duration,
    /// Over all partitions.
    pub bytes_max: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaslOptions {
    pub mechanism: SaslMechanism,
    pub username: String,
    pub password: Secret,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegistryOptions {
    /// Without a slash at its end.
    pub url: String,
    pub username: Option<String>,
    pub password: Option<Secret>,
    pub ca_file: Option<PathBuf>,
}

impl KafkaOptions {
    pub fn topic(&self, topic: Topic) -> &KafkaTopic {
        let place = Topic::ALL.iter().position(|known| *known == topic);
        &self.topics[place.expect("every topic is in the list of all")]
    }
    /// What `topic` is called on the brokers.
    pub fn name(&self, topic: Topic) -> &str {
        &self.topic(topic).name
    }
}
