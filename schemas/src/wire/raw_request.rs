//! One HTTP request as it arrived: the record of the spool and of the raw landing (design §4.1).

use super::avro::{self, DecodeError, Reader};
use crate::dialect::Dialect;
use crate::id::{EventId, IdOrigin, RequestId};
use crate::time::Micros;
use bytes::Bytes;

pub const SCHEMA: &str = include_str!("../../wire/raw_request.avsc");

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawRequest {
    pub request_id: RequestId,
    pub received_at: Micros,
    pub gateway: String,
    pub source: String,
    pub peer: String,
    pub client_ip: Option<String>,
    pub method: String,
    pub target: String,
    pub headers: Vec<Header>,
    pub body: Bytes,
    pub dialect: Dialect,
    pub events: Vec<EventRef>,
}

/// A header by name and value, or by name and length alone when it is not on the allow-list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    pub name: String,
    pub value: Option<Bytes>,
    pub length: u32,
}

/// Where an event stands in the decoded body (for a GET: in the query text).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventRef {
    pub event_id: EventId,
    pub id_origin: IdOrigin,
    pub offset: u64,
    pub length: u64,
}

pub fn encode(record: &RawRequest, out: &mut Vec<u8>) {
    avro::string(record.request_id.encode(&mut [0; RequestId::CHARS]), out);
    avro::long(record.received_at.0, out);
    avro::string(&record.gateway, out);
    avro::string(&record.source, out);
    avro::string(&record.peer, out);
    avro::optional_string(record.client_ip.as_deref(), out);
    avro::string(&record.method, out);
    avro::string(&record.target, out);
    avro::array(
        &record.headers,
        |header, out| {
            avro::string(&header.name, out);
            avro::optional(header.value.as_deref(), avro::bytes, out);
            avro::long(i64::from(header.length), out);
        },
        out,
    );
    avro::bytes(&record.body, out);
    avro::string(record.dialect.name(), out);
    avro::array(
        &record.events,
        |event, out| {
            avro::string(event.event_id.as_str(), out);
            avro::long(event.id_origin as i64, out);
            avro::long(event.offset as i64, out);
            avro::long(event.length as i64, out);
        },
        out,
    );
}

/// Reads one record from the front of `reader`. `block` is the buffer that `reader` reads: bodies stay slices of it.
pub fn decode(reader: &mut Reader<'_>, block: &Bytes) -> Result<RawRequest, DecodeError> {
    Ok(RawRequest {
        request_id: reader.str()?.parse().map_err(|_| DecodeError("request_id is no UUID"))?,
        received_at: reader.micros()?,
        gateway: reader.string()?,
        source: reader.string()?,
        peer: reader.string()?,
        client_ip: reader.optional_string()?,
        method: reader.string()?,
        target: reader.string()?,
        headers: reader.array(|r| {
            Ok(Header {
                name: r.string()?,
                value: r.optional(Reader::bytes)?.map(|value| block.slice_ref(value)),
                length: u32::try_from(r.long()?).map_err(|_| DecodeError("header length out of range"))?,
            })
        })?,
        body: block.slice_ref(reader.bytes()?),
        dialect: Dialect::from_name(reader.str()?).ok_or(DecodeError("no such dialect"))?,
        events: reader.array(|r| {
            Ok(EventRef {
                event_id: EventId::new(r.str()?).ok_or(DecodeError("event_id empty or too long"))?,
                id_origin: r.id_origin()?,
                offset: r.long()? as u64,
                length: r.long()? as u64,
            })
        })?,
    })
}
