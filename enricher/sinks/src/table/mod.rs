//! Iceberg tables, one a topic: a catalogue, a folder or bucket of Parquet files, offsets in each commit.
//!
//! Owns: the modules below, in the order in which a batch passes them. Does not own: reading the tables (DuckDB,
//! PyIceberg and others do). Invariant: a commit stands on exactly the offsets that its batch starts from, because
//! the catalogue swaps the one state of the table that was read for the new one, or refuses. Everything here blocks, on
//! a thread for each table.

pub mod place;
pub mod config;
pub mod error;
pub mod shape;
mod columns;
mod offsets;
mod disk;
mod warehouse;
mod ranged;
mod catalogue;
mod stored;
mod rows;
mod file;
mod batch;
mod redelivery;
mod manifests;
mod commit;
mod expire;
mod sweep;
mod compact;
mod hint;
mod metrics;
mod worker;
pub mod sink;
pub mod lookup;

#[cfg(test)]
mod tests;

/// The catalogue's name, as PyIceberg's `SqlCatalog` is given it.
pub const CATALOGUE: &str = "forebay";
/// The namespace of the tables.
pub const NAMESPACE: &str = "forebay";
