//! Amplitude's dialect: `{"api_key","events":[…],"client_upload_time"}`, and the form of its old browser SDK.

use super::{Envelope, Spec};
use crate::accept::Accepted;
use crate::query;
use crate::split;
use crate::text::{Text, Value};
use bytes::Bytes;
use forebay_schemas::id::RequestId;
use forebay_schemas::json::write_string;

pub const SPEC: Spec = Spec {
    list: Some("events"),
    lines: false,
    id: Some("insert_id"),
    other_id: Some("uuid"),
    times: &["time", "timestamp"],
    nested_times: &[],
    sent_at: &["client_upload_time", "upload_time"],
    transport: &["client_upload_time", "upload_time", "request_metadata", "checksum", "api_key", "client", "options"],
    keys: &["api_key", "client"],
    app_id: None,
    nested: None,
    envelope: Envelope::Of(&[]),
};

/// The field of the form that holds the events, as JSON.
const EVENTS: &str = "e";

/// Whether a body is Amplitude's, and not PostHog's: its list has another name.
pub fn looks_like(decoded: &[u8]) -> bool {
    let events = Text::Json(&decoded[split::begin(decoded)..]).get("events");
    matches!(events, Some(Value::Json(list)) if list.starts_with(b"["))
}

/// The form as the object that newer SDKs send. What is no form stays as it is.
pub fn of_form(body: &Bytes) -> Bytes {
    if !query::pairs(body).any(|(name, _)| name == EVENTS.as_bytes()) || matches!(body.get(split::begin(body)), Some(b'{' | b'[')) {
        return body.clone();
    }
    let mut out = String::from("{");
    for (name, value) in query::pairs(body) {
        let (name, value) = (query::bytes(name), query::bytes(value));
        let (name, value) = (String::from_utf8_lossy(&name), String::from_utf8_lossy(&value));
        if out.len() > 1 {
            out.push(',');
        }
        if *name == *EVENTS {
            out.push_str("\"events\":");
            out.push_str(&value);
        } else {
            write_string(&name, &mut out);
            out.push(':');
            write_string(&value, &mut out);
        }
    }
    out.push('}');
    Bytes::from(out)
}

/// For a request that is kept. The time is the one in its id.
pub fn answer(accepted: &Accepted, request_id: RequestId) -> String {
    let bytes = accepted.decoded.len();
    let time = request_id.0.get_timestamp().map_or(0, |time| {
        let (seconds, nanos) = time.to_unix();
        seconds * 1_000 + u64::from(nanos) / 1_000_000
    });
    format!(r#"{{"code":200,"events_ingested":{},"payload_size_bytes":{bytes},"server_upload_time":{time}}}"#, accepted.events.len())
}
