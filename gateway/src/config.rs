//! `[gateway]` and `[[source]]` as people write them, with their defaults, and what is refused before a port is bound.
//!
//! Owns: names and defaults of the keys, `validate`. Does not own: files, environment and line numbers (the command line).

use crate::client::IpPolicy;
use forebay_schemas::dialect::Dialect;
use forebay_schemas::limit;
use forebay_schemas::ocf::Codec;
use forebay_schemas::quantity::{Size, Span};
use forebay_schemas::time::Micros;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Names this gateway in records and object names; unset: one is made once and kept in the spool's folder.
    pub name: Option<String>,
    pub listen: SocketAddr,
    /// Listener of health, metrics and `/api`; read by the command that runs the gateway.
    pub admin: Option<SocketAddr>,
    /// Trusted proxies in front of the gateway that append to `X-Forwarded-For`.
    pub proxy_hops: usize,
    pub spool: SpoolConfig,
    pub limits: LimitsConfig,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpoolConfig {
    /// Unset: `spool` in the data folder.
    pub dir: Option<PathBuf>,
    /// Bytes on disk beyond which requests get 503.
    pub max_bytes: Size,
    /// A segment is sealed at this size …
    pub segment_bytes: Size,
    /// … or this age, and always at the hour's end.
    pub segment_age: Span,
    #[serde(with = "codec_name")]
    pub codec: Codec,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    pub wire_bytes: Size,
    pub inflated_bytes: Size,
    pub event_bytes: Size,
    pub events: usize,
    /// Event requests that are being read or wait for the spool; beyond it 503.
    pub in_flight: usize,
    pub connections: usize,
    /// Bodies, as sent and decoded, that are in memory at once; beyond it 503.
    pub memory: Size,
    /// For a request's head, and how long an idle connection is kept.
    pub header_timeout: Span,
    pub body_timeout: Span,
    /// Between two pieces of a body.
    pub body_idle_timeout: Span,
    /// For the fsync; beyond it 503.
    pub ack_timeout: Span,
    /// For the log, of sources with `ack = "log"`; beyond it 503.
    pub log_ack_timeout: Span,
    /// For the raw landing, of sources with `ack = "object"`; beyond it 503.
    pub object_ack_timeout: Span,
    /// Of a body over the limit, read and dropped so that the client sees 413.
    pub drain_bytes: Size,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    pub name: String,
    /// Sources of one group share tokens; unset: the common group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default)]
    pub write_keys: Vec<WriteKey>,
    #[serde(default)]
    pub class: Class,
    /// Snowplow `aid`s that name this source; that tracker sends no key.
    #[serde(default)]
    pub app_ids: Vec<String>,
    /// Takes requests that name no key. While no source has write keys, it takes any key.
    #[serde(default)]
    pub default: bool,
    /// Dialects that this source may speak; empty: all.
    #[serde(default, with = "dialect_names")]
    pub dialects: Vec<Dialect>,
    /// Browser origins that may send; empty: all.
    #[serde(default)]
    pub origins: Vec<String>,
    #[serde(default)]
    pub ack: Ack,
    /// Events a second; beyond it 429. Unset: as the gateway can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// Requests that are not durable yet; beyond it 503. Unset: as the gateway can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<usize>,
    #[serde(default)]
    pub ip: IpPolicy,
}

/// Who holds a source's keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    #[default]
    Browser,
    Mobile,
    Server,
}

/// When a request of the source is answered 2xx.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    /// Durable on this machine's disk.
    #[default]
    Spool,
    /// All its events are acknowledged by the log, too.
    Log,
    /// It is in the raw landing, too; that is when its segment has been sealed and put.
    Object,
}

impl Ack {
    /// The `durability` of an answer and of a metric's label.
    pub fn name(self) -> &'static str {
        match self {
            Ack::Spool => "spool",
            Ack::Log => "log",
            Ack::Object => "object",
        }
    }
}

