//! The sections `[enricher]` and `[catalog]` of the configuration, as written.
//!
//! Owns: names, defaults, which values make no sense. Does not own: what the stages do with them (`Options` of the core).

mod window;

use crate::format::Format;
use crate::state;
use forebay_enricher_core::{Collision, Options, UnclassifiedPolicy, UnknownEvent};
use forebay_schemas::limit;
use forebay_schemas::quantity::{Size, Span};
use forebay_schemas::time::Micros;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use window::{ConditionConfig, WindowConfig, WindowKind};

const DAY: Duration = Duration::from_secs(86_400);
/// How much longer than the longest TTL deltas are kept (design §6.3).
const DELTA_MARGIN: Duration = Duration::from_secs(2 * 86_400);

/// `[enricher]`. `backend` has no default: nobody gets one by forgetting.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Listener of health, metrics and `/api` when the enricher runs as a process of its own; read by the command that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<SocketAddr>,
    /// Names the committed offsets and fences; another name is another consumer with a state of its own.
    #[serde(default = "default_job")]
    pub job: String,
    /// Partition p belongs to lane p % lanes; each lane is a thread and a transactional producer.
    #[serde(default = "default_lanes")]
    pub lanes: u32,
    /// The lanes that this process runs; all of them unless others run the rest. Each lane runs in one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assign: Option<Vec<u32>>,
    pub backend: state::Kind,
    /// How long the first record of a commit waits for others.
    #[serde(default = "default_commit_interval")]
    pub commit_interval: Span,
    #[serde(default)]
    pub dedup: DedupConfig,
    /// How far before its receipt an event time may lie; earlier ones are clamped.
    #[serde(default = "default_max_age")]
    pub max_age: Span,
    #[serde(default)]
    pub watermark: WatermarkConfig,
    /// A gateway without a tick for this long, in log time, no longer holds the watermark back.
    #[serde(default = "default_gateway_retire_after")]
    pub gateway_retire_after: Span,
    #[serde(default)]
    pub state: StateConfig,
    /// The format in which state and deltas are written. One below the newest until no older version will run again.
    #[serde(default = "default_format")]
    pub format: i32,
    #[serde(skip)]
    pub changes: StateChanges,
}

