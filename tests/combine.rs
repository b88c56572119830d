//! Duplicates, collisions and the dedup horizon, seen from outside.

use crate::harness::{Form, column, on_both};
use serde_json::{Value, json};
use std::time::Duration;

on_both! {
    a_copy_is_a_duplicate_until_its_horizon_has_passed,
    another_fact_under_the_same_id_is_a_collision,
    a_retry_with_other_transport_fields_is_a_duplicate,
    both_backends_remember_through_a_kill,
}

fn event(id: &str, properties: Value) -> Value {
    json!({"event_id": id, "event_type": "product_viewed", "event_time": "2026-11-30T10:00:00.123Z", "anonymous_id": "a-1", "properties": properties})
}

fn a_copy_is_a_duplicate_until_its_horizon_has_passed(form: Form) {
    let dev = form.with("[enricher]\nbackend = \"rocksdb\"\ndedup.ttl = \"2s\"\n", &[]);
    let first = event("once", json!({"product_id": "sku-1"}));
    dev.accepted("/v1/events", &first);
    dev.accepted("/v1/events", &first);
    let totals = dev.settled();
    assert_eq!((totals.of("trusted"), totals.of("duplicate")), (1, 1));
    // The horizon is a promise about log time, which here is this machine's clock.
    std::thread::sleep(Duration::from_secs(4));
    dev.accepted("/v1/events", &first);
    let totals = dev.settled();
    assert_eq!((totals.of("trusted"), totals.of("duplicate")), (2, 1));
}

fn another_fact_under_the_same_id_is_a_collision(form: Form) {
    let dev = form.fresh();
    dev.accepted("/v1/events", &event("twice", json!({"product_id": "sku-1"})));
    dev.accepted("/v1/events", &event("twice", json!({"product_id": "sku-2"})));
    dev.accepted("/v1/events", &event("twice", json!({"product_id": "sku-1"})));
    let totals = dev.settled();
    assert_eq!((totals.of("trusted"), totals.of("duplicate"), totals.bad("id_collision")), (1, 1, 1));
    let trusted = dev.tail("trusted");
    assert!(trusted[0]["properties"].to_string().contains("sku-1"), "the first stays");
}

/// What SDKs change between attempts is not the fact.
fn a_retry_with_other_transport_fields_is_a_duplicate(form: Form) {
    let dev = form.fresh();
    let segment = |user: Value, sent: &str, retry: u32| {
        json!({"type": "track", "event": "Product Clicked", "messageId": "seg-1", "anonymousId": "a-1", "userId": user, "timestamp": "2026-11-30T10:00:00.000Z",
               "sentAt": sent, "writeKey": "wk", "properties": {"price": 19.99}, "_metadata": {"retryCount": retry}})
    };
    dev.accepted("/v1/t", &segment(Value::Null, "2026-11-30T10:00:00.100Z", 0));
    dev.accepted("/v1/t", &segment(json!("u-1"), "2026-11-30T10:00:09.100Z", 3));
    let snowplow = |stm: &str, uid: &str| {
        json!({"schema": "iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4",
               "data": [{"e": "pv", "eid": "8c71cb1e-6d46-4be7-a9f4-3f03b299bb45", "duid": "d-1", "uid": uid, "dtm": "1796021398000", "stm": stm, "url": "http://shop.example/a", "p": "web", "tv": "js-4"}]})
    };
    dev.accepted("/com.snowplowanalytics.snowplow/tp2", &snowplow("1796021398001", ""));
    dev.accepted("/com.snowplowanalytics.snowplow/tp2", &snowplow("1796021399001", "u-1"));
    let totals = dev.settled();
    assert_eq!((totals.of("trusted"), totals.of("duplicate"), totals.of("bad")), (2, 2, 0));
    assert_eq!(column(&dev.tail("trusted"), "event_id"), ["8c71cb1e-6d46-4be7-a9f4-3f03b299bb45", "seg-1"]);
}

/// The same with the memory backend, whose state comes back from the deltas alone.
fn both_backends_remember_through_a_kill(form: Form) {
    for backend in ["memory", "rocksdb"] {
        let mut dev = form.with(&format!("[enricher]\nbackend = \"{backend}\"\n"), &[]);
        let copy = event("kept", json!({"product_id": "sku-1"}));
        dev.accepted("/v1/events", &copy);
        let before = dev.settled();
        assert_eq!(before.of("trusted"), 1, "{backend}");
        dev.kill();
        dev.start();
        assert_eq!(dev.settled(), before, "{backend}: totals are exact across the kill");
        dev.accepted("/v1/events", &copy);
        let totals = dev.settled();
        assert_eq!((totals.of("trusted"), totals.of("duplicate")), (1, 1), "{backend}");
    }
}