/// `"sha256:<64 hex>"`, or `{ key = "sha256:…", expires = "2027-01-01T00:00:00Z" }`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum WriteKey {
    Plain(KeyHash),
    Expiring { key: KeyHash, expires: Expiry },
}

/// SHA-256 of a write key. The key itself never stands in a configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyHash(pub [u8; 32]);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiry(pub Micros);

/// What is wrong with which key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key}: {message}")]
pub struct ConfigError {
    /// As in the file: `gateway.listen`, `source[1].write_keys`.
    pub key: String,
    pub message: String,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin: None,
            proxy_hops: 0,
            spool: SpoolConfig::default(),
            limits: LimitsConfig::default(),
        }
    }
}

impl Default for SpoolConfig {
    fn default() -> SpoolConfig {
        SpoolConfig {
            dir: None,
            max_bytes: Size(10 << 30),
            segment_bytes: Size(64 << 20),
            segment_age: Span(Duration::from_secs(60)),
            codec: Codec::Zstandard,
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        LimitsConfig {
            wire_bytes: size(limit::WIRE_BYTES),
            inflated_bytes: size(limit::INFLATED_BYTES),
            event_bytes: size(limit::EVENT_BYTES),
            events: limit::EVENTS_PER_REQUEST,
            in_flight: limit::IN_FLIGHT,
            connections: limit::CONNECTIONS,
            memory: size(limit::BODY_MEMORY_BYTES),
            header_timeout: Span(Duration::from_secs(30)),
            body_timeout: Span(Duration::from_secs(60)),
            body_idle_timeout: Span(Duration::from_secs(10)),
            ack_timeout: Span(Duration::from_secs(5)),
            log_ack_timeout: Span(Duration::from_secs(10)),
            object_ack_timeout: Span(Duration::from_secs(120)),
            drain_bytes: size(limit::DRAIN_BYTES),
        }
    }
}

impl SourceConfig {
    /// The source of `dev`: it takes whatever comes.
    pub fn dev() -> SourceConfig {
        SourceConfig {
            name: "default".to_owned(),
            group: None,
            write_keys: Vec::new(),
            class: Class::Browser,
            app_ids: Vec::new(),
            default: true,
            dialects: Vec::new(),
            origins: Vec::new(),
            ack: Ack::Spool,
            rate: None,
            in_flight: None,
            ip: IpPolicy::Keep,
        }
    }
}

impl WriteKey {
    pub fn hash(&self) -> KeyHash {
        match self {
            WriteKey::Plain(key) | WriteKey::Expiring { key, .. } => *key,
        }
    }
    pub fn expires(&self) -> Option<Micros> {
        match self {
            WriteKey::Plain(_) => None,
            WriteKey::Expiring { expires, .. } => Some(expires.0),
        }
    }
}

/// Everything that the types alone do not refuse.
pub fn validate(config: &Config, sources: &[SourceConfig]) -> Result<(), ConfigError> {
    gateway(config)?;
    let mut names = BTreeSet::new();
    let mut keys = BTreeSet::new();
    let mut app_ids = BTreeSet::new();
    for (n, source) in sources.iter().enumerate() {
        let error = |key: &str, message: &str| Err(ConfigError { key: format!("source[{n}].{key}"), message: message.to_owned() });
        if !is_name(&source.name) {
            return error("name", "expected 1 to 64 of a-z, 0-9, `-`, `_`, beginning with a letter or digit");
        }
        if !names.insert(&source.name) {
            return error("name", "two sources have this name");
        }
        if source.group.as_deref().is_some_and(|group| !is_name(group)) {
            return error("group", "expected 1 to 64 of a-z, 0-9, `-`, `_`, beginning with a letter or digit");
        }
        if !source.write_keys.iter().all(|key| keys.insert(key.hash())) {
            return error("write_keys", "this key already names a source");
        }
        if !source.app_ids.iter().all(|id| !id.is_empty() && app_ids.insert(id)) {
            return error("app_ids", "an app id is empty or already names a source");
        }
        if !source.origins.iter().all(|origin| is_origin(origin)) {
            return error("origins", "expected origins as browsers send them, like \"https://shop.example\": no path, no wildcard");
        }
        if !source.default && source.write_keys.is_empty() && source.app_ids.is_empty() {
            return error("write_keys", "nothing names this source: give it write_keys, app_ids or default = true");
        }
        if source.rate == Some(0) {
            return error("rate", "expected at least 1");
        }
        if source.in_flight.is_some_and(|places| places == 0 || places > config.limits.in_flight) {
            return error("in_flight", "expected 1 to gateway.limits.in_flight");
        }
        if source.ack == Ack::Object && config.limits.object_ack_timeout.0 <= config.spool.segment_age.0 {
            return error("ack", "a segment is landed after gateway.spool.segment_age: gateway.limits.object_ack_timeout must be longer");
        }
        if source.default && sources[..n].iter().any(|other| other.default) {
            return error("default", "another source is the default one already");
        }
    }
    open_doors(config, sources)
}

fn gateway(config: &Config) -> Result<(), ConfigError> {
    let error = |key: &str, message: &str| Err(ConfigError { key: format!("gateway.{key}"), message: message.to_owned() });
    if config.name.as_deref().is_some_and(|name| !is_name(name)) {
        return error("name", "expected 1 to 64 of a-z, 0-9, `-`, `_`, beginning with a letter or digit");
    }
    if config.admin.is_some_and(|admin| collide(admin, config.listen)) {
        return error("admin", "the same port as gateway.listen");
    }
    let limits = &config.limits;
    let memory = limits.wire_bytes.0.saturating_add(limits.inflated_bytes.0);
    for (key, zero) in [
        ("limits.in_flight", limits.in_flight == 0),
        ("limits.connections", limits.connections == 0),
        ("limits.events", limits.events == 0),
        ("limits.wire_bytes", limits.wire_bytes.0 == 0),
        ("limits.inflated_bytes", limits.inflated_bytes.0 == 0),
        ("limits.event_bytes", limits.event_bytes.0 == 0),
        ("limits.header_timeout", limits.header_timeout.0.is_zero()),
        ("limits.body_timeout", limits.body_timeout.0.is_zero()),
        ("limits.body_idle_timeout", limits.body_idle_timeout.0.is_zero()),
        ("limits.ack_timeout", limits.ack_timeout.0.is_zero()),
        ("limits.log_ack_timeout", limits.log_ack_timeout.0.is_zero()),
        ("limits.object_ack_timeout", limits.object_ack_timeout.0.is_zero()),
        ("spool.segment_bytes", config.spool.segment_bytes.0 == 0),
        ("spool.segment_age", config.spool.segment_age.0.is_zero()),
    ] {
        if zero {
            return error(key, "must be more than zero");
        }
    }
    if limits.event_bytes.0 > size(limit::EVENT_BYTES).0 {
        return error("limits.event_bytes", "at most 1MiB: a larger event does not fit every later record");
    }
    if limits.memory.0 < memory {
        return error("limits.memory", "must hold one body: at least wire_bytes and inflated_bytes together");
    }
    if config.spool.segment_bytes.0 > limit::SEGMENT_BYTES {
        return error("spool.segment_bytes", "at most 1GiB: a segment goes to the object store in one piece");
    }
    if config.spool.max_bytes.0 < config.spool.segment_bytes.0 {
        return error("spool.max_bytes", "must hold at least one segment (spool.segment_bytes)");
    }
    Ok(())
}

/// Whether two listeners cannot both be bound. Port 0 is any free port.
fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    let any = |address: SocketAddr| address.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && (a.ip() == b.ip() || any(a) || any(b))
}

