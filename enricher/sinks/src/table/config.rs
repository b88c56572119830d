//! `[sink.table]`: where the table is, how often it is committed, how much of its past is kept.

use super::place::{CatalogueAt, Warehouse};
use forebay_schemas::quantity::{Size, Span};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub kind: Kind,
    /// Address of the admin listener when the sink runs as a process of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<SocketAddr>,
    /// Where the tables are; this one stands in `forebay/trusted_events` below it.
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
    /// Take on the topic of this id from its start although the table's offsets do not fit it. Rows that the table
    /// holds already are recognised. Only named to get past a refusal.
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

impl Config {
    /// A file's age at which nobody can still be about to commit it.
    pub(crate) fn orphan_grace(&self) -> Duration {
        self.orphan_age.0.max(self.commit_interval.0 * 2 + Duration::from_secs(60))
    }
}
