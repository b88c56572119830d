//! The enricher's decisions as plain code: a harvested event goes in, what is to be told about it comes out.
//!
//! The path of an event: `Harvested` (wire) → `admit::decode` → `Decoded` → `admit::validate` → `Valid` →
//! `admit::sanitize` → `Sanitized` → `admit::mask` → `Masked` → `combine::dedup` → `deliver` → bytes for the topics.
//! An event that stops on the way becomes a `Reject`, and `deliver::bad` seals it.
//!
//! Owns: every decision about one event. Does not own: state, offsets, threads, clock, randomness (arguments all).
//! Invariant E2: only `Masked` can be delivered, and nothing but `admit::mask` makes one.

pub mod options;
pub mod keys;
pub mod pipeline;
pub mod fingerprint;
pub mod admit;
pub mod combine;
pub mod deliver;
pub mod seal;

pub use admit::mask::{Masked, Unclassified};
pub use keys::{KeyError, KeyRing, Keys};
pub use options::{Collision, Options, UnclassifiedPolicy, UnknownEvent};
pub use pipeline::{Admitted, Pipeline, PipelineError, Reject};
