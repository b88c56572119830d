//! Segment's dialect, which RudderStack and Jitsu share: one event, or `{"batch":[…],"writeKey","sentAt"}`.

use super::{Envelope, Spec};
use forebay_schemas::json::write_string;

pub const SPEC: Spec = Spec {
    list: Some("batch"),
    lines: false,
    id: Some("messageId"),
    other_id: None,
    times: &["timestamp", "originalTimestamp"],
    nested_times: &[],
    sent_at: &["sentAt"],
    transport: &["sentAt", "_metadata", "writeKey"],
    keys: &["writeKey"],
    app_id: None,
    nested: None,
    envelope: Envelope::Of(&[]),
};

/// The header in which RudderStack's SDK repeats `sentAt`.
pub const SENT_AT_HEADER: &str = "sentat";

/// What Segment's and Jitsu's SDKs ask for before they send anything.
pub fn settings(write_key: &str) -> String {
    let mut out = String::from(r#"{"integrations":{"Segment.io":{"apiKey":"#);
    write_string(write_key, &mut out);
    out.push_str(r#","unbundledIntegrations":[],"addBundledMetadata":true}},"plan":{"track":{"__default":{"enabled":true,"integrations":{}}},"identify":{"__default":{"enabled":true}},"group":{"__default":{"enabled":true}}},"edgeFunction":{},"analyticsNextEnabled":true,"middlewareSettings":{},"enabledMiddleware":{},"metrics":{"sampleRate":0},"legacyVideoPluginsEnabled":false,"remotePlugins":[]}"#);
    out
}

/// What RudderStack's SDKs ask for: no destinations, no statistics.
pub fn source_config(write_key: &str) -> String {
    let mut key = String::new();
    write_string(write_key, &mut key);
    format!(
        r#"{{"source":{{"id":"forebay","name":"forebay","writeKey":{key},"enabled":true,"workspaceId":"forebay","connections":[],"destinations":[],"config":{{"statsCollection":{{"errors":{{"enabled":false,"provider":"bugsnag"}},"metrics":{{"enabled":false}}}}}},"updatedAt":"2026-01-01T00:00:00.000Z"}},"updatedAt":"2026-01-01T00:00:00.000Z"}}"#
    )
}
