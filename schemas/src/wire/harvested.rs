//! One event as the gateway cut it out of a request (design §4.2).

use super::avro::{self, DecodeError, Reader};
use super::{frame, unframe};
use crate::dialect::Dialect;
use crate::id::{EventId, IdOrigin, RequestId};
use crate::time::Micros;
use crate::topic::Topic;
use bytes::Bytes;

pub const SCHEMA: &str = include_str!("../../wire/harvested_event.avsc");

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Harvested {
    pub event_id: EventId,
    pub id_origin: IdOrigin,
    pub request_id: RequestId,
    /// Place in its request, from 0.
    pub index: u32,
    pub gateway: String,
    pub source: String,
    pub dialect: Dialect,
    pub received_at: Micros,
    pub sent_at: Option<Micros>,
    pub client_ip: Option<String>,
    pub user_agent: Option<String>,
    pub headers: Vec<(String, String)>,
    pub content: Content,
    pub envelope: Option<String>,
    pub payload: Bytes,
    /// Set when `payload` is cut: the event's whole length.
    pub full_length: Option<u64>,
}

/// The envelope of a body that could not be read, by which it is told from an event that is only too large.
pub const UNREADABLE: &str = r#"{"unreadable":true}"#;

/// What `payload` is: a JSON value, a query string, or bytes that nobody could read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    Json,
    Query,
    Bytes,
}

impl Content {
    pub const ALL: [Content; 3] = [Content::Json, Content::Query, Content::Bytes];
    pub fn name(self) -> &'static str {
        match self {
            Content::Json => "json",
            Content::Query => "query",
            Content::Bytes => "bytes",
        }
    }
}

/// The framed message value.
pub fn encode(event: &Harvested) -> Vec<u8> {
    let mut out = frame(Topic::Harvested, event.payload.len() + 320);
    avro::string(event.event_id.as_str(), &mut out);
    avro::long(event.id_origin as i64, &mut out);
    avro::string(event.request_id.encode(&mut [0; RequestId::CHARS]), &mut out);
    avro::long(i64::from(event.index), &mut out);
    avro::string(&event.gateway, &mut out);
    avro::string(&event.source, &mut out);
    avro::string(event.dialect.name(), &mut out);
    avro::long(event.received_at.0, &mut out);
    avro::optional_long(event.sent_at.map(|t| t.0), &mut out);
    avro::optional_string(event.client_ip.as_deref(), &mut out);
    avro::optional_string(event.user_agent.as_deref(), &mut out);
    avro::array(
        &event.headers,
        |(name, value), out| {
            avro::string(name, out);
            avro::string(value, out);
        },
        &mut out,
    );
    avro::long(event.content as i64, &mut out);
    avro::optional_string(event.envelope.as_deref(), &mut out);
    avro::bytes(&event.payload, &mut out);
    avro::optional_long(event.full_length.map(|n| n as i64), &mut out);
    out
}

/// Reads a framed message value; `payload` stays a slice of it.
pub fn decode(value: &Bytes) -> Result<Harvested, DecodeError> {
    let mut r = Reader::new(unframe(Topic::Harvested, value)?);
    let event = Harvested {
        event_id: EventId::new(r.str()?).ok_or(DecodeError("event_id empty or too long"))?,
        id_origin: r.id_origin()?,
        request_id: r.str()?.parse().map_err(|_| DecodeError("request_id is no UUID"))?,
        index: u32::try_from(r.long()?).map_err(|_| DecodeError("index out of range"))?,
        gateway: r.string()?,
        source: r.string()?,
        dialect: Dialect::from_name(r.str()?).ok_or(DecodeError("no such dialect"))?,
        received_at: r.micros()?,
        sent_at: r.optional(Reader::micros)?,
        client_ip: r.optional_string()?,
        user_agent: r.optional_string()?,
        headers: r.array(|r| Ok((r.string()?, r.string()?)))?,
        content: usize::try_from(r.long()?).ok().and_then(|n| Content::ALL.get(n).copied()).ok_or(DecodeError("no such symbol"))?,
        envelope: r.optional_string()?,
        payload: value.slice_ref(r.bytes()?),
        full_length: r.optional(Reader::long)?.map(|n| n as u64),
    };
    r.end()?;
    Ok(event)
}
