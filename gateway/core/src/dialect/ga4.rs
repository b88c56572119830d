//! Google Analytics 4, Measurement Protocol: `{"client_id","timestamp_micros","events":[{"name","params"}]}`, from servers and
//! apps.

use super::{Envelope, Own, Spec};

/// No event has an id. What says who and when stands beside the list, so it goes on with each event.
pub const SPEC: Spec = Spec {
    list: Some("events"),
    lines: false,
    id: None,
    other_id: None,
    times: &["timestamp_micros"],
    nested_times: &[],
    sent_at: &[],
    transport: &["validation_behavior"],
    keys: &[],
    app_id: None,
    nested: None,
    envelope: Envelope::All,
};

/// `measurement_id` and `firebase_app_id` name a property of Google's; the secret is the key.
pub const OWN: Own = Own { query_keys: &["api_secret"], devices: &["client_id", "app_instance_id"], users: &[] };

/// What Google's validation server answers to events without a fault. Nothing is judged here: its caller wants to hear
/// that the way is open.
pub const VALIDATION: &str = r#"{"validationMessages":[]}"#;
