//! `explain` tells the whole story, in the running process and from the folder of a stopped one; and `raw`, `bad`, `unclassified`.

use crate::harness::{Form, http, on_both};
use serde_json::json;

on_both! {
    three_stories_running_and_stopped,
    two_tokens_two_roles,
}

fn three_stories_running_and_stopped(form: Form) {
    let mut dev = form.fresh();
    let event = |id: &str, kind: &str| json!({"event_id": id, "event_type": kind, "event_time": "2026-11-30T10:00:00Z", "anonymous_id": "a-1", "properties": {"product_id": "sku-1", "shoe_size_of_pat": 44}});
    dev.accepted("/v1/events", &event("good-1", "product_viewed"));
    dev.accepted("/v1/events", &event("good-1", "product_viewed"));
    dev.accepted("/v1/events", &event("bad-1", "no_such_type"));
    dev.settled();
    let running: Vec<String> = ["good-1", "bad-1"].iter().map(|id| dev.run(&["explain", id])).collect();
    let unclassified = dev.run(&["unclassified"]);
    assert!(unclassified.contains("product_viewed"), "{unclassified}");
    assert_eq!(dev.stop(), 0, "a graceful stop leaves nothing: {}", dev.log());
    let stopped: Vec<String> = ["good-1", "bad-1"].iter().map(|id| dev.run(&["explain", id])).collect();
    for (good, bad) in [(&running[0], &running[1]), (&stopped[0], &stopped[1])] {
        for word in ["trusted", "duplicate", "harvested", "product_viewed"] {
            assert!(good.contains(word), "{word} in {good}");
        }
        for word in ["bad", "unknown_event_type", "harvested", "validate"] {
            assert!(bad.contains(word), "{word} in {bad}");
        }
        assert!(!bad.contains("no_such_type"), "an unknown name is not shown: {bad}");
    }
    assert!(stopped[0].contains("raw/dt="), "after a graceful stop the request is landed: {}", stopped[0]);

    let objects = dev.run(&["raw", "ls"]);
    let object = objects.split_whitespace().find(|w| w.starts_with("raw/dt=")).expect("an object").to_owned();
    assert!(dev.run(&["raw", "cat", &object, "--body"]).contains("no_such_type"), "the landing is verbatim");
    assert!(dev.run(&["bad", "ls"]).contains("bad-1"));
    let key = dev.private_key();
    let shown = dev.run(&["bad", "show", "bad-1", "--key-file", key.to_str().expect("a path")]);
    assert!(shown.contains("no_such_type"), "the key holder sees the payload: {shown}");
    let unknown = dev.output(&["explain", "never-sent"]);
    assert_eq!(unknown.status.code(), Some(1));
    // A topic that many fill is not read whole for one event, and that is said.
    let said = String::from_utf8_lossy(&unknown.stderr).contains("--from T looks further back");
    assert_eq!(said, matches!(form, Form::Roles), "{unknown:?}");
}

fn two_tokens_two_roles(form: Form) {
    let dev = form.fresh();
    dev.accepted("/v1/events", &json!({"event_id": "e-1", "event_type": "product_viewed", "properties": {"product_id": "sku-1"}}));
    dev.settled();
    let admin = dev.admin();
    let status = |target: &str, token: Option<&str>| http::get(&admin, target, token).expect("an answer").status;
    let (all, view) = (dev.token("token"), dev.token("view_token"));
    for target in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(status(target, None), 200, "{target}");
    }
    assert_eq!(status("/api/log/trusted?from=earliest&count=1", None), 401);
    assert_eq!(status("/api/log/trusted?from=earliest&count=1", Some("wrong")), 401);
    assert_eq!(status("/api/log/trusted?from=earliest&count=1", Some(&view)), 200);
    for topic in ["harvested", "delta"] {
        assert_eq!(status(&format!("/api/log/{topic}?from=earliest&count=1"), Some(&view)), 403, "{topic}");
        assert_eq!(status(&format!("/api/log/{topic}?from=earliest&count=1"), Some(&all)), 200, "{topic}");
    }
    let evil = http::request(
        &admin,
        "GET",
        "/api/log/trusted?from=earliest&count=1",
        &[("host", "evil.example"), ("authorization", &format!("Bearer {all}"))],
        b"",
    )
    .expect("an answer");
    assert_eq!(evil.status, 403, "a foreign Host is DNS rebinding");
}
