//! A trusted event that came too late for a window (design §4.3). It is in the topic of trusted events as well.

use super::avro::{self, DecodeError, Reader};
use super::trusted::{self, Trusted};
use super::{frame, unframe};
use crate::time::Micros;
use crate::topic::Topic;
use std::borrow::Cow;

pub const SCHEMA: &str = include_str!("../../wire/late_event.avsc");

/// What an event missed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missed<'a> {
    /// Uid of the window.
    pub window: Cow<'a, str>,
    /// The newest window that it missed; those before it that hold its time it missed too.
    pub start: Micros,
    pub end: Micros,
    /// From the window's end to the watermark that the event met.
    pub by_micros: i64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Late<'a> {
    pub missed: Missed<'a>,
    pub event: Trusted<'a>,
}

/// The framed message value, from the framed value of the trusted event.
pub fn encode(missed: &Missed<'_>, trusted: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let event = unframe(Topic::Trusted, trusted)?;
    let mut out = frame(Topic::Late, event.len() + missed.window.len() + 40);
    avro::string(&missed.window, &mut out);
    avro::long(missed.start.0, &mut out);
    avro::long(missed.end.0, &mut out);
    avro::long(missed.by_micros, &mut out);
    out.extend_from_slice(event);
    Ok(out)
}

/// Reads a framed message value; texts stay slices of it.
pub fn decode(value: &[u8]) -> Result<Late<'_>, DecodeError> {
    let mut r = Reader::new(unframe(Topic::Late, value)?);
    let missed = Missed { window: r.text()?, start: r.micros()?, end: r.micros()?, by_micros: r.long()? };
    let event = trusted::read(&mut r)?;
    r.end()?;
    Ok(Late { missed, event })
}
