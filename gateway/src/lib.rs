//! The gateway's hands: HTTP, disk, log and object store around the pure `forebay_gateway_core`.
//!
//! The path of a request:
//! ```text
//! socket ─ server ─ handler ─ body ─ prepare ─▶ intake ─▶ writer ─▶ 2xx
//!                   room?     limits  source    queue     fsync  ├─▶ cutter ─▶ publisher ─▶ log (events, ticks)
//!                   (503)     (408,   (401,     of limits.       └─▶ lander ──────────────▶ object store
//!                              413)    403)     in_flight            both done: the segment is deleted
//! ```
//! Owns: acknowledgement (law A2), the order of publishing, landing (law R1). Does not own: what a request means.

pub mod config;
pub mod client;
pub mod sources;
pub mod find;

mod budget;
mod bulkhead;
mod chance;
mod clock;
mod error;
mod gateway;
mod http;
mod ids;
mod lander;
mod metrics;
mod outage;
mod publisher;
mod spool;

pub use config::{Config, ConfigError, SourceConfig, validate};
pub use error::StartError;
pub use gateway::{Gateway, Leftover};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
