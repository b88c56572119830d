//! PostHog's dialect: one event, an array, or `{"api_key","batch":[…],"sent_at"}`.

use super::{Envelope, Spec};
use crate::accept::Accepted;
use forebay_schemas::json::write_string;

pub const SPEC: Spec = Spec {
    list: Some("batch"),
    lines: false,
    id: Some("uuid"),
    other_id: Some("$insert_id"),
    times: &["timestamp"],
    nested_times: &[],
    sent_at: &["sent_at"],
    transport: &["sent_at", "created_at", "offset", "api_key", "token"],
    keys: &["api_key", "token"],
    app_id: None,
    nested: Some("properties"),
    envelope: Envelope::Of(&[]),
};

/// The query parameter with which old SDKs tell the time of sending, in milliseconds.
pub const SENT_AT_PARAM: &str = "_";

/// The header in which Capture V1 tells the time of sending, anew with each attempt.
pub const SENT_AT_HEADER: &str = "posthog-request-timestamp";

/// Capture V1's answer: the SDK sends again what has no result, or `retry`, and never what is `ok` or `drop`.
pub fn results(accepted: &Accepted) -> String {
    let mut out = String::from(r#"{"results":{"#);
    for (index, event) in accepted.events.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(event.event_id.as_str(), &mut out);
        match accepted.rejection(event) {
            None => out.push_str(r#":{"result":"ok"}"#),
            Some(reason) => {
                out.push_str(r#":{"result":"drop","details":""#);
                out.push_str(reason.name());
                out.push_str("\"}");
            }
        }
    }
    out.push_str("}}");
    out
}

/// Nothing but capturing is on: no recording, heat maps, flags. `surveys` is left out: told `false`, posthog-js still
/// loads the script that would show them, twice a page.
const OFF: &str = r#""supportedCompression":["gzip","gzip-js"],"hasFeatureFlags":false,"captureDeadClicks":false,"capturePerformance":false,"autocapture_opt_out":false,"autocaptureExceptions":false,"analytics":{"endpoint":"/e/"},"elementsChainAsString":true,"sessionRecording":false,"heatmaps":false,"siteApps":[],"defaultIdentifiedOnly":true"#;

pub fn decide() -> String {
    format!(
        r#"{{"config":{{"enable_collect_everything":true}},"toolbarParams":{{}},"isAuthenticated":false,"editorParams":{{}},"featureFlags":{{}},"featureFlagPayloads":{{}},"errorsWhileComputingFlags":false,{OFF}}}"#
    )
}

pub fn flags() -> String {
    format!(r#"{{"flags":{{}},"featureFlags":{{}},"featureFlagPayloads":{{}},"errorsWhileComputingFlags":false,{OFF}}}"#)
}

pub fn config(token: &str) -> String {
    let mut key = String::new();
    write_string(token, &mut key);
    format!(r#"{{"token":{key},{OFF}}}"#)
}

/// `token` is a plain word (`route`), so that it cannot leave its string.
pub fn config_script(token: &str) -> String {
    format!(
        "(function(){{window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{{}};window._POSTHOG_REMOTE_CONFIG['{token}']={{config:{},siteApps:[]}}}})();",
        config(token)
    )
}
