//! Combine: what an event means beside those that came before it.
//!
//! Owns: the questions, as pure functions over what the state holds. Does not own: the state.

pub mod dedup;
pub mod window;
