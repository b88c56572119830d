//! An event that downstream teams may query (design §4.3). `encode` is called from one place only: the enricher's
//! `deliver` stage, which takes nothing but a masked event (a `tidy` test keeps it so).

use super::avro::{self, DecodeError, Reader};
use super::{frame, unframe};
use crate::id::{EventId, RequestId};
use crate::time::Micros;
use crate::topic::Topic;
use std::borrow::Cow;

pub const SCHEMA: &str = include_str!("../../wire/trusted_event.avsc");

#[derive(Clone, PartialEq, Debug)]
pub struct Trusted<'a> {
    pub event_id: Cow<'a, EventId>,
    /// Set when a collision was re-keyed (design §6.7).
    pub original_event_id: Option<Cow<'a, str>>,
    pub event_type: Cow<'a, str>,
    pub schema_version: Cow<'a, str>,
    pub event_time: Micros,
    pub time_origin: TimeOrigin,
    pub received_at: Micros,
    pub source: Cow<'a, str>,
    pub user_id: Option<Cow<'a, str>>,
    pub anonymous_id: Option<Cow<'a, str>>,
    pub session_id: Option<Cow<'a, str>>,
    pub seq: Option<i64>,
    pub session_index: Option<i64>,
    pub page: Option<Page<'a>>,
    pub device: Option<Device<'a>>,
    pub geo: Option<Geo<'a>>,
    pub campaign: Option<Campaign<'a>>,
    /// JSON text of an object.
    pub properties: Cow<'a, str>,
    /// JSON text of an object.
    pub entities: Cow<'a, str>,
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
pub struct Page<'a> {
    pub url: Option<Cow<'a, str>>,
    pub path: Option<Cow<'a, str>>,
    pub title: Option<Cow<'a, str>>,
    pub referrer: Option<Cow<'a, str>>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Device<'a> {
    pub kind: Option<Cow<'a, str>>,
    pub os: Option<Cow<'a, str>>,
    pub browser: Option<Cow<'a, str>>,
    pub locale: Option<Cow<'a, str>>,
    pub timezone: Option<Cow<'a, str>>,
    pub screen_width: Option<i64>,
    pub screen_height: Option<i64>,
    pub library: Option<Cow<'a, str>>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Geo<'a> {
    pub country: Option<Cow<'a, str>>,
    pub region: Option<Cow<'a, str>>,
    pub city: Option<Cow<'a, str>>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Campaign<'a> {
    pub source: Option<Cow<'a, str>>,
    pub medium: Option<Cow<'a, str>>,
    pub name: Option<Cow<'a, str>>,
    pub term: Option<Cow<'a, str>>,
    pub content: Option<Cow<'a, str>>,
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
pub fn encode(event: &Trusted<'_>) -> Vec<u8> {
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

fn strings(values: &[&Option<Cow<'_, str>>], out: &mut Vec<u8>) {
    for value in values {
        avro::optional_string(value.as_deref(), out);
    }
}

/// Reads a framed message value; texts stay slices of it.
pub fn decode(value: &[u8]) -> Result<Trusted<'_>, DecodeError> {
    let mut r = Reader::new(unframe(Topic::Trusted, value)?);
    let event = read(&mut r)?;
    r.end()?;
    Ok(event)
}

/// Reads the datum.
pub(super) fn read<'a>(r: &mut Reader<'a>) -> Result<Trusted<'a>, DecodeError> {
    Ok(Trusted {
        event_id: Cow::Owned(EventId::new(r.str()?).ok_or(DecodeError("event_id empty or too long"))?),
        original_event_id: r.optional_text()?,
        event_type: r.text()?,
        schema_version: r.text()?,
        event_time: r.micros()?,
        time_origin: TimeOrigin::from_name(r.str()?).ok_or(DecodeError("no such time origin"))?,
        received_at: r.micros()?,
        source: r.text()?,
        user_id: r.optional_text()?,
        anonymous_id: r.optional_text()?,
        session_id: r.optional_text()?,
        seq: r.optional(Reader::long)?,
        session_index: r.optional(Reader::long)?,
        page: r.optional(|r| {
            Ok(Page { url: r.optional_text()?, path: r.optional_text()?, title: r.optional_text()?, referrer: r.optional_text()? })
        })?,
        device: r.optional(|r| {
            Ok(Device {
                kind: r.optional_text()?,
                os: r.optional_text()?,
                browser: r.optional_text()?,
                locale: r.optional_text()?,
                timezone: r.optional_text()?,
                screen_width: r.optional(Reader::long)?,
                screen_height: r.optional(Reader::long)?,
                library: r.optional_text()?,
            })
        })?,
        geo: r.optional(|r| Ok(Geo { country: r.optional_text()?, region: r.optional_text()?, city: r.optional_text()? }))?,
        campaign: r.optional(|r| {
            Ok(Campaign {
                source: r.optional_text()?,
                medium: r.optional_text()?,
                name: r.optional_text()?,
                term: r.optional_text()?,
                content: r.optional_text()?,
            })
        })?,
        properties: r.text()?,
        entities: r.text()?,
        provenance: Provenance::read(r)?,
    })
}
