//! The only thing that can be delivered.
//!
//! Owns: `Masked` and what of it goes into a trusted event. Invariant: `mask` alone makes one, of masked texts, of the
//! closed words of a user agent, and of what the gateway itself said.

use crate::admit::decode::{Decoded, Leaf};
use crate::admit::validate::Judged;
use forebay_schemas::id::EventId;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::trusted::{self, Trusted};
use std::borrow::Cow;

/// An event that holds nothing which its schema does not let pass. Made by `Masker::mask` alone.
#[derive(Clone, PartialEq, Debug)]
pub struct Masked<'a>(Box<Trusted<'a>>);

/// The masked texts and numbers beside the properties.
pub(super) struct Beside<'a> {
    pub texts: [Option<Cow<'a, str>>; Leaf::ALL.len()],
    pub screen: [Option<i64>; 2],
}

impl<'a> Beside<'a> {
    fn take(&mut self, leaf: Leaf) -> Option<Cow<'a, str>> {
        self.texts[leaf as usize].take()
    }
}

impl<'a> Masked<'a> {
    pub(super) fn new(decoded: &Decoded<'a>, judged: Judged<'a>, mut beside: Beside<'a>, properties: String) -> Masked<'a> {
        let (event_type, schema_version) = judged.into_type();
        let event = decoded.event;
        let agent = decoded.agent.as_deref();
        let page = trusted::Page {
            url: beside.take(Leaf::Url),
            path: beside.take(Leaf::Path),
            title: beside.take(Leaf::Title),
            referrer: beside.take(Leaf::Referrer),
        };
        // The user agent's words are from a closed list; the SDK's own stand in where it says nothing.
        let device = trusted::Device {
            kind: agent.and_then(|agent| agent.kind).map(Cow::Borrowed).or_else(|| beside.take(Leaf::Kind)),
            os: agent.and_then(|agent| agent.os).map(Cow::Borrowed).or_else(|| beside.take(Leaf::Os)),
            browser: agent.and_then(|agent| agent.browser).map(Cow::Borrowed).or_else(|| beside.take(Leaf::Browser)),
            locale: beside.take(Leaf::Locale),
            timezone: beside.take(Leaf::Timezone),
            screen_width: beside.screen[0],
            screen_height: beside.screen[1],
            library: beside.take(Leaf::Library),
        };
        let campaign = trusted::Campaign {
            source: beside.take(Leaf::Source),
            medium: beside.take(Leaf::Medium),
            name: beside.take(Leaf::Name),
            term: beside.take(Leaf::Term),
            content: beside.take(Leaf::Content),
        };
        Masked(Box::new(Trusted {
            event_id: Cow::Borrowed(&event.event_id),
            original_event_id: None,
            event_type,
            schema_version,
            event_time: decoded.event_time,
            time_origin: decoded.time_origin,
            received_at: event.received_at,
            source: Cow::Borrowed(&event.source),
            user_id: beside.take(Leaf::UserId),
            anonymous_id: beside.take(Leaf::AnonymousId),
            session_id: beside.take(Leaf::SessionId),
            seq: decoded.seq,
            session_index: decoded.session_index,
            page: (page != trusted::Page::default()).then_some(page),
            device: (device != trusted::Device::default()).then_some(device),
            geo: None,
            campaign: (campaign != trusted::Campaign::default()).then_some(campaign),
            properties: Cow::Owned(properties),
            entities: Cow::Borrowed("{}"),
            provenance: trusted::Provenance::default(),
        }))
    }

    pub fn event_id(&self) -> &EventId {
        &self.0.event_id
    }
    pub fn event_type(&self) -> &str {
        &self.0.event_type
    }
    pub fn source(&self) -> &str {
        &self.0.source
    }
    /// JSON text of an object.
    pub fn properties(&self) -> &str {
        &self.0.properties
    }
    pub fn event_time(&self) -> Micros {
        self.0.event_time
    }

    /// As far as it is known before it is delivered: without its provenance.
    pub(crate) fn trusted(&self) -> &Trusted<'a> {
        &self.0
    }

    /// The same event under the id that `dedup::rekey` gives; its own id is kept beside it.
    pub fn rekeyed(mut self, event_id: EventId) -> Masked<'a> {
        let own = std::mem::replace(&mut self.0.event_id, Cow::Owned(event_id));
        self.0.original_event_id = Some(Cow::Owned(own.as_str().to_owned()));
        self
    }

    /// What is delivered, from where it came.
    pub(crate) fn into_trusted(mut self, provenance: trusted::Provenance) -> Box<Trusted<'a>> {
        self.0.provenance = provenance;
        self.0
    }
}
