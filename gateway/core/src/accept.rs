//! Accept: from a request to its events, each with its id and its place in the decoded body.
//!
//! Owns: the order of the steps, what is unreadable, who counts as a browser. Does not own: the steps themselves
//! (`inflate`, `split`, `keys`, `identity`), which source a key belongs to.
//! Invariants: never panics, whatever the bytes; refuses only by a named limit or an unknown path; a body that cannot
//! be inflated or split is one event of bytes (design §5.6).

use crate::dialect::{self, amplitude, cloudevents, snowplow, spec};
use crate::headers::{self, AddressHeaders, Head, landed, landed_target};
use crate::identity::Identifier;
use crate::inflate::{Hints, TooLarge, inflate, labelled_alone};
use crate::keys::{self, Keys};
use crate::limits::Limits;
use crate::query;
use crate::refusal::{Refusal, RefusalReason};
use crate::route::{Audience, EventsRoute, Form};
use crate::split::{self, SplitError};
use crate::text::Text;
use bytes::Bytes;
use forebay_schemas::dialect::Dialect;
use forebay_schemas::id::{EventId, IdOrigin, RequestId};
use forebay_schemas::limit;
use forebay_schemas::reason::Reason;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::raw_request::{EventRef, RawRequest};
use http::{HeaderMap, Method};
use std::ops::Range;
use uuid::Uuid;

/// A whole request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    /// Path and query as sent.
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A request whose encodings are off and whose events are found; its source is not known yet.
#[derive(Clone, Debug)]
pub struct Opened {
    route: EventsRoute,
    decoded: Bytes,
    events: Vec<Range<usize>>,
    unreadable: bool,
    browser: bool,
    keys: Keys,
    idempotency_key: Option<Vec<u8>>,
    limits: Limits,
}

#[derive(Clone, Debug)]
pub enum Verdict {
    Keep(Accepted),
    Refuse(Refusal),
}

/// A request to be kept.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub route: EventsRoute,
    pub source: String,
    /// What the events' offsets point into.
    pub decoded: Bytes,
    pub events: Vec<EventRef>,
    /// The body could not be inflated or split: one event of bytes stands for it.
    pub unreadable: bool,
    /// A browser sent it, by its route or by its headers.
    pub browser: bool,
    /// The limits under which it was accepted.
    pub limits: Limits,
}

/// What the shell knows of a request besides its bytes.
#[derive(Clone, Debug)]
pub struct Stamp {
    pub request_id: RequestId,
    pub received_at: Micros,
    pub gateway: String,
    /// Empty when the source's policy drops addresses.
    pub peer: String,
    pub client_ip: Option<String>,
}

/// Takes the encodings off, finds the events and every key.
pub fn open(route: &EventsRoute, request: &Request, limits: &Limits) -> Result<Opened, Refusal> {
    if request.target.len() > limit::TARGET_BYTES {
        return Err(Refusal::over(RefusalReason::TargetTooLong, limit::TARGET_BYTES));
    }
    if request.body.len() > limits.wire_bytes {
        return Err(Refusal::over(RefusalReason::BodyTooLarge, limits.wire_bytes));
    }
    let head = Head::Sent(&request.headers);
    let route = dialect::of_head(route, head);
    let too_large = |TooLarge| Refusal::over(RefusalReason::InflatedTooLarge, limits.inflated_bytes);
    let target = landed_target(&request.target);
    let decoded = decode(route.form, &target, head, &request.body, Some(limits.inflated_bytes)).map_err(too_large)?;
    if route.form == Form::BodyOfShape && !snowplow::looks_like(&decoded) {
        return Err(RefusalReason::NotFound.into());
    }
    let route = dialect::of_shape(&route, &request.target, &decoded);
    let spec = spec(route.dialect);
    let (events, unreadable) = match places(&route, &decoded, limits.events) {
        Ok(events) => (events, false),
        Err(SplitError::TooMany) => return Err(Refusal::over(RefusalReason::TooManyEvents, limits.events)),
        Err(SplitError::Unreadable) => (std::iter::once(0..decoded.len()).collect(), true),
    };
    let mut keys = keys::of_head(&request.headers, &request.target, route.dialect);
    if !unreadable && route.form != Form::Query {
        keys::from_body(&mut keys, &decoded, &events, spec);
    }
    Ok(Opened {
        route,
        events,
        unreadable,
        browser: route.audience == Audience::Browser || is_browser(&request.headers),
        keys,
        idempotency_key: request.headers.get("idempotency-key").map(|v| v.as_bytes().to_vec()).filter(|key| !key.is_empty()),
        limits: *limits,
        decoded,
    })
}

/// `open` and `Opened::accept` in one, where the source is known from the head.
pub fn accept(route: &EventsRoute, request: &Request, source: &str, limits: &Limits, fresh: &mut dyn FnMut() -> Uuid) -> Verdict {
    match open(route, request, limits) {
        Ok(opened) => opened.accept(source, fresh),
        Err(refusal) => Verdict::Refuse(refusal),
    }
}

