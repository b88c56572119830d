//! Harvest: the events of a kept request as they go to the log (design §4.2).
//!
//! Owns: partition key, sent time, envelope, cutting of what is too large or unreadable. Does not own: ids (they stand
//! in the record), offsets on the log.
//! Invariant: a function of the landed record and its decoded body alone, so that what is published again after a crash
//! is equal to what was published before.

use crate::accept::{decode, places};
use crate::dialect::{self, Spec, own, posthog, segment, spec};
use crate::headers::{self, Head};
use crate::key::{Ids, partition_key};
use crate::limits::Limits;
use crate::query;
use crate::route::{Audience, EventsRoute, Form, Reply, Route, route};
use crate::split::SplitError;
use crate::text::{Text, Value};
use crate::time::lenient;
use bytes::Bytes;
use forebay_schemas::dialect::Dialect;
use forebay_schemas::id::IdOrigin;
use forebay_schemas::json;
use forebay_schemas::limit;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::harvested::{Content, Harvested, UNREADABLE};
use forebay_schemas::wire::raw_request::RawRequest;
use std::ops::Range;

/// The decoded body of a landed record, as `Accepted::decoded` was. No limit applies: it was kept.
pub fn decode_again(raw: &RawRequest) -> Bytes {
    decode(route_of(raw).form, &raw.target, Head::Landed(&raw.headers), &raw.body, None).unwrap_or_else(|_| raw.body.clone())
}

/// `each`, collected.
pub fn harvest(raw: &RawRequest, decoded: &Bytes, limits: &Limits) -> Vec<(String, Harvested)> {
    let mut all = Vec::with_capacity(raw.events.len());
    each(raw, decoded, limits, &mut |key, event| all.push((key.to_owned(), event.clone())));
    all
}

/// Visits each event with its partition key, in order. One record is filled anew for each event, so a visit is cheap.
pub fn each(raw: &RawRequest, decoded: &Bytes, limits: &Limits, visit: &mut dyn FnMut(&str, &Harvested)) {
    let route = route_of(raw);
    let (spec, own) = (spec(raw.dialect), own(raw.dialect));
    let ranges: Vec<Range<usize>> = raw.events.iter().map(|event| range(event.offset, event.length, decoded.len())).collect();
    let unreadable = is_unreadable(raw, decoded, &route);
    let mut sent_at = None;
    let mut envelope = String::new();
    let around = Ids::beside(if unreadable { b"" } else { decoded }, &ranges, own, |key, value| {
        if spec.sent_at.iter().any(|name| key == name.as_bytes()) {
            sent_at = time(Value::Json(value)).or(sent_at);
        }
        if spec.envelope.holds(key) {
            member(key, value, &mut envelope);
        }
    });
    let envelope = Some(envelope).filter(|text| !text.is_empty()).map(|members| format!("{{{members}}}"));
    let request = Around { spec, sent_at, later_sent_at: sent_at_of_head(raw), envelope, call: route.call };
    let (user_agent, headers) = headers::harvested(&raw.headers);
    let mut out: Option<Harvested> = None;
    for (index, (reference, place)) in raw.events.iter().zip(ranges).enumerate() {
        let slice = decoded.slice(place);
        let content = match route.form {
            _ if unreadable || slice.len() > limits.event_bytes => Content::Bytes,
            Form::Query => Content::Query,
            Form::Body | Form::BodyOfShape | Form::Fields | Form::QueryData | Form::Data => Content::Json,
        };
        let text = match (unreadable, route.form) {
            (true, _) => Text::Json(b""),
            (false, Form::Query) => Text::Query(&slice),
            (false, Form::Body | Form::BodyOfShape | Form::Fields | Form::QueryData | Form::Data) => Text::Json(&slice),
        };
        let mut told = Told::default();
        let ids = Ids::of(text, spec, own, |key, value| told.hear(key, value, spec));
        let key = partition_key(&ids, &around, &reference.event_id);
        let cut = content == Content::Bytes && slice.len() > limit::CUT_BYTES;
        let event = out.get_or_insert_with(|| blank(raw, user_agent.clone(), headers.clone()));
        event.event_id = reference.event_id.clone();
        event.id_origin = reference.id_origin;
        event.index = u32::try_from(index).unwrap_or(u32::MAX);
        event.sent_at = request.sent_at.or(told.sent_at).or(request.later_sent_at);
        event.envelope = if unreadable { Some(UNREADABLE.to_owned()) } else { request.envelope(&told) };
        event.full_length = cut.then_some(slice.len() as u64);
        event.content = content;
        event.payload = if cut { slice.slice(..limit::CUT_BYTES) } else { slice.clone() };
        visit(&key, event);
    }
}

