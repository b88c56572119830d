//! `[sink.table]`: where the table is, how often it is committed, how much of its past is kept.

use forebay_schemas::quantity::{Size, Span};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub kind: Kind,
    /// Address of the admin listener when the sink runs as a process of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<String>,
    /// Folder of the tables; this one stands in `forebay/trusted_events` below it.
    pub warehouse: PathBuf,
    /// The SQLite file of the catalogue.
    pub catalogue: PathBuf,
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
            warehouse: PathBuf::from("forebay-data/warehouse"),
            catalogue: PathBuf::from("forebay-data/catalog.sqlite"),
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
