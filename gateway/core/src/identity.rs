//! Identity: the id of each event (design §5.4), so that the same fact sent again has the same id (law A4).
//!
//! In order: the id that the SDK gave; with an `Idempotency-Key` a UUIDv8 of (source, key, content, n); with a client
//! time (in the event, or beside the list where it goes on with each event) a UUIDv8 of (source, content, n); else a fresh
//! UUIDv7, marked `assigned`. UUIDv8s are made by `id::derived`: SHA-256 over length-prefixed parts, its first 16 bytes,
//! version and variant bits set. Content is two parts: the canonical JSON of the event, and the SHA-256 of that of what
//! stands beside the list (nothing, if nothing does), both less what changes with each attempt (`Spec::transport`).
//! `n` counts, from 0, earlier events of the request with equal content. An id over 256 bytes, or one that is no text,
//! becomes the UUIDv8 of its bytes. Golden vectors: `schemas/vectors/identity.json`.
//! Invariant: a function of source, event, envelope and key alone; nothing is stamped into the payload.

use crate::dialect::Spec;
use crate::split;
use crate::text::{Id, Text, Value, unescape};
use forebay_schemas::canonical;
use forebay_schemas::id::{EventId, IdOrigin, derived};
use forebay_schemas::json::{self, Json};
use forebay_schemas::limit;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use uuid::Uuid;

/// Domains of derived ids, so that ids of different makings never meet.
const CLIENT: &str = "forebay.event_id.client";
const CONTENT: &str = "forebay.event_id.content";
const IDEMPOTENCY_KEY: &str = "forebay.event_id.idempotency_key";

/// Gives ids to the events of one request, in order.
pub struct Identifier<'a> {
    source: &'a str,
    spec: &'static Spec,
    idempotency_key: Option<&'a [u8]>,
    decoded: &'a [u8],
    events: &'a [Range<usize>],
    /// Digest of what stands around the events, made when it is first needed: a large envelope is hashed once, not
    /// with each of its events.
    envelope: Option<Vec<u8>>,
    /// Whether a client time stands around the events, looked up when it is first needed.
    time_beside: Option<bool>,
    /// How often each content was seen, by the id that it would have without a count.
    seen: BTreeMap<Uuid, u64>,
}

impl<'a> Identifier<'a> {
    pub fn new(
        source: &'a str,
        spec: &'static Spec,
        idempotency_key: Option<&'a [u8]>,
        decoded: &'a [u8],
        events: &'a [Range<usize>],
    ) -> Identifier<'a> {
        Identifier { source, spec, idempotency_key, decoded, events, envelope: None, time_beside: None, seen: BTreeMap::new() }
    }

    pub fn identify(&mut self, event: Text<'_>, fresh: &mut dyn FnMut() -> Uuid) -> (EventId, IdOrigin) {
        let (given, has_time) = self.look(event);
        if let Some(id) = given {
            return (id, IdOrigin::Client);
        }
        let has_time = has_time || self.time_beside();
        let (domain, key, origin) = match self.idempotency_key {
            Some(key) => (IDEMPOTENCY_KEY, key, IdOrigin::IdempotencyKey),
            None if has_time => (CONTENT, &b""[..], IdOrigin::Content),
            None => return (EventId::from_uuid(fresh()), IdOrigin::Assigned),
        };
        let content = event_content(event, self.spec);
        let (decoded, events, spec) = (self.decoded, self.events, self.spec);
        let around = self.envelope.get_or_insert_with(|| envelope_digest(decoded, events, spec));
        let parts: [&[u8]; 4] = [self.source.as_bytes(), key, &content, around];
        let count = self.seen.entry(derived(domain, &parts)).or_default();
        let n = count.to_be_bytes();
        *count += 1;
        let [source, key, content, around] = parts;
        (EventId::from_uuid(derived(domain, &[source, key, content, around, &n])), origin)
    }

    /// Whether what stands beside the list gives each event a time: one that goes on with it.
    fn time_beside(&mut self) -> bool {
        let Spec { times, envelope, .. } = self.spec;
        let of_each = |key: &[u8]| times.iter().any(|name| key == name.as_bytes()) && envelope.holds(key);
        if !times.iter().any(|name| envelope.holds(name.as_bytes())) {
            return false;
        }
        let (decoded, events) = (self.decoded, self.events);
        *self.time_beside.get_or_insert_with(|| {
            let mut found = false;
            split::beside(decoded, events, &mut |key, value| {
                if of_each(&unescape(key)) {
                    // Of repeated names the last counts.
                    found = !matches!(Value::Json(value).id(), Id::Absent);
                }
            });
            found
        })
    }

    /// The id that the client gave, and whether there is a client time.
    fn look(&self, event: Text<'_>) -> (Option<EventId>, bool) {
        let Spec { id: name, other_id, times, nested_times, nested, .. } = self.spec;
        let is = |key: &[u8], name: &Option<&str>| name.is_some_and(|name| key == name.as_bytes());
        let is_time = |key: &[u8], value: Value<'_>, times: &[&str]| {
            times.iter().any(|time| key == time.as_bytes()) && !matches!(value.id(), Id::Absent)
        };
        let (mut id, mut other, mut inner, mut has_time) = (None, None, None, false);
        event.visit(|key, value| {
            if is(key, name) {
                id = Some(value);
            } else if is(key, nested) {
                inner = Some(value);
            } else if nested.is_none() && is(key, other_id) {
                other = Some(value);
            }
            has_time |= is_time(key, value, times);
        });
        let id = id.and_then(client_id);
        if let Some(inner) = inner.and_then(Value::object).filter(|_| id.is_none()) {
            inner.visit(|key, value| {
                if is(key, other_id) {
                    other = Some(value);
                }
                has_time |= is_time(key, value, nested_times);
            });
        }
        (id.or_else(|| other.and_then(client_id)), has_time)
    }
}

