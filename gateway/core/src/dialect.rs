//! What the gateway knows of each dialect: names, nothing more. One file a dialect.
//!
//! Owns: which members hold the list of events, ids, times and keys, and which change from attempt to attempt.
//! Does not own: what events mean (the enricher's `decode`), routes (`route`).

pub mod native;
pub mod segment;
pub mod snowplow;
pub mod posthog;

use forebay_schemas::dialect::Dialect;

/// Names of a dialect's members, all at the top level of an event or beside the list of events.
#[derive(Debug)]
pub struct Spec {
    /// The member that holds the list of events in a batch.
    pub list: &'static str,
    /// A body may be one event a line.
    pub lines: bool,
    /// The event's id.
    pub id: &'static str,
    /// The id's other place, one level deeper: (member, member of it).
    pub other_id: Option<(&'static str, &'static str)>,
    /// The client's time. An event with one of them can be known by its content.
    pub times: &'static [&'static str],
    /// When the request was sent, beside the list or in the event.
    pub sent_at: &'static [&'static str],
    /// Members that change with each attempt or only carry the request: no part of a fact's content.
    pub transport: &'static [&'static str],
    /// Members that hold a write key.
    pub keys: &'static [&'static str],
    /// The member that names the app, for trackers without keys.
    pub app_id: Option<&'static str>,
    /// A member of the event in which device and user ids stand too.
    pub nested: Option<&'static str>,
    /// Members beside the list that go on with each event as its `envelope`.
    pub envelope: &'static [&'static str],
}

pub fn spec(dialect: Dialect) -> &'static Spec {
    match dialect {
        Dialect::Native => &native::SPEC,
        Dialect::Segment => &segment::SPEC,
        Dialect::Snowplow => &snowplow::SPEC,
        Dialect::Posthog => &posthog::SPEC,
    }
}
