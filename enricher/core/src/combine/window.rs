//! Windows: what the events of a stretch of time come to, under one key.
//!
//! Owns: where windows lie, what is kept of their events, when a result is told, told again and final, and which events
//! miss one. Does not own: storage and timers (`State`), the watermark, which field is a key or a value.
//! Invariants: E6, time is the watermark and nothing else; E7, nothing is told of a window after its final result, and an
//! event that comes after that is named as late; each step is the same in any batch.

pub mod declare;
pub mod field;
pub mod condition;
pub mod aggregate;
pub mod grid;
pub mod measure;
pub mod number;
pub mod panes;
pub mod pane;
pub mod sessions;
pub mod sketch;
pub mod zone;

use forebay_schemas::time::Micros;
use forebay_schemas::wire::avro::{DecodeError, Reader};
use grid::Span;
use measure::Kept;
use panes::Pane;

/// What a window came to. A later revision takes the place of an earlier one of the same key and start. A session that
/// became part of one with another start is told once more: it ends where it begins, nothing is in it, and it is final.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    pub span: Span,
    /// From 1.
    pub revision: u32,
    pub is_final: bool,
    /// In the order in which the values are declared.
    pub kept: Vec<Kept>,
}

/// The newest window that an event came too late for; it missed those before it, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missed {
    pub span: Span,
    /// From the window's last moment to the watermark.
    pub by_micros: i64,
}

/// When the key's timer is due that has this line; every key with a line has one.
pub fn due(line: &[u8]) -> Result<Option<Micros>, DecodeError> {
    Reader::new(line).optional(Reader::micros)
}

/// Of one operator. A key has one timer at most, and one if it has a line.
pub trait State {
    type Error;
    fn line(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;
    /// `None` removes it.
    fn put_line(&mut self, key: &[u8], line: Option<Vec<u8>>);
    fn pane(&self, key: &[u8], pane: Pane) -> Result<Option<Vec<u8>>, Self::Error>;
    /// Several, in their order, at once.
    fn panes(&self, key: &[u8], panes: &[Pane]) -> Result<Vec<Option<Vec<u8>>>, Self::Error>;
    fn put_pane(&mut self, key: &[u8], pane: Pane, kept: Option<Vec<u8>>);
    /// A block of a sketch of the pane; blocks of all its sketches are numbered together.
    fn block(&self, key: &[u8], pane: Pane, number: u16) -> Result<Option<Vec<u8>>, Self::Error>;
    fn put_block(&mut self, key: &[u8], pane: Pane, number: u16, block: Option<Vec<u8>>);
    /// Moves the key's timer.
    fn set_timer(&mut self, key: &[u8], from: Option<Micros>, to: Option<Micros>);
    /// What is stored is not what was put there.
    fn corrupt(&self, what: &'static str) -> Self::Error;
}

fn merge<S: State>(state: &S, all: &mut [Kept], more: &[Kept]) -> Result<(), S::Error> {
    if all.len() != more.len() {
        return Err(state.corrupt("other values are kept than are declared"));
    }
    all.iter_mut()
        .zip(more)
        .try_for_each(|(all, more)| all.merge(more))
        .map_err(|_| state.corrupt("other values are kept than are declared"))
}

#[cfg(test)]
mod tests;