/// A client's id as it is kept; `None` when there is none.
fn client_id(value: Value<'_>) -> Option<EventId> {
    let bytes = match value.id() {
        Id::Absent => return None,
        Id::Text(text) => match EventId::new(&*text) {
            Some(id) => return Some(id),
            None => Cow::Owned(text.into_owned().into_bytes()),
        },
        Id::Undecodable(bytes) => bytes,
    };
    Some(EventId::from_uuid(derived(CLIENT, &[&bytes])))
}

/// The event's part of its content. What is too large or no JSON is its own bytes.
fn event_content(event: Text<'_>, spec: &Spec) -> Vec<u8> {
    match event {
        Text::Json(bytes) => canonical_object(bytes, spec).unwrap_or_else(|| bytes.to_vec()),
        Text::Query(_) => {
            let mut members = Vec::new();
            event.visit(|key, value| {
                let text = value.text().map_or(String::new(), Cow::into_owned);
                members.push((Cow::Owned(String::from_utf8_lossy(key).into_owned()), Json::String(Cow::Owned(text))));
            });
            canonical_less(&Json::Object(members), spec)
        }
    }
}

/// The digest of the members beside the list, as one object; empty without any.
fn envelope_digest(decoded: &[u8], events: &[Range<usize>], spec: &Spec) -> Vec<u8> {
    let mut object = Vec::new();
    split::beside(decoded, events, &mut |key, value| {
        object.push(if object.is_empty() { b'{' } else { b',' });
        object.extend_from_slice(b"\"");
        object.extend_from_slice(key);
        object.extend_from_slice(b"\":");
        object.extend_from_slice(value);
    });
    if object.is_empty() {
        return object;
    }
    object.push(b'}');
    let content = canonical_object(&object, spec).unwrap_or(object);
    if content == b"{}" { Vec::new() } else { Sha256::digest(&content).to_vec() }
}

fn canonical_object(bytes: &[u8], spec: &Spec) -> Option<Vec<u8>> {
    if bytes.len() > limit::EVENT_BYTES {
        return None;
    }
    json::parse(bytes, limit::JSON_DEPTH).ok().map(|value| canonical_less(&value, spec))
}

fn canonical_less(value: &Json<'_>, spec: &Spec) -> Vec<u8> {
    let mut out = String::new();
    canonical::write(value, &|key| spec.transport.contains(&key), &mut out);
    out.into_bytes()
}

#[cfg(test)]
mod tests;
