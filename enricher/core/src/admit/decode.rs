//! Decode: from a dialect's bytes to one shape that the later stages read.
//!
//! Owns: `Decoded`, reading the payload, what all dialects share. Does not own: where a dialect keeps what (one file
//! each), names of the catalogue (`validate`), what may be told (`mask`).
//! Invariants: no two members of one object in `properties` have the same name (the last one stands), so that no two
//! stages can read an event differently; a reject's detail names places, never what stands there.

pub(crate) mod agent;
mod amplitude;
mod cloudevents;
mod context;
mod device;
mod ga4;
mod mixpanel;
mod native;
mod posthog;
mod query;
mod segment;
mod snowplow;
pub(crate) mod time;
mod unique;

use crate::fingerprint;
use crate::pipeline::Reject;
use agent::Agent;
pub(crate) use context::{Context, Leaf, SCREEN};
use forebay_schemas::dialect::Dialect;
use forebay_schemas::json::{self, Json, JsonError, JsonErrorKind};
use forebay_schemas::limit;
use forebay_schemas::reason::Reason;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::harvested::{Content, Harvested, UNREADABLE};
use forebay_schemas::wire::trusted::TimeOrigin;
use std::borrow::Cow;
use std::sync::Arc;
use time::Told;

pub(crate) type Members<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

/// An event in one shape, whatever SDK sent it. Nothing of it has been judged yet.
pub struct Decoded<'a> {
    pub(super) event: &'a Harvested,
    fingerprint: u64,
    pub(super) name: Cow<'a, str>,
    pub(super) version: Option<Cow<'a, str>>,
    pub(super) event_time: Micros,
    pub(super) time_origin: TimeOrigin,
    pub(super) seq: Option<i64>,
    pub(super) session_index: Option<i64>,
    /// Boxed: it is large, and the stages hand it on.
    pub(super) context: Box<Context<'a>>,
    pub(super) agent: Option<Arc<Agent>>,
    pub(super) properties: Members<'a>,
    /// The properties came as texts (a query string, Snowplow's parameters): numbers are texts too.
    pub(super) texts: bool,
    /// Names of what came along outside `properties` and has no place in our shape.
    pub(super) extras: Vec<String>,
    /// True for property names that the SDK itself adds and that need no classification to be left out.
    pub(super) ambient: fn(&str) -> bool,
    /// True for names that the protocol uses for itself: no properties, unless a schema claims them in `x-names`.
    pub(super) transport: fn(&str) -> bool,
}

/// What a dialect's file finds in an event.
pub(crate) struct Draft<'a> {
    name: Option<Cow<'a, str>>,
    version: Option<Cow<'a, str>>,
    told: Told,
    seq: Option<i64>,
    session_index: Option<i64>,
    context: Box<Context<'a>>,
    properties: Members<'a>,
    texts: bool,
    extras: Vec<String>,
    ambient: fn(&str) -> bool,
    transport: fn(&str) -> bool,
}

/// The stage.
pub(crate) struct Decoder {
    max_age_micros: i64,
}

/// Reads the payload as its content says.
pub(crate) fn parse(event: &Harvested) -> Result<Json<'_>, Reject> {
    match event.content {
        Content::Json => json::parse(&event.payload, limit::JSON_DEPTH).map_err(|e| unreadable_json("payload", e)),
        Content::Query => query::parse(&event.payload, event.dialect != Dialect::Snowplow),
        Content::Bytes => Err(kept_as_bytes(event)),
    }
}

impl Decoder {
    pub(crate) fn new(max_age_micros: i64) -> Decoder {
        Decoder { max_age_micros }
    }

    pub(crate) fn decode<'a>(&self, event: &'a Harvested, payload: Json<'a>) -> Result<Decoded<'a>, Reject> {
        let fingerprint = fingerprint::of(event.dialect, &payload);
        let Json::Object(members) = payload else {
            return Err(Reject::new(Reason::NotAnObject, format!("payload: expected an object, got {}", kind(&payload))));
        };
        let mut draft = match event.dialect {
            Dialect::Native => native::read(members, event),
            Dialect::Segment => segment::read(members, event),
            Dialect::Snowplow => snowplow::read(members),
            Dialect::Posthog => posthog::read(members),
            Dialect::Amplitude => amplitude::read(members),
            Dialect::Mixpanel => mixpanel::read(members),
            Dialect::Ga4 => ga4::read(members, event),
            Dialect::CloudEvents => cloudevents::read(members),
        }?;
        draft.texts |= event.content == Content::Query;
        self.finish(event, fingerprint, draft)
    }

