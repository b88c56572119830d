//! Words and formats shared by every part of Forebay: what an event, an outcome or a position *is*.
//!
//! Owns: nouns (`id`, `time`, `outcome` …), JSON as text (`json`, `canonical`), the Avro records on disk and
//! on the log (`wire`, `ocf`), the event catalogue's format (`catalog`), named bounds (`limit`).
//! Does not own: any IO, clock or randomness; those come in as arguments.

pub mod canonical;
pub mod catalog;
pub mod dialect;
pub mod failpoint;
pub mod id;
pub mod instant;
pub mod json;
pub mod limit;
pub mod ocf;
pub mod outcome;
pub mod partition;
pub mod quantity;
pub mod reason;
pub mod scan;
pub mod stage;
pub mod time;
pub mod topic;
pub mod wire;
