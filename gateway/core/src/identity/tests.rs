//! Golden vectors, shared with the SDKs.

use crate::testing::{accepted, cases, request};
use forebay_schemas::id::IdOrigin;
use serde_json::Value;

#[test]
fn golden_vectors() {
    for case in cases(include_str!("../../../../schemas/vectors/identity.json")) {
        let mut sent = request(case["request"].as_str().expect("a request line"), case["body"].as_str().unwrap_or_default().as_bytes());
        if let Some(key) = case["idempotency_key"].as_str() {
            sent.headers.insert("idempotency-key", key.parse().expect("a header value"));
        }
        let kept = accepted(&sent, case["source"].as_str().expect("a source"));
        let expected = case["ids"].as_array().expect("ids");
        assert_eq!(kept.events.len(), expected.len(), "{case}");
        for (event, expected) in kept.events.iter().zip(expected) {
            assert_eq!(event.id_origin.name(), expected["origin"], "{}", case["name"]);
            match &expected["id"] {
                Value::Null => assert_eq!(event.id_origin, IdOrigin::Assigned),
                id => assert_eq!(event.event_id.as_str(), id, "{}", case["name"]),
            }
        }
    }
}

/// What decides is what a fact is, not how often or in which company it was sent (law A4).
#[test]
fn an_attempt_changes_no_id() {
    let event = |attempt: u32| {
        format!(
            r#"{{"event":"x","timestamp":"2026-11-30T10:00:00Z","_metadata":{{"retryCount":{attempt}}},"sentAt":"2026-11-30T10:00:0{attempt}Z"}}"#
        )
    };
    let once = accepted(&request("POST /v1/t", event(1).as_bytes()), "shop");
    let again = accepted(&request("POST /v1/t", event(2).as_bytes()), "shop");
    let batch = accepted(&request("POST /v1/batch", format!(r#"{{"batch":[{}],"sentAt":"t"}}"#, event(3)).as_bytes()), "shop");
    assert_eq!(once.events[0].event_id, again.events[0].event_id);
    assert_eq!(once.events[0].event_id, batch.events[0].event_id);
}
