//! The two things Forebay stands on, each behind one trait: the log and the object store.
//!
//! Owns: appends, reads and transactions on topics (`log`), put-if-absent objects (`objects`), and their forms:
//! `log::embedded` (RocksDB on this machine), `objects::folder`; their sections of the configuration (`config`).
//! Does not own: what the records mean.

mod durable;
pub mod config;
pub mod log;
pub mod objects;