/// What events' offsets point into: the query as it is landed, or what stands in the body once its layers are off.
pub(crate) fn decode(form: Form, landed_target: &str, head: Head<'_>, body: &Bytes, max: Option<usize>) -> Result<Bytes, TooLarge> {
    let (_, query) = query::split(landed_target);
    let encoding = &*head.encoding();
    match form {
        Form::Query => Ok(Bytes::copy_from_slice(query.as_bytes())),
        Form::QueryData => {
            let data = query::raw(query, "data").map(|raw| Bytes::from(query::bytes(raw).into_owned())).unwrap_or_default();
            inflate(&data, Hints { encoding: b"", query }, max)
        }
        Form::Body | Form::BodyOfShape => inflate(body, Hints { encoding, query }, max),
        Form::Fields => Ok(amplitude::of_form(&inflate(body, Hints { encoding, query }, max)?)),
        Form::Data => {
            let event = cloudevents::of_binary(head, &labelled_alone(body, encoding, max)?);
            if max.is_some_and(|max| event.len() > max) { Err(TooLarge) } else { Ok(event) }
        }
    }
}

/// Where the events stand in a decoded body.
pub(crate) fn places(route: &EventsRoute, decoded: &[u8], max: usize) -> Result<Vec<Range<usize>>, SplitError> {
    match route.form {
        Form::Query => Ok(std::iter::once(0..decoded.len()).collect()),
        Form::Data if cloudevents::is_json(decoded) => Ok(std::iter::once(0..decoded.len()).collect()),
        Form::Data => Err(SplitError::Unreadable),
        Form::Body | Form::BodyOfShape | Form::Fields | Form::QueryData => split::events(decoded, spec(route.dialect), max),
    }
}

/// Browsers name themselves or say where the page came from. (Node's `fetch` sends `Sec-Fetch-Mode` alone.)
fn is_browser(headers: &HeaderMap) -> bool {
    let agent = headers.get(http::header::USER_AGENT).is_some_and(|value| value.as_bytes().starts_with(b"Mozilla/"));
    agent || headers.contains_key(http::header::ORIGIN) || headers.contains_key("sec-fetch-site")
}

impl Opened {
    pub fn dialect(&self) -> Dialect {
        self.route.dialect
    }
    /// With the dialect and the answer that the body's shape decided.
    pub fn route(&self) -> EventsRoute {
        self.route
    }
    /// Write keys and app ids of head and body, first found first.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Gives every event its id. `fresh` yields random UUIDv7s for events that have nothing else to be known by.
    pub fn accept(self, source: &str, fresh: &mut dyn FnMut() -> Uuid) -> Verdict {
        let limit = self.limits.event_bytes;
        if !self.unreadable && matches!(&self.events[..], [only] if only.len() > limit) {
            return Verdict::Refuse(Refusal::over(RefusalReason::EventTooLarge, limit));
        }
        let spec = spec(self.route.dialect);
        let mut identifier = Identifier::new(source, spec, self.idempotency_key.as_deref(), &self.decoded, &self.events);
        let mut identify = |place: &Range<usize>| {
            let bytes = &self.decoded[place.clone()];
            let (event_id, id_origin) = match (self.unreadable, self.route.form) {
                (true, _) => (EventId::from_uuid(fresh()), IdOrigin::Assigned),
                (false, Form::Query) => identifier.identify(Text::Query(bytes), fresh),
                (false, Form::Body | Form::BodyOfShape | Form::Fields | Form::QueryData | Form::Data) => {
                    identifier.identify(Text::Json(bytes), fresh)
                }
            };
            EventRef { event_id, id_origin, offset: place.start as u64, length: place.len() as u64 }
        };
        let events = self.events.iter().map(&mut identify).collect();
        Verdict::Keep(Accepted {
            route: self.route,
            source: source.to_owned(),
            decoded: self.decoded,
            events,
            unreadable: self.unreadable,
            browser: self.browser,
            limits: self.limits,
        })
    }
}

impl Accepted {
    pub fn dialect(&self) -> Dialect {
        self.route.dialect
    }

    /// The record for the spool. `request` is the one that was accepted.
    pub fn raw(&self, request: &Request, stamp: Stamp, addresses: AddressHeaders) -> RawRequest {
        RawRequest {
            request_id: stamp.request_id,
            received_at: stamp.received_at,
            gateway: stamp.gateway,
            source: self.source.clone(),
            peer: if headers::anonymous(&request.headers) { String::new() } else { stamp.peer },
            client_ip: stamp.client_ip.filter(|_| !headers::anonymous(&request.headers)),
            method: request.method.as_str().to_owned(),
            target: landed_target(&request.target),
            headers: landed(&request.headers, addresses),
            body: request.body.clone(),
            dialect: self.route.dialect,
            events: self.events.clone(),
        }
    }

    /// Why an event is sure to be rejected, as far as its place and first byte tell.
    pub fn rejection(&self, event: &EventRef) -> Option<Reason> {
        if self.unreadable {
            return Some(Reason::Unreadable);
        }
        if event.length > self.limits.event_bytes as u64 {
            return Some(Reason::EventTooLarge);
        }
        let object = self.route.form == Form::Query || self.decoded.get(event.offset as usize) == Some(&b'{');
        if object { None } else { Some(Reason::NotAnObject) }
    }
}

#[cfg(test)]
mod tests;
