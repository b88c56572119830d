//! What the events of a window came to (design §4.3). Upsert by (window, key, start): the highest revision counts.

use super::avro::{self, DecodeError, Reader};
use super::{frame, unframe};
use crate::time::Micros;
use crate::topic::Topic;
use std::borrow::Cow;

pub const SCHEMA: &str = include_str!("../../wire/window_result.avsc");

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowResult<'a> {
    /// Uid of the window.
    pub window: Cow<'a, str>,
    /// JSON text of an object: the key's fields.
    pub key: Cow<'a, str>,
    pub start: Micros,
    /// The first instant after the window; a session that became part of another ends where it starts.
    pub end: Micros,
    /// JSON text of an object: the declared values.
    pub values: Cow<'a, str>,
    /// From 1.
    pub revision: i64,
    pub is_final: bool,
    /// Of the window's declaration and the time zone database that bounded it.
    pub fingerprint: Cow<'a, str>,
}

/// The framed message value.
pub fn encode(result: &WindowResult<'_>) -> Vec<u8> {
    let mut out = frame(Topic::Windows, result.key.len() + result.values.len() + 96);
    avro::string(&result.window, &mut out);
    avro::string(&result.key, &mut out);
    avro::long(result.start.0, &mut out);
    avro::long(result.end.0, &mut out);
    avro::string(&result.values, &mut out);
    avro::long(result.revision, &mut out);
    avro::boolean(result.is_final, &mut out);
    avro::string(&result.fingerprint, &mut out);
    out
}

/// Reads a framed message value; texts stay slices of it.
pub fn decode(value: &[u8]) -> Result<WindowResult<'_>, DecodeError> {
    let mut r = Reader::new(unframe(Topic::Windows, value)?);
    let result = WindowResult {
        window: r.text()?,
        key: r.text()?,
        start: r.micros()?,
        end: r.micros()?,
        values: r.text()?,
        revision: r.long()?,
        is_final: r.boolean()?,
        fingerprint: r.text()?,
    };
    r.end()?;
    Ok(result)
}
