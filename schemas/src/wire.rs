//! The Avro records on the log and in the raw landing: one file a record, each with its schema, encoder and decoder.
//!
//! Owns: datum encoding by hand (4× apache-avro's speed), checked against apache-avro in `wire/tests.rs`; the
//! Confluent wire format (byte 0, big-endian schema id, datum). Does not own: container files (`ocf`).

pub mod avro;
pub mod bad;
pub mod delta;
pub mod harvested;
pub mod late;
pub mod partials;
pub mod raw_request;
pub mod trusted;
pub mod window;

use crate::topic::Topic;
use avro::DecodeError;

/// Starts a message value of `topic`: magic byte and schema id.
pub fn frame(topic: Topic, capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity + 5);
    out.push(0);
    out.extend_from_slice(&topic.schema_id().to_be_bytes());
    out
}

/// The datum of a framed message value of `topic`.
pub fn unframe(topic: Topic, value: &[u8]) -> Result<&[u8], DecodeError> {
    match value.split_first_chunk::<5>() {
        Some(([0, id @ ..], datum)) if u32::from_be_bytes(*id) == topic.schema_id() => Ok(datum),
        _ => Err(DecodeError("not a message of this topic's schema")),
    }
}

/// The Avro schema (JSON text) of `topic`'s values.
pub fn schema(topic: Topic) -> &'static str {
    match topic {
        Topic::Harvested => harvested::SCHEMA,
        Topic::Trusted => trusted::SCHEMA,
        Topic::Bad => bad::SCHEMA,
        Topic::Delta => delta::SCHEMA,
        Topic::Windows => window::SCHEMA,
        Topic::Late => late::SCHEMA,
        Topic::Repartition => partials::SCHEMA,
    }
}

#[cfg(test)]
mod tests;
