//! Plays recordings of real SDKs to a server: what `forebay send` does.
//!
//! Owns: reading recordings, giving a repetition fresh event ids, HTTP/1.1 as recorded, resending, the summary.
//! Does not own: the flags and their wording (`commands::send`).
//! Invariants: without `--unique` and `--key` a body goes out byte for byte as recorded; within one repetition equal
//! ids stay equal; the requests of a repetition keep their order.

mod recording;
mod layers;
mod ids;
mod template;
mod wire;
mod tally;
mod drive;

pub use drive::{Options, play};
pub use recording::read;
pub use tally::Summary;