/// A listener that others can reach takes only requests that name a key or an app id.
fn open_doors(config: &Config, sources: &[SourceConfig]) -> Result<(), ConfigError> {
    let keyless = |source: &SourceConfig| source.write_keys.is_empty() && (source.default || source.app_ids.is_empty());
    if config.listen.ip().is_loopback() || (!sources.is_empty() && !sources.iter().any(keyless)) {
        return Ok(());
    }
    Err(ConfigError {
        key: "gateway.listen".to_owned(),
        message: format!("{} is reachable from other machines, but not every source has write_keys", config.listen),
    })
}

fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=64).contains(&name.len()) && name.bytes().all(|b| fits(b) || b == b'-' || b == b'_') && name.bytes().next().is_some_and(fits)
}

/// What a browser can send as `Origin`. Another text would match nothing, and so shut everybody out.
fn is_origin(text: &str) -> bool {
    let scheme = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    let host = |b: u8| b.is_ascii_graphic() && !matches!(b, b'/' | b'?' | b'#' | b'@' | b'*' | b',');
    let parts = text.split_once("://").is_some_and(|(s, h)| !s.is_empty() && s.bytes().all(scheme) && !h.is_empty() && h.bytes().all(host));
    text == "null" || parts
}

fn size(bytes: usize) -> Size {
    Size(bytes as u64)
}

