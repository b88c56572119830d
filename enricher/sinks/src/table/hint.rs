//! `metadata/version-hint.text`: by it DuckDB finds the current metadata file from the table's folder alone.
//!
//! Invariant: it is written after the commit, in one step; after a crash between the two it names the table as it was
//! before, and the next start mends it.

use super::disk::{self, path_of};
use super::error::SinkError;
use super::stored::Stored;

/// Its place in the table's folder.
pub(super) const FILE: &str = "metadata/version-hint.text";

/// DuckDB looks for `<hint>.metadata.json`, so the hint is the name without that, and no line end.
pub(super) fn write(table: &Stored) -> Result<(), SinkError> {
    let current = path_of(&table.location);
    let name = current.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let version = name.strip_suffix(".metadata.json").unwrap_or(name);
    disk::replace(&table.folder().join(FILE), version.as_bytes())
}