/// What may change in state at this start: flags, since they are meant once.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StateChanges {
    /// Uids of windows that are not declared any more and whose state may go.
    pub dropped_windows: Vec<String>,
    /// From when on the built-in rules of time zones bound windows that had begun by others.
    pub zone_rules_since: Option<Micros>,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DedupConfig {
    /// How long an event id is remembered, in log time.
    pub ttl: Span,
    /// Another fact under a known id: `bad` or `rekey`.
    #[serde(serialize_with = "as_name", deserialize_with = "by_name")]
    pub collision: Collision,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct WatermarkConfig {
    /// How far the watermark stays behind what the gateways have published.
    pub delay: Span,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct StateConfig {
    /// A lane whose tasks hold more than this together stops reading until it is less.
    pub max_bytes: Size,
}

/// `[catalog]`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct CatalogConfig {
    /// Event types of one's own, laid over the built-in ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    #[serde(serialize_with = "as_name", deserialize_with = "by_name")]
    pub unknown_event: UnknownEvent,
    #[serde(serialize_with = "as_name", deserialize_with = "by_name")]
    pub unclassified: UnclassifiedPolicy,
    pub keys: KeysConfig,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeysConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_public_file: Option<PathBuf>,
    /// Only for commands that open rejects; the enricher itself never reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_private_file: Option<PathBuf>,
}

/// A value that parses and cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key}: {what}")]
pub struct ConfigError {
    pub key: &'static str,
    pub what: &'static str,
}

impl Config {
    pub fn new(backend: state::Kind) -> Config {
        Config {
            admin: None,
            job: default_job(),
            lanes: default_lanes(),
            assign: None,
            backend,
            commit_interval: default_commit_interval(),
            dedup: DedupConfig::default(),
            max_age: default_max_age(),
            watermark: WatermarkConfig::default(),
            gateway_retire_after: default_gateway_retire_after(),
            state: StateConfig::default(),
            format: default_format(),
            changes: StateChanges::default(),
        }
    }

    pub fn check(&self) -> Result<(), ConfigError> {
        let fail = |key, what| Err(ConfigError { key, what });
        let name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.job.is_empty() || self.job.len() > 64 || !self.job.chars().all(name) {
            return fail("enricher.job", "a name of 1 to 64 letters, digits, - and _");
        }
        if self.lanes == 0 || self.lanes as usize > limit::LANES {
            return fail("enricher.lanes", "between 1 and 64");
        }
        let mut named = self.assign.clone().unwrap_or(vec![0]);
        named.sort_unstable();
        let twice = named.windows(2).any(|pair| pair[0] == pair[1]);
        if twice || named.last().is_none_or(|last| *last >= self.lanes) {
            return fail("enricher.assign", "at least one lane, each once and below enricher.lanes");
        }
        if !(Format::DEFAULT..=Format::NEWEST).contains(&self.format) {
            return fail("enricher.format", "1, or 2 when no version that knows only 1 will run again");
        }
        if self.commit_interval.0 < Duration::from_millis(1) || self.commit_interval.0 > Duration::from_secs(10) {
            return fail("enricher.commit_interval", "between 1ms and 10s");
        }
        if self.max_age.0 < Duration::from_secs(1) {
            return fail("enricher.max_age", "at least 1s: an older client time is moved up to it");
        }
        if self.dedup.ttl.0 < Duration::from_millis(1) || self.dedup.ttl.0 > 400 * DAY {
            return fail("enricher.dedup.ttl", "between 1ms and 400d");
        }
        if self.gateway_retire_after.0 < Duration::from_secs(10) {
            return fail("enricher.gateway_retire_after", "at least 10s: a living gateway ticks each second");
        }
        Ok(())
    }

    /// How long the topic of deltas must keep its records while there are no checkpoints (design §6.3).
    pub fn delta_retention(&self) -> Duration {
        self.dedup.ttl.0 + DELTA_MARGIN
    }

    /// State without a TTL is put again after this much log time, and is through with it in as much, so that the kept deltas
    /// always hold it.
    pub(crate) fn refresh_after(&self) -> Duration {
        DELTA_MARGIN / 4
    }

    /// Deltas that reach back this far hold all that a state is made of.
    pub(crate) fn deltas_needed(&self) -> Duration {
        self.dedup.ttl.0.max(self.refresh_after()) + self.refresh_after()
    }
}

/// The core's choices, from the two sections that an operator writes them in.
pub fn options(enricher: &Config, catalog: &CatalogConfig) -> Options {
    Options {
        unknown_event: catalog.unknown_event,
        unclassified: catalog.unclassified,
        max_age_micros: micros(enricher.max_age.0),
        dedup_ttl_micros: micros(enricher.dedup.ttl.0),
        collision: enricher.dedup.collision,
    }
}

pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

impl Default for DedupConfig {
    fn default() -> DedupConfig {
        DedupConfig { ttl: Span(7 * DAY), collision: Collision::Bad }
    }
}
impl Default for WatermarkConfig {
    fn default() -> WatermarkConfig {
        WatermarkConfig { delay: Span(Duration::from_secs(10)) }
    }
}
impl Default for StateConfig {
    fn default() -> StateConfig {
        StateConfig { max_bytes: Size(64 << 30) }
    }
}
impl Default for CatalogConfig {
    fn default() -> CatalogConfig {
        let Options { unknown_event, unclassified, .. } = Options::default();
        CatalogConfig { dir: None, unknown_event, unclassified, keys: KeysConfig::default() }
    }
}

fn default_job() -> String {
    "forebay".to_owned()
}
fn default_lanes() -> u32 {
    1
}
fn default_format() -> i32 {
    Format::DEFAULT
}
fn default_commit_interval() -> Span {
    Span(Duration::from_millis(200))
}
fn default_max_age() -> Span {
    Span(Duration::from_micros(Options::default().max_age_micros.unsigned_abs()))
}
fn default_gateway_retire_after() -> Span {
    Span(Duration::from_secs(600))
}

fn as_name<T: std::fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
fn by_name<'de, T: std::str::FromStr<Err: std::fmt::Display>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: serde_json::Value) -> Result<Config, String> {
        let config: Config = serde_json::from_value(value).map_err(|error| error.to_string())?;
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn only_the_backend_must_be_named() {
        assert_eq!(read(json!({"backend": "rocksdb"})), Ok(Config::new(state::Kind::RocksDb)));
        let written = serde_json::to_value(Config::new(state::Kind::Memory)).expect("serialises");
        assert_eq!(read(written), Ok(Config::new(state::Kind::Memory)));
        for (bad, part) in [
            (json!({}), "missing field `backend`"),
            (json!({"backend": "redis"}), "unknown variant"),
            (json!({"backend": "memory", "lane": 2}), "unknown field `lane`"),
            (json!({"backend": "memory", "lanes": 0}), "enricher.lanes"),
            (json!({"backend": "memory", "lanes": 1_000_000}), "enricher.lanes"),
            (json!({"backend": "memory", "lanes": 2, "assign": [2]}), "enricher.assign"),
            (json!({"backend": "memory", "lanes": 2, "assign": [1, 0, 1]}), "enricher.assign"),
            (json!({"backend": "memory", "assign": []}), "enricher.assign"),
            (json!({"backend": "memory", "format": 3}), "enricher.format"),
            (json!({"backend": "memory", "commit_interval": "0ms"}), "enricher.commit_interval"),
            (json!({"backend": "memory", "max_age": "0s"}), "enricher.max_age"),
            (json!({"backend": "memory", "job": "a/b"}), "enricher.job"),
            (json!({"backend": "memory", "dedup": {"ttl": "7"}}), "quantity"),
            (json!({"backend": "memory", "dedup": {"collision": "maybe"}}), "rekey"),
        ] {
            let error = read(bad.clone()).expect_err("refused");
            assert!(error.contains(part), "{bad}: {error}");
        }
    }

    #[test]
    fn the_sections_become_options() {
        let mut config = Config::new(state::Kind::Memory);
        config.dedup = DedupConfig { ttl: Span(Duration::from_secs(2)), collision: Collision::Rekey };
        let catalog: CatalogConfig = serde_json::from_value(json!({"unknown_event": "envelope"})).expect("parses");
        let options = options(&config, &catalog);
        assert_eq!((options.dedup_ttl_micros, options.collision), (2_000_000, Collision::Rekey));
        assert_eq!((options.unknown_event, options.unclassified), (UnknownEvent::Envelope, UnclassifiedPolicy::Omit));
        assert_eq!(config.delta_retention(), Duration::from_secs(2 + 2 * 86_400));
    }
}
