//! Each recording of a real SDK, played to a fresh `dev`: what its `truth.json` promises is what comes out.

use crate::harness::{Form, column, on_both, traffic};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

on_both! {
    every_recording_comes_out_as_its_truth_says,
    start_up_requests_are_answered,
}

/// The families of SDKs that this version speaks.
const DIALECTS: [&str; 5] = ["segment", "snowplow", "posthog", "amplitude", "mixpanel"];

fn truth() -> BTreeMap<String, Value> {
    let path = traffic().join("truth.json");
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).expect("truth.json is an object")
}

fn every_recording_comes_out_as_its_truth_says(form: Form) {
    let mut played = 0;
    for (name, truth) in truth() {
        if !DIALECTS.contains(&truth["dialect"].as_str().expect("a dialect")) {
            continue;
        }
        play(form, &name, &truth);
        played += 1;
    }
    assert!(played >= 8, "only {played} recordings");
}

fn play(form: Form, name: &str, truth: &Value) {
    let dev = form.fresh();
    let file = traffic().join(format!("{name}.jsonl"));
    let file = file.to_str().expect("a path");
    let summary = dev.send(&[file]);
    assert_eq!(summary["requests"], truth["requests"], "{name}: every recorded request is played: {summary}");
    let totals = dev.settled();
    let (trusted, bad) = (dev.tail("trusted"), dev.tail("bad"));

    let ids: BTreeSet<String> = truth["ids"].as_object().expect("ids").keys().cloned().collect();
    let trusted_ids = column(&trusted, "event_id");
    let mut bad_ids: BTreeSet<String> = column(&bad, "event_id").into_iter().collect();
    assert_eq!(trusted_ids.iter().cloned().collect::<BTreeSet<_>>().len(), trusted_ids.len(), "{name}: each id once");
    // What has no id, and no time to be known by, is new each time.
    let no_id = truth["no_id"].as_u64().expect("a count");
    let all = bad_ids.len();
    bad_ids.retain(|id| ids.contains(id));
    assert_eq!((all - bad_ids.len()) as u64, no_id, "{name}: facts without an id");
    assert_eq!(trusted_ids.iter().cloned().chain(bad_ids.clone()).collect::<BTreeSet<_>>(), ids, "{name}: the ids of the truth");

    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for event in &trusted {
        *counts.entry(event["event_type"].as_str().expect("a type").to_owned()).or_default() += 1;
    }
    // A reject may be in the topic more than once (its retries); the truth counts facts.
    let reasons: BTreeMap<&str, &str> =
        bad.iter().map(|b| (b["event_id"].as_str().expect("an id"), b["reason"].as_str().expect("a reason"))).collect();
    for reason in reasons.values() {
        *counts.entry(format!("bad:{reason}")).or_default() += 1;
    }
    let expected: BTreeMap<String, u64> = serde_json::from_value(truth["expect"].clone()).expect("counts");
    assert_eq!(counts, expected, "{name}");
    assert_eq!(totals.sum(), truth["sends"].as_u64().expect("sends"), "{name}: every send has an outcome");

    dev.send(&[file]);
    let again = dev.settled();
    assert_eq!(column(&dev.tail("trusted"), "event_id"), trusted_ids, "{name}: a second play adds no trusted row");
    let mut bad_again: BTreeSet<String> = column(&dev.tail("bad"), "event_id").into_iter().collect();
    let all = bad_again.len();
    bad_again.retain(|id| ids.contains(id));
    assert_eq!((bad_again, (all - bad_ids.len()) as u64), (bad_ids, 2 * no_id), "{name}: the same rejects again");
    assert_eq!(again.of("bad"), 2 * totals.of("bad"), "{name}");
    assert_eq!(
        again.of("duplicate"),
        totals.of("duplicate") + totals.of("trusted") + totals.of("duplicate"),
        "{name}: a duplicate for each copy"
    );
}

/// The SDKs' start-up requests are answered so that they start, and are never events.
fn start_up_requests_are_answered(form: Form) {
    let dev = form.fresh();
    let get = |target: &str| {
        crate::harness::http::request(&dev.listen(), "GET", target, &[("origin", "http://shop.example")], b"").expect("an answer")
    };
    let settings = get("/v1/projects/wk_demo/settings");
    assert_eq!(settings.status, 200);
    assert_eq!(settings.json()["integrations"]["Segment.io"]["apiKey"], "wk_demo");
    assert_eq!(settings.header("access-control-allow-origin"), Some("http://shop.example"));
    let config = get("/array/phc_demo/config");
    assert_eq!(config.status, 200);
    assert!(config.json().is_object());
    let script = get("/array/phc_demo/config.js");
    assert_eq!(script.status, 200);
    assert!(script.header("content-type").is_some_and(|t| t.contains("javascript")));
    for (target, body) in [
        ("/flags/?v=2", "{\"token\":\"phc_demo\",\"distinct_id\":\"d\"}"),
        ("/decide/?v=3", "{\"token\":\"phc_demo\",\"distinct_id\":\"d\"}"),
    ] {
        let answer = dev.post(target, &[("origin", "http://shop.example")], body.as_bytes());
        assert_eq!(answer.status, 200, "{target}");
        assert!(answer.json().is_object(), "{target}");
    }
    assert_eq!(dev.post("/v1/m", &[], br#"{"series":[]}"#).status, 200);
    assert_eq!(dev.tail("harvested").len(), 0, "nothing of it is an event");
    assert_eq!(dev.settled().sum(), 0);
}
