//! PostHog's dialect: one event, an array, or `{"api_key","batch":[…],"sent_at"}`.

use super::Spec;
use forebay_schemas::json::write_string;

pub const SPEC: Spec = Spec {
    list: "batch",
    lines: false,
    id: "uuid",
    other_id: Some(("properties", "$insert_id")),
    times: &["timestamp"],
    sent_at: &["sent_at"],
    transport: &["sent_at", "offset", "api_key", "token"],
    keys: &["api_key", "token"],
    app_id: None,
    nested: Some("properties"),
    envelope: &[],
};

/// The query parameter with which old SDKs tell the time of sending, in milliseconds.
pub const SENT_AT_PARAM: &str = "_";

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