/// What holds for all events of a request.
struct Around {
    spec: &'static Spec,
    /// Beside the list.
    sent_at: Option<Micros>,
    /// In query or header, where neither envelope nor event says it.
    later_sent_at: Option<Micros>,
    envelope: Option<String>,
    call: Option<&'static str>,
}

impl Around {
    /// The members beside the list that go on; for a Segment event without `type`, the call that its path names.
    fn envelope(&self, told: &Told) -> Option<String> {
        match self.call {
            Some(call) if !told.has_type && self.spec.list == segment::SPEC.list => Some(format!("{{\"type\":\"{call}\"}}")),
            _ => self.envelope.clone(),
        }
    }
}

/// What one event says besides its ids.
#[derive(Default)]
struct Told {
    sent_at: Option<Micros>,
    has_type: bool,
}

impl Told {
    fn hear(&mut self, key: &[u8], value: Value<'_>, spec: &Spec) {
        if spec.sent_at.iter().any(|name| key == name.as_bytes()) {
            self.sent_at = time(value).or(self.sent_at);
        } else if key == b"type" {
            self.has_type = value.text().is_some();
        }
    }
}

fn time(value: Value<'_>) -> Option<Micros> {
    value.text().and_then(|text| lenient(&text))
}

fn sent_at_of_head(raw: &RawRequest) -> Option<Micros> {
    match raw.dialect {
        Dialect::Posthog => {
            let param = query::param(query::split(&raw.target).1, posthog::SENT_AT_PARAM);
            param.as_deref().and_then(lenient).or_else(|| time_of_header(raw, posthog::SENT_AT_HEADER))
        }
        Dialect::Segment => time_of_header(raw, segment::SENT_AT_HEADER),
        Dialect::Native | Dialect::Snowplow | Dialect::Amplitude | Dialect::Mixpanel | Dialect::Ga4 | Dialect::CloudEvents => None,
    }
}

fn time_of_header(raw: &RawRequest, name: &str) -> Option<Micros> {
    std::str::from_utf8(headers::value(&raw.headers, name)?).ok().and_then(lenient)
}

/// Appends one member if it is valid JSON.
fn member(key: &[u8], value: &[u8], out: &mut String) {
    if value.len() > limit::CUT_BYTES {
        return;
    }
    if let Ok(value) = json::parse(value, limit::JSON_DEPTH) {
        if !out.is_empty() {
            out.push(',');
        }
        json::write_string(&String::from_utf8_lossy(key), out);
        out.push(':');
        value.write(out);
    }
}

fn blank(raw: &RawRequest, user_agent: Option<String>, headers: Vec<(String, String)>) -> Harvested {
    Harvested {
        event_id: raw.events[0].event_id.clone(),
        id_origin: IdOrigin::Assigned,
        request_id: raw.request_id,
        index: 0,
        gateway: raw.gateway.clone(),
        source: raw.source.clone(),
        dialect: raw.dialect,
        received_at: raw.received_at,
        sent_at: None,
        client_ip: raw.client_ip.clone(),
        user_agent,
        headers,
        content: Content::Bytes,
        envelope: None,
        payload: Bytes::new(),
        full_length: None,
    }
}

/// The record's route. A record of a route that is gone, or of another method's spelling, is read as a plain body.
fn route_of(raw: &RawRequest) -> EventsRoute {
    let method = http::Method::from_bytes(raw.method.as_bytes()).unwrap_or(http::Method::POST);
    match route(&method, &raw.target) {
        Route::Events(route) if route.dialect == raw.dialect || route.shared == Some(raw.dialect) => {
            dialect::of_head(&EventsRoute { dialect: raw.dialect, ..route }, Head::Landed(&raw.headers))
        }
        _ => EventsRoute {
            dialect: raw.dialect,
            shared: None,
            form: Form::Body,
            audience: Audience::Server,
            reply: Reply::Native,
            call: None,
        },
    }
}

/// A record's one assigned event over the whole decoded body is either an event without id and time, or a body that
/// did not split; splitting it again tells.
fn is_unreadable(raw: &RawRequest, decoded: &Bytes, route: &EventsRoute) -> bool {
    let [only] = &raw.events[..] else { return false };
    only.id_origin == IdOrigin::Assigned
        && only.offset == 0
        && only.length == decoded.len() as u64
        && places(route, decoded, usize::MAX) == Err(SplitError::Unreadable)
}

/// A place within the decoded body; one that is not (a record of another making) is empty.
fn range(offset: u64, length: u64, size: usize) -> Range<usize> {
    let within = || Some(usize::try_from(offset).ok()?..usize::try_from(offset.checked_add(length)?).ok()?);
    within().filter(|range| range.end <= size).unwrap_or(0..0)
}

#[cfg(test)]
mod tests;
