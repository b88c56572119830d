//! The configuration: one TOML file, an environment overlay, flags. `RawConfig` is it as written, `Config` as meant.
//!
//! Owns: the layers and their order (defaults < file < `FOREBAY__SECTION__KEY` < flags), where each value comes from, errors that name
//! file, key and line. Does not own: what a section's keys mean (the crates' own `Config`s).
//! Invariant: nothing is bound, created or locked here; a wrong configuration ends the command with 2 before that.

mod layers;
mod lines;
mod show;
mod start;

pub use layers::Inputs;
pub use show::{Setting, settings};
pub use start::AdminConfig;

use forebay_enricher::{CatalogConfig, WindowConfig};
use forebay_enricher_core::combine::window::declare::{Declaration, WindowError};
use forebay_gateway::config::SourceConfig;
use forebay_schemas::limit;
use forebay_schemas::quantity::Span;
use forebay_schemas::topic::Topic;
use forebay_sinks::Table;
use forebay_stores::config::{LogConfig, ObjectsConfig, ObjectsKind};
use forebay_stores::log::embedded::EmbeddedOptions;
use forebay_stores::log::kafka::KafkaOptions;
use forebay_stores::objects::s3::S3Options;
use layers::Layers;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder of `dev` when nothing names another.
pub const DEFAULT_DATA: &str = "./forebay-data";
/// The file that a command reads when nothing names another.
pub const DEFAULT_FILE: &str = "./forebay.toml";
/// The effective settings, as `dev` writes them into its folder.
pub const EFFECTIVE_FILE: &str = "forebay.toml";
/// The commented default, as `config init` writes it.
pub const COMMENTED_DEFAULT: &str = include_str!("config/default.toml");

/// The file as written, over the defaults of a system on one machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawConfig {
    data: PathBuf,
    gateway: forebay_gateway::Config,
    #[serde(default)]
    source: Vec<SourceConfig>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    window: Vec<WindowConfig>,
    log: LogConfig,
    objects: ObjectsConfig,
    enricher: forebay_enricher::Config,
    catalog: CatalogConfig,
    sink: Sinks,
    #[serde(default)]
    admin: AdminConfig,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sinks {
    table: forebay_sinks::Config,
}

/// The configuration as meant.
#[derive(Clone, Debug)]
pub struct Config {
    /// Absolute.
    pub data: PathBuf,
    pub gateway: forebay_gateway::Config,
    pub sources: Vec<SourceConfig>,
    pub windows: Vec<WindowConfig>,
    pub log: LogConfig,
    pub objects: ObjectsConfig,
    pub enricher: forebay_enricher::Config,
    pub catalog: CatalogConfig,
    pub table: forebay_sinks::Config,
    pub admin: AdminConfig,
    raw: RawConfig,
    layers: Layers,
}

/// What is wrong, and where it was written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {key}{}{message}", if key.is_empty() { "" } else { ": " })]
pub struct ConfigError {
    /// `forebay.toml, line 3`, a variable, a flag.
    pub place: String,
    pub key: String,
    pub message: String,
}

