//! A rejected event (design §4.3): why, in clear and without any of its values; the event itself sealed.

use super::avro::{self, DecodeError, Reader};
use super::trusted::Provenance;
use super::{frame, unframe};
use crate::dialect::Dialect;
use crate::id::{EventId, RequestId};
use crate::reason::Reason;
use crate::stage::Stage;
use crate::time::Micros;
use crate::topic::Topic;

pub const SCHEMA: &str = include_str!("../../wire/bad_event.avsc");

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bad {
    pub clear: Clear,
    pub sealed: Sealed,
}

/// What everyone may read. `detail` names known paths and expectations, never a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clear {
    pub event_id: EventId,
    pub source: String,
    pub dialect: Dialect,
    pub request_id: RequestId,
    pub index: u32,
    pub received_at: Micros,
    pub stage: Stage,
    pub reason: Reason,
    pub detail: String,
    pub full_length: Option<u64>,
    /// Log time.
    pub failed_at: Micros,
    pub provenance: Provenance,
}

/// The whole harvested event (its framed value), by HPKE; the associated data is the encoded clear part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    pub key_id: String,
    pub encapsulated_key: Vec<u8>,
    /// Place in its sealing context, from 0.
    pub sequence: u64,
    pub ciphertext: Vec<u8>,
}

/// The clear part as it stands in the message: what is sealed is bound to it.
pub fn encode_clear(clear: &Clear, out: &mut Vec<u8>) {
    avro::string(clear.event_id.as_str(), out);
    avro::string(&clear.source, out);
    avro::string(clear.dialect.name(), out);
    avro::string(clear.request_id.encode(&mut [0; RequestId::CHARS]), out);
    avro::long(i64::from(clear.index), out);
    avro::long(clear.received_at.0, out);
    avro::string(clear.stage.name(), out);
    avro::string(clear.reason.name(), out);
    avro::string(&clear.detail, out);
    avro::optional_long(clear.full_length.map(|n| n as i64), out);
    avro::long(clear.failed_at.0, out);
    clear.provenance.write(out);
}

/// The framed message value.
pub fn encode(bad: &Bad) -> Vec<u8> {
    let mut out = frame(Topic::Bad, bad.sealed.ciphertext.len() + 512);
    encode_clear(&bad.clear, &mut out);
    avro::string(&bad.sealed.key_id, &mut out);
    avro::bytes(&bad.sealed.encapsulated_key, &mut out);
    avro::long(bad.sealed.sequence as i64, &mut out);
    avro::bytes(&bad.sealed.ciphertext, &mut out);
    out
}

/// Reads a framed message value.
pub fn decode(value: &[u8]) -> Result<Bad, DecodeError> {
    let mut r = Reader::new(unframe(Topic::Bad, value)?);
    let clear = Clear {
        event_id: EventId::new(r.str()?).ok_or(DecodeError("event_id empty or too long"))?,
        source: r.string()?,
        dialect: Dialect::from_name(r.str()?).ok_or(DecodeError("no such dialect"))?,
        request_id: r.str()?.parse().map_err(|_| DecodeError("request_id is no UUID"))?,
        index: u32::try_from(r.long()?).map_err(|_| DecodeError("index out of range"))?,
        received_at: r.micros()?,
        stage: Stage::from_name(r.str()?).ok_or(DecodeError("no such stage"))?,
        reason: Reason::from_name(r.str()?).ok_or(DecodeError("no such reason"))?,
        detail: r.string()?,
        full_length: r.optional(Reader::long)?.map(|n| n as u64),
        failed_at: r.micros()?,
        provenance: Provenance::read(&mut r)?,
    };
    let sealed =
        Sealed { key_id: r.string()?, encapsulated_key: r.bytes()?.to_vec(), sequence: r.long()? as u64, ciphertext: r.bytes()?.to_vec() };
    r.end()?;
    Ok(Bad { clear, sealed })
}
