//! The bounds that one request is held against. Defaults are those of `schemas::limit`.

use forebay_schemas::limit;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Body as sent.
    pub wire_bytes: usize,
    /// Body after every decoding step.
    pub inflated_bytes: usize,
    /// Events in one request.
    pub events: usize,
    /// One event.
    pub event_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            wire_bytes: limit::WIRE_BYTES,
            inflated_bytes: limit::INFLATED_BYTES,
            events: limit::EVENTS_PER_REQUEST,
            event_bytes: limit::EVENT_BYTES,
        }
    }
}
