//! Snowplow's tracker protocol: `payload_data` by POST, or one event as a query.

use super::{Envelope, Spec};
use crate::split;
use crate::text::Text;

pub const SPEC: Spec = Spec {
    list: Some("data"),
    lines: false,
    id: Some("eid"),
    other_id: None,
    times: &["dtm", "ttm"],
    nested_times: &[],
    sent_at: &["stm"],
    transport: &["stm", "schema"],
    keys: &[],
    app_id: Some("aid"),
    nested: None,
    envelope: Envelope::Of(&[]),
};

/// The cookie that a collector sets; the only one whose value is landed.
pub const COOKIE: &str = "sp";

/// Whether a body is a tracker's: `{"schema":"iglu:…","data":[…]}`. Asked where the path alone says nothing.
pub fn looks_like(decoded: &[u8]) -> bool {
    let body = Text::Json(&decoded[split::begin(decoded)..]);
    let schema = body.get("schema").and_then(|value| value.text());
    schema.is_some_and(|text| text.starts_with("iglu:")) && body.get("data").is_some()
}
