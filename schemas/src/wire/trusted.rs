//! An event that downstream teams may query (design §4.3). `encode` is called from one place only: the enricher's
//! `deliver` stage, which takes nothing but a masked event (a `tidy` test keeps it so).

use super::avro::{self, DecodeError, Reader};
use super::{frame, unframe};
use crate::id::{EventId, RequestId};
use crate::time::Micros;
use crate::topic::Topic;

pub const SCHEMA: &str = include_str!("../../wire/trusted_event.avsc");

#[derive(Clone, PartialEq, Debug)]
pub struct Trusted {
    pub event_id: EventId,
    /// Set when a collision was re-keyed (design §6.7).
    pub original_event_id: Option<String>,
    pub event_type: String,
    pub schema_version: String,
    pub event_time: Micros,
    pub time_origin: TimeOrigin,
    pub received_at: Micros,
    pub source: String,
    pub user_id: Option<String>,
    pub anonymous_id: Option<String>,
    pub session_id: Option<String>,
    pub seq: Option<i64>,
    pub session_index: Option<i64>,
    pub page: Option<Page>,
    pub device: Option<Device>,
    pub geo: Option<Geo>,
    pub campaign: Option<Campaign>,
    /// JSON text of an object.
    pub properties: String,
    /// JSON text of an object.
    pub entities: String,
    pub provenance: Provenance,
}

/// What `event_time` stands on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeOrigin {
    /// The client's clock, corrected by the time between its sending and our receiving.
    Corrected,
    /// The client's clock, uncorrected (it told no sending time).
    Client,
    /// The client's time lay outside the allowed bounds and was clamped.
    Clamped,
    /// No readable client time: the gateway's receiving time.
    Received,
}

impl TimeOrigin {
    pub const ALL: [TimeOrigin; 4] = [TimeOrigin::Corrected, TimeOrigin::Client, TimeOrigin::Clamped, TimeOrigin::Received];
    pub fn name(self) -> &'static str {
        match self {
            TimeOrigin::Corrected => "corrected",
            TimeOrigin::Client => "client",
            TimeOrigin::Clamped => "clamped",
            TimeOrigin::Received => "received",
        }
    }
    pub fn from_name(name: &str) -> Option<TimeOrigin> {
        TimeOrigin::ALL.into_iter().find(|o| o.name() == name)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    pub url: Option<String>,
    pub path: Option<String>,
    pub title: Option<String>,
    pub referrer: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Device {
    pub kind: Option<String>,
    pub os: Option<String>,
    pub browser: Option<String>,
    pub locale: Option<String>,
    pub timezone: Option<String>,
    pub screen_width: Option<i64>,
    pub screen_height: Option<i64>,
    pub library: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Geo {
    pub country: Option<String>,
    pub region: Option<String>,
    pub city: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Campaign {
    pub source: Option<String>,
    pub medium: Option<String>,
    pub name: Option<String>,
    pub term: Option<String>,
    pub content: Option<String>,
}

/// Where an output came from: recognises a redelivery.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Provenance {
    pub request_id: RequestId,
    pub partition: i32,
    pub offset: i64,
    pub pipeline: String,
}

impl Provenance {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        avro::string(self.request_id.encode(&mut [0; RequestId::CHARS]), out);
        avro::long(i64::from(self.partition), out);
        avro::long(self.offset, out);
        avro::string(&self.pipeline, out);
    }
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Provenance, DecodeError> {
        Ok(Provenance {
            request_id: r.str()?.parse().map_err(|_| DecodeError("request_id is no UUID"))?,
            partition: r.int()?,
            offset: r.long()?,
            pipeline: r.string()?,
        })
    }
}

/// The framed message value.
pub fn encode(event: &Trusted) -> Vec<u8> {
    let mut out = frame(Topic::Trusted, event.properties.len() + 640);
    avro::string(event.event_id.as_str(), &mut out);
    avro::optional_string(event.original_event_id.as_deref(), &mut out);
    avro::string(&event.event_type, &mut out);
    avro::string(&event.schema_version, &mut out);
    avro::long(event.event_time.0, &mut out);
    avro::string(event.time_origin.name(), &mut out);
    avro::long(event.received_at.0, &mut out);
    avro::string(&event.source, &mut out);
    avro::optional_string(event.user_id.as_deref(), &mut out);
    avro::optional_string(event.anonymous_id.as_deref(), &mut out);
    avro::optional_string(event.session_id.as_deref(), &mut out);
    avro::optional_long(event.seq, &mut out);
    avro::optional_long(event.session_index, &mut out);
    avro::optional(event.page.as_ref(), |page, out| strings(&[&page.url, &page.path, &page.title, &page.referrer], out), &mut out);
    avro::optional(
        event.device.as_ref(),
        |device, out| {
            strings(&[&device.kind, &device.os, &device.browser, &device.locale, &device.timezone], out);
            avro::optional_long(device.screen_width, out);
            avro::optional_long(device.screen_height, out);
            strings(&[&device.library], out);
        },
        &mut out,
    );
    avro::optional(event.geo.as_ref(), |geo, out| strings(&[&geo.country, &geo.region, &geo.city], out), &mut out);
    avro::optional(
        event.campaign.as_ref(),
        |campaign, out| strings(&[&campaign.source, &campaign.medium, &campaign.name, &campaign.term, &campaign.content], out),
        &mut out,
    );
    avro::string(&event.properties, &mut out);
    avro::string(&event.entities, &mut out);
    event.provenance.write(&mut out);
    out
}

fn strings(values: &[&Option<String>], out: &mut Vec<u8>) {
    for value in values {
        avro::optional_string(value.as_deref(), out);
    }
}

/// Reads a framed message value.
pub fn decode(value: &[u8]) -> Result<Trusted, DecodeError> {
    let mut r = Reader::new(unframe(Topic::Trusted, value)?);
    let event = Trusted {
        event_id: EventId::new(r.str()?).ok_or(DecodeError("event_id empty or too long"))?,
        original_event_id: r.optional_string()?,
        event_type: r.string()?,
        schema_version: r.string()?,
        event_time: r.micros()?,
        time_origin: TimeOrigin::from_name(r.str()?).ok_or(DecodeError("no such time origin"))?,
        received_at: r.micros()?,
        source: r.string()?,
        user_id: r.optional_string()?,
        anonymous_id: r.optional_string()?,
        session_id: r.optional_string()?,
        seq: r.optional(Reader::long)?,
        session_index: r.optional(Reader::long)?,
        page: r.optional(|r| {
            Ok(Page { url: r.optional_string()?, path: r.optional_string()?, title: r.optional_string()?, referrer: r.optional_string()? })
        })?,
        device: r.optional(|r| {
            Ok(Device {
                kind: r.optional_string()?,
                os: r.optional_string()?,
                browser: r.optional_string()?,
                locale: r.optional_string()?,
                timezone: r.optional_string()?,
                screen_width: r.optional(Reader::long)?,
                screen_height: r.optional(Reader::long)?,
                library: r.optional_string()?,
            })
        })?,
        geo: r.optional(|r| Ok(Geo { country: r.optional_string()?, region: r.optional_string()?, city: r.optional_string()? }))?,
        campaign: r.optional(|r| {
            Ok(Campaign {
                source: r.optional_string()?,
                medium: r.optional_string()?,
                name: r.optional_string()?,
                term: r.optional_string()?,
                content: r.optional_string()?,
            })
        })?,
        properties: r.string()?,
        entities: r.string()?,
        provenance: Provenance::read(&mut r)?,
    };
    r.end()?;
    Ok(event)
}
