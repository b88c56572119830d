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

/// GA4 has no ids: the same body again is the same facts, and a time beside the list of another dialect is nobody's.
#[test]
fn a_time_beside_the_list_is_each_events_where_it_goes_on_with_it() {
    let ids = |line: &str, body: &str| -> Vec<(String, &'static str)> {
        let kept = accepted(&request(line, body.as_bytes()), "shop");
        kept.events.iter().map(|event| (event.event_id.as_str().to_owned(), event.id_origin.name())).collect()
    };
    let body = r#"{"client_id":"c","timestamp_micros":1796021400000000,"events":[{"name":"x"},{"name":"x"}]}"#;
    let once = ids("POST /mp/collect?api_secret=s", body);
    assert_eq!(once, ids("POST /mp/collect?api_secret=s", body));
    assert!(once.iter().all(|(_, origin)| *origin == "content") && once[0] != once[1], "{once:?}");
    assert_ne!(once, ids("POST /mp/collect", &body.replace("\"c\"", "\"d\"")), "another client, another fact");
    assert_ne!(once, ids("POST /mp/collect", &body.replace("400000000,", "400000001,")), "another time, another fact");
    let segment = r#"{"timestamp":"2026-11-30T10:00:00Z","batch":[{"event":"x"}]}"#;
    assert_eq!(ids("POST /v1/batch", segment)[0].1, "assigned");
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
