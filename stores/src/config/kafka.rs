//! What `[log]` says of a Kafka cluster and how to speak to it: TLS, SASL, the schema registry, librdkafka's properties.
//!
//! Owns: which of librdkafka's properties may be set, and where each of the others is set instead. Does not own: their
//! meaning, nor the ones that the log's laws need (`log::kafka`).

use super::{ConfigError, Secret};
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Present, even empty: the brokers are spoken to by TLS.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// PEM: who signs the brokers' certificates. Default: the system's authorities.
    pub ca_file: Option<PathBuf>,
    /// PEM: this client's certificate and its key, for brokers that ask for one.
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaslConfig {
    pub mechanism: SaslMechanism,
    pub username: String,
    /// The password, without the newline at its end.
    pub password_file: Option<PathBuf>,
    /// Instead of the file, for the environment: `FOREBAY__LOG__SASL__PASSWORD`.
    pub password: Option<Secret>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SaslMechanism {
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

/// A schema registry that speaks Confluent's protocol.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistryConfig {
    /// `http://…` or `https://…`.
    pub url: String,
    pub username: Option<String>,
    pub password_file: Option<PathBuf>,
    /// Instead of the file, for the environment: `FOREBAY__LOG__REGISTRY__PASSWORD`.
    pub password: Option<Secret>,
    /// PEM: who signs the registry's certificate, beside the system's authorities.
    pub ca_file: Option<PathBuf>,
}

/// Properties of librdkafka by their names; nested tables are read as dotted names.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
#[serde(transparent)]
pub struct ClientProperties(pub BTreeMap<String, String>);

impl SaslMechanism {
    /// As librdkafka names it.
    pub fn name(self) -> &'static str {
        match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
            SaslMechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// The one that is set of a password and the file that has it.
pub(super) fn password(
    file: Option<&Path>,
    here: Option<&Secret>,
    file_key: &'static str,
    key: &'static str,
) -> Result<Option<Secret>, ConfigError> {
    match (file, here) {
        (Some(_), Some(_)) => Err(ConfigError { key, what: format!("goes without {file_key}: remove one of them") }),
        (None, here) => Ok(here.cloned()),
        (Some(file), None) => {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|e| ConfigError { key: file_key, what: format!("{} cannot be read: {e}", file.display()) })?;
            Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']).to_owned())))
        }
    }
}

/// Set by the laws (design §3): another value would lose, double or reorder events, or make a wait endless.
const LAWS: &[&str] = &[
    "acks",
    "allow.auto.create.topics",
    "auto.commit.enable",
    "auto.offset.reset",
    "check.crcs",
    "delivery.report.only.error",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "isolation.level",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "message.max.bytes",
    "message.send.max.retries",
    "message.timeout.ms",
    "partitioner",
    "request.required.acks",
    "retries",
    "transaction.timeout.ms",
    "transactional.id",
];
/// Beginnings of properties that have a key of their own, and that key.
const ELSEWHERE: &[(&str, &str)] = &[
    ("bootstrap.servers", "log.brokers"),
    ("metadata.broker.list", "log.brokers"),
    ("security.protocol", "log.tls and log.sasl"),
    ("sasl.", "log.sasl"),
    ("ssl.ca.", "log.tls"),
    ("ssl.certificate.", "log.tls"),
    ("ssl.key.", "log.tls"),
    ("ssl.keystore.", "log.tls"),
];

fn check_property(name: &str, value: &str) -> Result<(), String> {
    if LAWS.contains(&name) {
        return Err(format!("{name} is fixed by what Forebay promises; remove it"));
    }
    if let Some((_, key)) = ELSEWHERE.iter().find(|(beginning, _)| name.starts_with(beginning)) {
        return Err(format!("{name} is set by {key}"));
    }
    match ClientConfig::new().set(name, value).create_native_config() {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientConfig(_, why, ..)) => Err(format!("librdkafka says: {why}")),
        Err(other) => Err(other.to_string()),
    }
}

impl<'de> Deserialize<'de> for ClientProperties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ClientProperties, D::Error> {
        let mut properties = BTreeMap::new();
        deserializer.deserialize_map(Properties { above: "", into: &mut properties })?;
        Ok(ClientProperties(properties))
    }
}

/// A value under the name `above`, or a table of more of them.
struct Properties<'a> {
    above: &'a str,
    into: &'a mut BTreeMap<String, String>,
}

impl Properties<'_> {
    fn add<E: Error>(self, value: String) -> Result<(), E> {
        check_property(self.above, &value).map_err(E::custom)?;
        self.into.insert(self.above.to_owned(), value);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Properties<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Properties<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a property of librdkafka: text, a number or a truth")
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.add(value.to_string())
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.add(value.to_string())
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.add(value.to_string())
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.add(value.to_owned())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let name = if self.above.is_empty() { key } else { format!("{}.{key}", self.above) };
            map.next_value_seed(Properties { above: &name, into: self.into })?;
        }
        Ok(())
    }
}
