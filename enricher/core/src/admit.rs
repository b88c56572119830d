//! Admit: from what arrived to what may be told, one event at a time and without looking at any other.
//!
//! Owns: the stages in order, one file each, and the types that carry the law: `Decoded` → `Valid` → `Sanitized` →
//! `Masked`. Each is made by its stage alone. Does not own: state, time windows, sealing.

pub mod decode;
pub mod validate;
pub mod sanitize;
pub mod mask;

pub(crate) mod memo;
pub(crate) mod names;
pub(crate) mod percent;
pub(crate) mod plan;
pub(crate) mod scan;
pub(crate) mod shape;