impl Config {
    pub fn load(inputs: &Inputs) -> Result<Config, ConfigError> {
        let mut layers = Layers::read(inputs)?;
        let raw: RawConfig = layers.deserialize()?;
        let sources = if raw.source.is_empty() { vec![SourceConfig::dev()] } else { raw.source.clone() };
        let config = Config {
            data: raw.data.clone(),
            gateway: raw.gateway.clone(),
            sources,
            windows: raw.window.clone(),
            log: raw.log.clone(),
            objects: raw.objects.clone(),
            enricher: raw.enricher.clone(),
            catalog: raw.catalog.clone(),
            table: raw.sink.table.clone(),
            admin: raw.admin.clone(),
            raw,
            layers,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let at = |key: &str, message: &str| self.layers.error_at(key, message);
        self.log.check().map_err(|e| at(e.key, &e.what))?;
        self.objects.check().map_err(|e| at(e.key, &e.what))?;
        forebay_gateway::config::validate(&self.gateway, &self.sources).map_err(|e| at(&e.key, &e.message))?;
        self.enricher.check().map_err(|e| at(e.key, e.what))?;
        self.table.check().map_err(|e| at(e.key, e.what))?;
        self.declared_windows()?;
        if i64::from(self.enricher.lanes) > i64::from(self.log.partitions) {
            return Err(at("enricher.lanes", "more lanes than log.partitions: those beyond would have nothing to do"));
        }
        // The gateway's own rule for its listener, for the listener beside it.
        if let Some(admin) = self.gateway.admin {
            let reachable = forebay_gateway::Config { listen: admin, admin: None, ..self.gateway.clone() };
            forebay_gateway::config::validate(&reachable, &self.sources)
                .map_err(|e| at(if e.key == "gateway.listen" { "gateway.admin" } else { &e.key }, &e.message))?;
        }
        Ok(())
    }

    /// The windows as they are meant; whether the catalogue has their fields is not asked here.
    pub fn declared_windows(&self) -> Result<Vec<Declaration>, ConfigError> {
        if self.windows.len() > limit::WINDOWS {
            return Err(self.layers.error_at("window", &format!("there are at most {} windows", limit::WINDOWS)));
        }
        let declared = self.windows.iter().enumerate();
        declared.map(|(n, window)| window.declaration().map_err(|error| self.window_error(n, &error))).collect()
    }
    /// Where what is wrong with a window was written.
    pub fn window_error(&self, n: usize, error: &WindowError) -> ConfigError {
        self.layers.error_at(&format!("window[{n}].{}", error.key), &error.what)
    }

    /// The tables that the sink fills.
    pub fn tables(&self) -> Vec<Table> {
        let windows = self.has_windows().then_some(Table::Windows);
        std::iter::once(Table::TrustedEvents).chain(windows).collect()
    }
    fn has_windows(&self) -> bool {
        !self.windows.is_empty()
    }

    pub fn spool_dir(&self) -> PathBuf {
        self.gateway.spool.dir.clone().unwrap_or_else(|| self.data.join("spool"))
    }
    pub fn state_dir(&self) -> PathBuf {
        self.data.join("state")
    }
    pub fn keys_dir(&self) -> PathBuf {
        self.data.join("keys")
    }
    pub fn log_dir(&self) -> PathBuf {
        self.log.dir(&self.data)
    }
    pub fn objects_dir(&self) -> PathBuf {
        self.objects.dir(&self.data)
    }
    /// How an embedded log is opened.
    pub fn embedded_options(&self) -> EmbeddedOptions {
        let mut options = self.log.embedded();
        for (topic, kept) in Topic::ALL.into_iter().zip(&mut options.topics) {
            kept.retention = self.kept(topic, kept.retention);
        }
        options
    }
    /// How Kafka is spoken to, and what its topics must be. Reads the passwords' files.
    pub fn kafka_options(&self) -> Result<KafkaOptions, ConfigError> {
        let mut options = self.log.kafka().map_err(|e| self.layers.error_at(e.key, &e.what))?;
        if options.topic(Topic::Delta).bytes_max.is_some() {
            let why = "recovery needs the deltas of their whole retention, and Kafka would remove them by size: remove it";
            return Err(self.layers.error_at("log.topics.delta.max_bytes", why));
        }
        for (topic, kept) in Topic::ALL.into_iter().zip(&mut options.topics) {
            kept.retention = self.kept(topic, kept.retention);
        }
        Ok(options)
    }
    /// Deltas are kept at least as long as recovery may need them.
    fn kept(&self, topic: Topic, retention: Duration) -> Duration {
        if topic == Topic::Delta { retention.max(self.enricher.delta_retention()) } else { retention }
    }
    /// Where the bucket is and who asks. Both `[objects]` and a warehouse in a bucket stand on it.
    pub fn s3_options(&self) -> Result<S3Options, ConfigError> {
        if self.objects.kind != ObjectsKind::S3 {
            return Err(self.layers.error_at("sink.table.warehouse", "a warehouse in a bucket needs objects.kind = \"s3\""));
        }
        self.objects.s3().map_err(|e| self.layers.error_at(e.key, &e.what))
    }

    /// Every setting with its origin.
    pub fn settings(&self) -> Vec<Setting> {
        settings(&self.effective(), &self.layers)
    }
    /// The settings as a file that gives them again.
    pub fn effective_text(&self) -> String {
        toml::to_string(&self.effective()).expect("what was read can be written")
    }
    fn effective(&self) -> RawConfig {
        RawConfig { source: self.sources.clone(), ..self.raw.clone() }
    }
}

/// The lowest layer: what has no default of its own, and what lies in the data folder unless `written` puts it elsewhere.
fn defaults(data: &Path, written: &toml::Table) -> toml::Table {
    let path = |name: &str| data.join(name).display().to_string();
    let is = |section: &str, kind: &str| written.get(section).and_then(|section| section.get("kind")?.as_str()) == Some(kind);
    let mut table = toml::toml! {
        [gateway]
        admin = "127.0.0.1:8081"
        [log]
        kind = "embedded"
        [objects]
        kind = "folder"
        [enricher]
        admin = "127.0.0.1:8082"
        backend = "rocksdb"
        [catalog.keys]
        [sink.table]
        admin = "127.0.0.1:8083"
    };
    let mut set = |keys: &[&str], value: String| layers::set(&mut table, keys, toml::Value::String(value)).expect("a table of our own");
    set(&["data"], data.display().to_string());
    set(&["gateway", "spool", "dir"], path("spool"));
    for topic in Topic::ALL {
        let kept = Span(Duration::from_secs(topic.retention_hours() * 3_600));
        set(&["log", "topics", topic.word(), "retention"], kept.to_string());
    }
    if !is("objects", "s3") {
        set(&["objects", "dir"], path("objects"));
    }
    set(&["sink", "table", "warehouse"], path("warehouse"));
    set(&["sink", "table", "catalogue"], path("catalog.sqlite"));
    // On Kafka the data folder is one machine's, and what belongs to all is named.
    if !is("log", "kafka") {
        set(&["log", "dir"], path("log"));
        for (key, file) in [("mask_file", "mask.key"), ("bad_public_file", "bad_public.key"), ("bad_private_file", "bad_private.key")] {
            set(&["catalog", "keys", key], data.join("keys").join(file).display().to_string());
        }
    }
    table
}

#[cfg(test)]
mod tests;
