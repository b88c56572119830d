//! The native dialect: `POST /v1/events`, `GET /v1/pixel.gif` (interfaces §4).

use super::{Envelope, Spec};
use crate::accept::Accepted;
use forebay_schemas::id::RequestId;
use forebay_schemas::json::write_string;
use std::fmt::Write;

pub const SPEC: Spec = Spec {
    list: Some("batch"),
    lines: true,
    id: Some("event_id"),
    other_id: None,
    times: &["event_time"],
    nested_times: &[],
    sent_at: &["sent_at"],
    transport: &["sent_at", "sent_mono_ms", "write_key", "client_report"],
    keys: &["write_key"],
    app_id: None,
    nested: None,
    envelope: Envelope::Of(&["sent_mono_ms"]),
};

/// `{"request_id","accepted","durability","events":[{"index","event_id","status","reason"?}]}`.
/// `rejected` events are kept too; the enricher will file them under the reason.
pub fn answer(accepted: &Accepted, request_id: RequestId, durability: &str) -> String {
    let mut events = String::with_capacity(accepted.events.len() * 80);
    let mut good = 0;
    for (index, event) in accepted.events.iter().enumerate() {
        if index > 0 {
            events.push(',');
        }
        let reason = accepted.rejection(event);
        good += usize::from(reason.is_none());
        let _ = write!(events, "{{\"index\":{index},\"event_id\":");
        write_string(event.event_id.as_str(), &mut events);
        match reason {
            None => events.push_str(",\"status\":\"accepted\"}"),
            Some(reason) => {
                let _ = write!(events, ",\"status\":\"rejected\",\"reason\":\"{}\"}}", reason.name());
            }
        }
    }
    format!("{{\"request_id\":\"{request_id}\",\"accepted\":{good},\"durability\":\"{durability}\",\"events\":[{events}]}}")
}
