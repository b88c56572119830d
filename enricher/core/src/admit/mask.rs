//! Mask: only what a schema classifies as publishable goes on (law E2).
//!
//! Owns: `Masked`, the only thing that can be delivered; the walk over an event by its plan.
//! Does not own: which field is classified how (the catalogue), keys (`keys`).

use forebay_schemas::id::EventId;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::trusted::{self, TimeOrigin, Trusted};
use std::fmt;

/// An event that holds nothing which its schema does not let pass. Made by `Masker::mask` alone.
#[derive(Clone, PartialEq, Debug)]
pub struct Masked {
    event_id: EventId,
    original_event_id: Option<String>,
    event_type: String,
    schema_version: String,
    event_time: Micros,
    time_origin: TimeOrigin,
    received_at: Micros,
    source: String,
    user_id: Option<String>,
    anonymous_id: Option<String>,
    session_id: Option<String>,
    seq: Option<i64>,
    session_index: Option<i64>,
    page: Option<trusted::Page>,
    device: Option<trusted::Device>,
    geo: Option<trusted::Geo>,
    campaign: Option<trusted::Campaign>,
    properties: String,
}

/// A field that was left out because nobody classified it. `path` may be shown to everyone; `in_clear` only to the
/// reveal role, and `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Unclassified {
    /// The catalogue's name of the event type.
    pub event_type: String,
    /// Known names as they are, unknown ones as `{shape#keyed hash}`, e.g. `properties.items[].{aaa_aaa#1f3a9b2c}`.
    pub path: String,
    /// The path as sent. Unknown names are data: they may hold what a person typed.
    pub in_clear: String,
}

impl Masked {
    pub fn event_id(&self) -> &EventId {
        &self.event_id
    }
    pub fn event_type(&self) -> &str {
        &self.event_type
    }
    pub fn source(&self) -> &str {
        &self.source
    }
    pub fn event_time(&self) -> Micros {
        self.event_time
    }

    /// The same event under the id that `dedup::rekey` gives; its own id is kept beside it.
    pub fn rekeyed(self, event_id: EventId) -> Masked {
        Masked { original_event_id: Some(self.event_id.as_str().to_owned()), event_id, ..self }
    }

    pub(crate) fn into_trusted(self, provenance: trusted::Provenance) -> Trusted {
        Trusted {
            event_id: self.event_id,
            original_event_id: self.original_event_id,
            event_type: self.event_type,
            schema_version: self.schema_version,
            event_time: self.event_time,
            time_origin: self.time_origin,
            received_at: self.received_at,
            source: self.source,
            user_id: self.user_id,
            anonymous_id: self.anonymous_id,
            session_id: self.session_id,
            seq: self.seq,
            session_index: self.session_index,
            page: self.page,
            device: self.device,
            geo: self.geo,
            campaign: self.campaign,
            properties: self.properties,
            entities: "{}".to_owned(),
            provenance,
        }
    }
}

impl fmt::Debug for Unclassified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.event_type, self.path)
    }
}