impl<'de> Deserialize<'de> for KeyHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeyHash, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hash = text.strip_prefix("sha256:").and_then(unhex);
        hash.map(KeyHash).ok_or_else(|| serde::de::Error::custom("expected \"sha256:\" and the 64 hex digits of the key's SHA-256"))
    }
}
impl Serialize for KeyHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex: String = self.0.iter().map(|b| format!("{b:02x}")).collect();
        serializer.collect_str(&format_args!("sha256:{hex}"))
    }
}
/// Not `untagged`: that says of a wrong key only that nothing matched.
impl<'de> Deserialize<'de> for WriteKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WriteKey, D::Error> {
        deserializer.deserialize_any(AnyWriteKey)
    }
}

struct AnyWriteKey;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpiringKey {
    key: KeyHash,
    expires: Expiry,
}

impl<'de> Visitor<'de> for AnyWriteKey {
    type Value = WriteKey;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("\"sha256:<64 hex>\" or { key = \"sha256:…\", expires = \"2027-01-01T00:00:00Z\" }")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<WriteKey, E> {
        KeyHash::deserialize(text.into_deserializer()).map(WriteKey::Plain)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WriteKey, A::Error> {
        let ExpiringKey { key, expires } = ExpiringKey::deserialize(MapAccessDeserializer::new(map))?;
        Ok(WriteKey::Expiring { key, expires })
    }
}

impl<'de> Deserialize<'de> for Expiry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Expiry, D::Error> {
        let text = String::deserialize(deserializer)?;
        Micros::parse_rfc3339(&text).map(Expiry).ok_or_else(|| serde::de::Error::custom("expected a time like \"2027-01-01T00:00:00Z\""))
    }
}
impl Serialize for Expiry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (n, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(out)
}

mod codec_name {
    use super::*;
    pub fn serialize<S: Serializer>(codec: &Codec, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(codec.name())
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Codec, D::Error> {
        let text = String::deserialize(deserializer)?;
        Codec::from_name(&text).ok_or_else(|| serde::de::Error::custom("expected \"zstandard\" or \"null\""))
    }
}

mod dialect_names {
    use super::*;
    pub fn serialize<S: Serializer>(dialects: &[Dialect], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(dialects.iter().map(|d| d.name()))
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Dialect>, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let known = || Dialect::ALL.map(Dialect::name).join(", ");
        names
            .iter()
            .map(|n| Dialect::from_name(n).ok_or_else(|| serde::de::Error::custom(format!("expected dialects among {}", known()))))
            .collect()
    }
}

#[cfg(test)]
mod tests;
