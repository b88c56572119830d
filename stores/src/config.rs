//! `[log]` and `[objects]` as they are written, and what they mean.
//!
//! Owns: names, defaults and checks of the two sections. Does not own: the data folder, below which both lie by default.

mod secret;
mod kafka;
mod log;
mod objects;

pub use kafka::{ClientProperties, RegistryConfig, SaslConfig, SaslMechanism, TlsConfig};
pub use log::{LogConfig, LogKind, TopicConfig, TopicsConfig};
pub use objects::{ObjectsConfig, ObjectsKind};
pub use secret::Secret;

use serde::{Deserialize, Deserializer};

/// A setting that is wrong by itself or beside others, by its whole key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key}: {what}")]
pub struct ConfigError {
    pub key: &'static str,
    pub what: String,
}

fn kind<'de, D: Deserializer<'de>, K: Copy>(deserializer: D, known: &[(&str, K)]) -> Result<K, D::Error> {
    let text = String::deserialize(deserializer)?;
    if let Some((_, kind)) = known.iter().find(|(name, _)| *name == text) {
        return Ok(*kind);
    }
    let names = known.iter().map(|(name, _)| format!("{name:?}")).collect::<Vec<_>>().join(" or ");
    Err(serde::de::Error::custom(format!("unknown kind {text:?}: use {names}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::embedded::{EmbeddedOptions, TopicOptions};
    use serde::Serialize;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

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
            ("[log]\nkind = \"paper\"", "unknown kind \"paper\": use \"embedded\" or \"kafka\""),
            ("[objects]\nkind = \"paper\"", "unknown kind \"paper\": use \"folder\""),
            ("[log]\npartitions = 0", "partitions must be 1 to 1024"),
            ("[log]\npartition = 4", "unknown field `partition`, expected one of `kind`, `dir`, `partitions`, `topics`, `brokers`"),
            ("[log]\ntopics.harvest.retention = \"1d\"", "unknown field `harvest`"),
            ("[log]\ntopics.bad.retention = \"soon\"", "expected a quantity like \"60s\""),
        ] {
            let error = toml::from_str::<File>(text).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("line 2"), "{error}");
        }
    }
}
