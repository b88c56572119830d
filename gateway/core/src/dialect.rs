//! What the gateway knows of each dialect: names, nothing more. One file a dialect.
//!
//! Owns: which members hold the list of events, ids, times and keys, and which change from attempt to attempt.
//! Does not own: what events mean (the enricher's `decode`), routes (`route`).

pub mod native;
pub mod segment;
pub mod snowplow;
pub mod posthog;
pub mod amplitude;
pub mod mixpanel;
pub mod ga4;
pub mod cloudevents;

use crate::headers::Head;
use crate::route::{EventsRoute, Form, Reply};
use forebay_schemas::dialect::Dialect;

/// Names of a dialect's members, all at the top level of an event or beside the list of events.
#[derive(Debug)]
pub struct Spec {
    /// The member that holds the list of events in a batch; `None`: a batch is an array.
    pub list: Option<&'static str>,
    /// A body may be one event a line.
    pub lines: bool,
    /// The event's id.
    pub id: Option<&'static str>,
    /// The id's other place: in `nested`, or in the event where there is none.
    pub other_id: Option<&'static str>,
    /// The client's time. An event with one of them can be known by its content. One that is in `envelope` too is every
    /// event's where it stands beside the list.
    pub times: &'static [&'static str],
    /// The same in `nested`.
    pub nested_times: &'static [&'static str],
    /// When the request was sent, beside the list or in the event.
    pub sent_at: &'static [&'static str],
    /// Members that change with each attempt or only carry the request: no part of a fact's content.
    pub transport: &'static [&'static str],
    /// Members that hold a write key.
    pub keys: &'static [&'static str],
    /// The member that names the app, for trackers without keys.
    pub app_id: Option<&'static str>,
    /// A member of the event in which ids, keys and times stand too.
    pub nested: Option<&'static str>,
    /// Members beside the list that go on with each event as its `envelope`.
    pub envelope: Envelope,
}

#[derive(Debug)]
pub enum Envelope {
    Of(&'static [&'static str]),
    /// All that stand there.
    All,
}

impl Envelope {
    pub fn holds(&self, name: &[u8]) -> bool {
        match self {
            Envelope::Of(names) => names.iter().any(|known| name == known.as_bytes()),
            Envelope::All => true,
        }
    }
}

/// Names that a dialect shares with no other. Most dialects have none: everybody's stand in `key` and `keys`.
#[derive(Debug)]
pub struct Own {
    /// Names of the query that hold a write key, on this dialect's routes alone.
    pub query_keys: &'static [&'static str],
    /// Members that hold a device id, the first that is there first.
    pub devices: &'static [&'static str],
    /// The same for user ids.
    pub users: &'static [&'static str],
}

impl Own {
    const NONE: Own = Own { query_keys: &[], devices: &[], users: &[] };
}

/// The route, once the head is known: attributes in the headers make the body an event's data (CloudEvents).
pub(crate) fn of_head(route: &EventsRoute, head: Head<'_>) -> EventsRoute {
    let form = if route.dialect == Dialect::CloudEvents && cloudevents::is_binary(head) { Form::Data } else { route.form };
    EventsRoute { form, ..*route }
}

/// Of two dialects that share a route, the one whose shape the body has (dialects.md). Mixpanel answers as the query asks.
pub(crate) fn of_shape(route: &EventsRoute, target: &str, decoded: &[u8]) -> EventsRoute {
    let is = |dialect| route.dialect == dialect || route.shared == Some(dialect);
    if is(Dialect::Amplitude) && (route.shared.is_none() || amplitude::looks_like(decoded)) {
        let reply = if route.shared.is_none() { route.reply } else { Reply::Amplitude };
        return EventsRoute { dialect: Dialect::Amplitude, reply, ..*route };
    }
    if is(Dialect::Mixpanel) && (route.shared.is_none() || mixpanel::looks_like(decoded)) {
        let reply = if route.reply == Reply::MixpanelImport { route.reply } else { mixpanel::reply(target) };
        return EventsRoute { dialect: Dialect::Mixpanel, reply, ..*route };
    }
    *route
}

pub fn spec(dialect: Dialect) -> &'static Spec {
    match dialect {
        Dialect::Native => &native::SPEC,
        Dialect::Segment => &segment::SPEC,
        Dialect::Snowplow => &snowplow::SPEC,
        Dialect::Posthog => &posthog::SPEC,
        Dialect::Amplitude => &amplitude::SPEC,
        Dialect::Mixpanel => &mixpanel::SPEC,
        Dialect::Ga4 => &ga4::SPEC,
        Dialect::CloudEvents => &cloudevents::SPEC,
    }
}

pub fn own(dialect: Dialect) -> &'static Own {
    match dialect {
        Dialect::Native | Dialect::Segment | Dialect::Snowplow | Dialect::Posthog | Dialect::Amplitude | Dialect::Mixpanel => &Own::NONE,
        Dialect::Ga4 => &ga4::OWN,
        Dialect::CloudEvents => &cloudevents::OWN,
    }
}
