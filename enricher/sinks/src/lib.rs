//! Where trusted events and window results go on: own consumers of their topics, each with its offsets stored in what
//! it fills.
//!
//! The path of a record: `table::sink` reads it from the log → `table::shape` makes columns of it → `table::file`
//! writes Parquet → `table::commit` adds the files *and* the new offsets to the table, in one step or not at all.
//!
//! Owns: the Apache Iceberg tables of trusted events and of window results (`table`). Does not own: what may be trusted
//! (only masked events reach the topics), the log. Invariant S1: a sink may be given the same record twice and keeps it once.

pub mod table;

pub use table::config::Config;
pub use table::error::{SinkError, StartError};
pub use table::lookup::{Lookup, Snapshot, lookup, reached};
pub use table::place::{CatalogueAt, Warehouse};
pub use table::shape::Table;
pub use table::sink::TableSink;