    fn finish<'a>(&self, event: &'a Harvested, fingerprint: u64, mut draft: Draft<'a>) -> Result<Decoded<'a>, Reject> {
        let Some(name) = draft.name.filter(|name| !name.trim().is_empty()) else {
            return Err(Reject::new(Reason::MissingEventType, "payload: no event type or name"));
        };
        draft.told.sent_at = event.sent_at.or(draft.told.sent_at);
        let (event_time, time_origin) = time::event_time(draft.told, event.received_at, self.max_age_micros);
        draft.context.complete();
        let agent = agent::of(draft.context.user_agent.as_deref(), event.user_agent.as_deref());
        unique::members(&mut draft.properties);
        Ok(Decoded {
            event,
            fingerprint,
            name,
            version: draft.version,
            event_time,
            time_origin,
            seq: draft.seq,
            session_index: draft.session_index,
            context: draft.context,
            agent,
            properties: draft.properties,
            texts: draft.texts,
            extras: draft.extras,
            ambient: draft.ambient,
            transport: draft.transport,
        })
    }
}

/// What its sender calls an event, and its properties (an object), whether or not the catalogue knows it: for drafts of a
/// schema. Nothing of it has been judged; what the SDK or the protocol adds by itself is left out.
pub fn sample(event: &Harvested) -> Option<(String, Json<'_>)> {
    let decoded = Decoder::new(0).decode(event, parse(event).ok()?).ok()?;
    let Decoded { name, mut properties, ambient, transport, .. } = decoded;
    properties.retain(|(key, _)| !ambient(key) && !transport(key));
    Some((name.into_owned(), Json::Object(properties)))
}

impl Decoded<'_> {
    /// What makes two copies the same fact.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

impl Default for Draft<'_> {
    fn default() -> Self {
        Draft {
            name: None,
            version: None,
            told: Told::default(),
            seq: None,
            session_index: None,
            context: Box::default(),
            properties: Vec::new(),
            texts: false,
            extras: Vec::new(),
            ambient: |_| false,
            transport: |_| false,
        }
    }
}

/// An event that is bytes is either one that was too large, or stands for a body that nobody could read.
fn kept_as_bytes(event: &Harvested) -> Reject {
    if event.envelope.as_deref() == Some(UNREADABLE) {
        return Reject::new(Reason::Unreadable, "body: could not be decoded or split into events");
    }
    let length = event.full_length.unwrap_or(event.payload.len() as u64);
    Reject::new(Reason::EventTooLarge, format!("payload: {length} bytes are more than one event may have"))
}

/// What the gateway found beside the event.
fn envelope(event: &Harvested) -> Members<'_> {
    let text = event.envelope.as_deref().unwrap_or_default();
    json::parse(text.as_bytes(), limit::JSON_DEPTH).map(into_members).unwrap_or_default()
}

/// A member of it.
fn beside<'a>(event: &'a Harvested, name: &str) -> Option<Json<'a>> {
    envelope(event).into_iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// The members of an object; of anything else none.
fn into_members(value: Json<'_>) -> Members<'_> {
    match value {
        Json::Object(members) => members,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => Vec::new(),
    }
}

fn unreadable_json(place: &str, error: JsonError) -> Reject {
    let (reason, what) = match error.kind {
        JsonErrorKind::Syntax => (Reason::Malformed, "not JSON"),
        JsonErrorKind::Utf8 => (Reason::Malformed, "not UTF-8"),
        JsonErrorKind::TooDeep => (Reason::NestingTooDeep, "nested too deep"),
        JsonErrorKind::LoneSurrogate => (Reason::LoneSurrogate, "half of a surrogate pair"),
    };
    Reject::new(reason, format!("{place}: {what} at byte {}", error.at))
}

/// The JSON type of a value, as schemas name it.
pub(crate) fn kind(value: &Json<'_>) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

/// The members of `properties` or `traits`; null is an empty object.
fn object<'a>(value: Json<'a>) -> Result<Members<'a>, Reject> {
    match value {
        Json::Object(members) => Ok(members),
        Json::Null => Ok(Vec::new()),
        other => Err(Reject::new(Reason::SchemaViolation, format!("properties: expected an object, got {}", kind(&other)))),
    }
}

/// The text of a string or number; empty is absent.
fn text<'a>(value: &Json<'a>) -> Option<Cow<'a, str>> {
    match value {
        Json::String(text) | Json::Number(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

/// An id: as `text`, and what SDKs send in place of one is absent (design §4.2).
fn id<'a>(value: &Json<'a>) -> Option<Cow<'a, str>> {
    text(value).filter(|id| !matches!(&**id, "00000000-0000-0000-0000-000000000000" | "$posthog_cookieless"))
}

/// A whole number, also as text.
fn integer(value: &Json<'_>) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}
