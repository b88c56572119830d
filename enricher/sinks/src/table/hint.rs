//! `metadata/version-hint.text`: by it DuckDB finds the current metadata file from the table's folder alone.
//!
//! Does not own: a bucket, where no object is written twice; there the catalogue says which file is current.
//! Invariant: it is written after the commit, in one step; after a crash between the two it names the table as it was
//! before, and the next start mends it.

use super::disk;
use super::error::SinkError;
use super::stored::Stored;
use super::warehouse::Warehouse;
use std::path::PathBuf;

fn path(warehouse: &Warehouse) -> Option<PathBuf> {
    Some(warehouse.table_folder()?.join("metadata/version-hint.text"))
}

pub(super) fn is_there(warehouse: &Warehouse) -> bool {
    path(warehouse).is_some_and(|path| path.exists())
}

/// DuckDB looks for `<hint>.metadata.json`, so the hint is the name without that, and no line end.
pub(super) fn write(table: &Stored, warehouse: &Warehouse) -> Result<(), SinkError> {
    let Some(path) = path(warehouse) else { return Ok(()) };
    let name = table.location.rsplit('/').next().unwrap_or_default();
    let version = name.strip_suffix(".metadata.json").unwrap_or(name);
    disk::replace(&path, version.as_bytes())
}
