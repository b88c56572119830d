//! What one commit changed in one task's state (design §6.2): the recovery log.

use super::avro::{self, DecodeError, Reader};
use super::{frame, unframe};
use crate::time::Micros;
use crate::topic::Topic;

pub const SCHEMA: &str = include_str!("../../wire/state_delta.avsc");
/// The newest version of the state's key and value encoding, which `ops` carry. A later one may append fields here.
pub const FORMAT: i32 = 2;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delta {
    pub format: i32,
    pub task: i32,
    pub seq: i64,
    /// `seq` of the commit before this one; 0 at the start of a chain.
    pub prev_seq: i64,
    /// From 0; all parts of a commit stand in one transaction.
    pub part: i32,
    pub parts: i32,
    /// Input range `[from_offset, to_offset)`.
    pub from_offset: i64,
    pub to_offset: i64,
    pub watermark: Micros,
    pub clock: Micros,
    pub pipeline: String,
    pub ops: Vec<Op>,
}

/// An absolute put, or a deletion when `value` is `None`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

/// The framed message value.
pub fn encode(delta: &Delta) -> Vec<u8> {
    let mut out = frame(Topic::Delta, delta.ops.len() * 48 + 128);
    avro::long(i64::from(delta.format), &mut out);
    avro::long(i64::from(delta.task), &mut out);
    avro::long(delta.seq, &mut out);
    avro::long(delta.prev_seq, &mut out);
    avro::long(i64::from(delta.part), &mut out);
    avro::long(i64::from(delta.parts), &mut out);
    avro::long(delta.from_offset, &mut out);
    avro::long(delta.to_offset, &mut out);
    avro::long(delta.watermark.0, &mut out);
    avro::long(delta.clock.0, &mut out);
    avro::string(&delta.pipeline, &mut out);
    avro::array(
        &delta.ops,
        |op, out| {
            avro::bytes(&op.key, out);
            avro::optional(op.value.as_deref(), avro::bytes, out);
        },
        &mut out,
    );
    out
}

/// Reads a framed message value.
pub fn decode(value: &[u8]) -> Result<Delta, DecodeError> {
    let mut r = Reader::new(unframe(Topic::Delta, value)?);
    let delta = Delta {
        format: r.int()?,
        task: r.int()?,
        seq: r.long()?,
        prev_seq: r.long()?,
        part: r.int()?,
        parts: r.int()?,
        from_offset: r.long()?,
        to_offset: r.long()?,
        watermark: r.micros()?,
        clock: r.micros()?,
        pipeline: r.string()?,
        ops: r.array(|r| Ok(Op { key: r.bytes()?.to_vec(), value: r.optional(Reader::bytes)?.map(<[u8]>::to_vec) }))?,
    };
    // What a later format has appended is not for this version.
    if delta.format <= FORMAT {
        r.end()?;
    }
    Ok(delta)
}
