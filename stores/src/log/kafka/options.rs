//! What a log on Kafka is opened with. `LogConfig::kafka` makes it.

use crate::config::{SaslMechanism, Secret, TlsConfig};
use forebay_schemas::limit;
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
    pub patience: Patience,
}

/// How long the brokers are waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patience {
    /// An answer to a question.
    pub answer: Duration,
    /// The acknowledgements of an append.
    pub append: Duration,
    /// A whole commit. Shorter than `transaction` by far enough that the brokers do not end it before us: being fenced then
    /// means that another holder came, or that this process stood still.
    pub commit: Duration,
    /// After this the brokers abort a transaction by themselves; until then it holds up readers of its partitions.
    pub transaction: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            answer: Duration::from_millis(limit::LOG_ANSWER_MS),
            append: Duration::from_millis(limit::LOG_APPEND_MS),
            commit: Duration::from_millis(limit::LANE_COMMIT_MS),
            transaction: Duration::from_millis(limit::TRANSACTION_MS),
        }
    }
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
        &self.topics[KafkaOptions::place(topic)]
    }
    /// What `topic` is called on the brokers.
    pub fn name(&self, topic: Topic) -> &str {
        &self.topic(topic).name
    }
    /// In lists in the order of `Topic::ALL`.
    pub(super) fn place(topic: Topic) -> usize {
        Topic::ALL.iter().position(|known| *known == topic).expect("every topic is in the list of all")
    }
}
