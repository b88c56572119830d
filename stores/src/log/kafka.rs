//! The log on Kafka, by librdkafka: the production form.

mod options;

pub use options::{KafkaOptions, KafkaTopic, RegistryOptions, SaslOptions};
