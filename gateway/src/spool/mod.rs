//! The spool: requests on this machine's disk, durable before they are answered, until they are landed and published.
//!
//! Path: `intake` (queue, ids) → `writer` (one block and one fsync for all that wait) → `shared` (what is durable) →
//! publisher and lander → `shelf` says what may go. On disk: `dir` (lock, repair, ledgers, deletion), `reader`.
//! Invariants: nothing is acknowledged before its block is synced; a segment is deleted only when its object is landed
//! and its events are on the log; one process a spool.

pub mod intake;
pub mod shelf;
pub mod reader;
pub mod dir;
pub mod file;
pub mod writer;
pub mod shared;
pub mod waits;

use crate::budget::Reserved;
use bytes::Bytes;
use forebay_schemas::wire::raw_request::RawRequest;

/// A request on its way: as it goes to the disk, and decoded for the publisher.
pub struct Kept {
    pub raw: RawRequest,
    pub decoded: Bytes,
    /// Its share of the memory budget, given back when the last holder lets go.
    pub _reserved: Reserved,
}

#[cfg(test)]
mod tests;
