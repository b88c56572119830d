//! What one commit of one task adds to windows whose keys span partitions, on its way to the tasks that own the keys.

use super::avro::{self, DecodeError, Reader};
use super::{frame, unframe};
use crate::time::Micros;
use crate::topic::Topic;
use std::borrow::Cow;

pub const SCHEMA: &str = include_str!("../../wire/partials.avsc");
/// The newest version of what is kept. A later one may append fields.
pub const FORMAT: i32 = 1;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partials<'a> {
    pub format: i32,
    pub task: i32,
    /// Of the task, with these partials: none of them is late for it.
    pub watermark: Micros,
    pub partials: Vec<Partial<'a>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partial<'a> {
    /// Uid of the window.
    pub window: Cow<'a, str>,
    /// As in a window's result.
    pub key: Cow<'a, str>,
    /// Where the bucket of the window's grid begins.
    pub bucket: Micros,
    /// The first window that it counts in; `None`: every one that holds the bucket.
    pub since: Option<Micros>,
    /// As in the enricher's state.
    pub kept: Cow<'a, [u8]>,
}

/// The framed message value.
pub fn encode(partials: &Partials<'_>) -> Vec<u8> {
    let mut out = frame(Topic::Repartition, partials.partials.len() * 64 + 24);
    avro::long(i64::from(partials.format), &mut out);
    avro::long(i64::from(partials.task), &mut out);
    avro::long(partials.watermark.0, &mut out);
    avro::array(
        &partials.partials,
        |partial, out| {
            avro::string(&partial.window, out);
            avro::string(&partial.key, out);
            avro::long(partial.bucket.0, out);
            avro::optional_long(partial.since.map(|since| since.0), out);
            avro::bytes(&partial.kept, out);
        },
        &mut out,
    );
    out
}

/// Reads a framed message value; texts and bytes stay slices of it.
pub fn decode(value: &[u8]) -> Result<Partials<'_>, DecodeError> {
    let mut r = Reader::new(unframe(Topic::Repartition, value)?);
    let partials = Partials {
        format: r.int()?,
        task: r.int()?,
        watermark: r.micros()?,
        partials: r.array(|r| {
            Ok(Partial {
                window: r.text()?,
                key: r.text()?,
                bucket: r.micros()?,
                since: r.optional(Reader::micros)?,
                kept: Cow::Borrowed(r.bytes()?),
            })
        })?,
    };
    // What a later format has appended is not for this version.
    if partials.format <= FORMAT {
        r.end()?;
    }
    Ok(partials)
}
