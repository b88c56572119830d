//! `[sink.table]`: where the tables are, how often they are committed, how much of their past is kept.

use super::place::{CatalogueAt, Warehouse};
use forebay_schemas::quantity::{Size, Span};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub kind: Kind,
    /// Address of the admin listener when the sink runs as a process of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<SocketAddr>,
    /// Where the tables are, each in a folder of `forebay/` below it.
    pub warehouse: Warehouse,
    pub catalogue: CatalogueAt,
    /// Of a Postgres catalogue: the file that has the password and nothing else. Else the environment's `PGPASSWORD`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalogue_password_file: Option<PathBuf>,
    /// Of a REST catalogue, as all keys of `rest` are.
    #[serde(skip_serializing_if = "Rest::is_default")]
    pub rest: Rest,
    /// A commit at the latest so long after the first record that it holds.
    pub commit_interval: Span,
    /// A commit as soon as the records read amount to this.
    pub commit_bytes: Size,
    /// Snapshots that are kept whatever their age.
    pub snapshots_kept: usize,
    /// Snapshots younger than this are kept, so that a running query keeps its files.
    pub snapshot_age: Span,
    /// Files that no snapshot names go when they are older than this: a crash left them.
    pub orphan_age: Span,
    /// Rewrite many small files of a day as one.
    pub compact: bool,
    /// Take on the topic of this id (of several, with blanks between) from its start although a table's offsets do not
    /// fit it. Rows that the table holds already are recognised. Only named to get past a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopt_topic: Option<String>,
}

/// What a REST catalogue is told beside the table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rest {
    /// The name of the warehouse in a catalogue that has many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warehouse: Option<String>,
    /// The part of the paths after `/v1`. Default: as the catalogue says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The file that has the bearer token and nothing else, read for each commit so that it can be renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The file that has `client_id:client_secret` of OAuth2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_file: Option<PathBuf>,
    /// Who gives tokens for the credential. Default: the catalogue, at `/v1/oauth/tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth2_server: Option<String>,
    /// Default: `catalog`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Certificates (PEM) to trust beside the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

impl Rest {
    fn is_default(&self) -> bool {
        *self == Rest::default()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Iceberg,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            kind: Kind::Iceberg,
            admin: None,
            warehouse: Warehouse::Folder("forebay-data/warehouse".into()),
            catalogue: CatalogueAt::File("forebay-data/catalog.sqlite".into()),
            catalogue_password_file: None,
            rest: Rest::default(),
            commit_interval: Span(Duration::from_secs(5)),
            commit_bytes: Size(64 << 20),
            snapshots_kept: 10,
            snapshot_age: Span(Duration::from_secs(60)),
            orphan_age: Span(Duration::from_secs(15 * 60)),
            compact: true,
            adopt_topic: None,
        }
    }
}

/// What is wrong, and where it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    pub key: &'static str,
    pub what: &'static str,
}

impl Config {
    pub fn check(&self) -> Result<(), ConfigError> {
        let fail = |key, what| Err(ConfigError { key, what });
        if self.catalogue_password_file.is_some() && !matches!(self.catalogue, CatalogueAt::Postgres(_)) {
            return fail(
                "sink.table.catalogue_password_file",
                "goes with a catalogue in Postgres alone: remove it, or name a postgres://… catalogue",
            );
        }
        if !self.rest.is_default() && !matches!(self.catalogue, CatalogueAt::Rest(_)) {
            return fail("sink.table.rest", "goes with a REST catalogue alone: remove it, or name an https://… catalogue");
        }
        if self.rest.token_file.is_some() && self.rest.credential_file.is_some() {
            return fail("sink.table.rest.credential_file", "both it and rest.token_file say who the sink is: remove one");
        }
        Ok(())
    }

    /// The files that it names for a start to read, by key.
    pub fn files(&self) -> Vec<(&'static str, &Path)> {
        let files = [
            ("sink.table.catalogue_password_file", &self.catalogue_password_file),
            ("sink.table.rest.token_file", &self.rest.token_file),
            ("sink.table.rest.credential_file", &self.rest.credential_file),
            ("sink.table.rest.ca_file", &self.rest.ca_file),
        ];
        files.into_iter().filter_map(|(key, file)| Some((key, file.as_deref()?))).collect()
    }

    /// A file's age at which nobody can still be about to commit it.
    pub(crate) fn orphan_grace(&self) -> Duration {
        self.orphan_age.0.max(self.commit_interval.0 * 2 + Duration::from_secs(60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_go_together_is_said_with_its_key() {
        let key = |text: &str| toml::from_str::<Config>(text).unwrap().check().err().map(|error| error.key);
        assert_eq!(key("catalogue = \"postgres://u@h/d\"\ncatalogue_password_file = \"f\""), None);
        assert_eq!(key("catalogue = \"https://h\"\nrest.token_file = \"f\"\nrest.warehouse = \"w\""), None);
        assert_eq!(key("catalogue_password_file = \"f\""), Some("sink.table.catalogue_password_file"));
        assert_eq!(key("rest.warehouse = \"w\""), Some("sink.table.rest"));
        let both = "catalogue = \"https://h\"\nrest.token_file = \"f\"\nrest.credential_file = \"f\"";
        assert_eq!(key(both), Some("sink.table.rest.credential_file"));
    }

    #[test]
    fn it_is_written_as_it_is_read() {
        let text = "warehouse = \"s3://lake/a\"\ncatalogue = \"https://h/v1\"\nrest.scope = \"all\"\nrest.ca_file = \"ca.pem\"";
        let config: Config = toml::from_str(text).unwrap();
        let written = toml::to_string(&config).unwrap();
        assert!(written.contains("warehouse = \"s3://lake/a\"") && written.contains("catalogue = \"https://h\""), "{written}");
        assert_eq!(toml::from_str::<Config>(&written).unwrap(), config);
        assert_eq!(config.files(), [("sink.table.rest.ca_file", Path::new("ca.pem"))]);
    }
}
