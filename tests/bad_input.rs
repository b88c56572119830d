//! Nothing that a client sends stops, slows or grows the process; everything readable beside it is kept.

use crate::harness::{Dev, Form, System, column, http, on_both};
use serde_json::json;
use std::io::Write;
use std::process::Command;

on_both! {
    one_bad_event_of_many_is_rejected_alone,
    unreadable_bodies_are_kept_and_named,
    labels_never_refuse_what_the_bytes_say,
    bounds_answer_413_and_keep_nothing,
    half_a_body_is_not_kept,
    a_slow_body_is_answered_408,
    unknown_places_and_methods_have_their_status,
}

const SEGMENT: &str = "/v1/batch";

fn good(id: &str) -> String {
    json!({"type": "track", "event": "Product Clicked", "messageId": id, "anonymousId": "a", "timestamp": "2026-11-30T10:00:00Z", "properties": {"price": 1}}).to_string()
}
fn batch(items: &[String]) -> Vec<u8> {
    format!("{{\"batch\":[{}],\"writeKey\":\"wk\",\"sentAt\":\"2026-11-30T10:00:01Z\"}}", items.join(",")).into_bytes()
}
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn one_bad_event_of_many_is_rejected_alone(form: Form) {
    let dev = form.fresh();
    let deep = format!(
        "{{\"type\":\"track\",\"event\":\"Product Clicked\",\"messageId\":\"deep\",\"properties\":{{\"x\":{}{}}}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let large = format!(
        "{{\"type\":\"track\",\"event\":\"Product Clicked\",\"messageId\":\"large\",\"properties\":{{\"x\":\"{}\"}}}}",
        "y".repeat(5 << 20)
    );
    let items = [
        good("first"),
        r#"{"type":"track","event":"Product Clicked","messageId":"nan","properties":{"x":NaN}}"#.to_owned(),
        r#"{"type":"track","event":"Product Clicked","messageId":"lone","properties":{"x":"\ud83d"}}"#.to_owned(),
        deep,
        large,
        "7".to_owned(),
        good("last"),
    ];
    let answer = dev.post(SEGMENT, &[("content-type", "application/json")], &batch(&items));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let totals = dev.settled();
    assert_eq!(column(&dev.tail("trusted"), "event_id"), ["first", "last"]);
    assert_eq!(totals.sum(), 7);
    for (reason, id) in [("malformed", "nan"), ("lone_surrogate", "lone"), ("nesting_too_deep", "deep"), ("event_too_large", "large")] {
        assert_eq!(totals.bad(reason), 1, "{reason}: {totals:?}");
        assert!(dev.tail("bad").iter().any(|b| b["reason"] == reason && b["event_id"] == id), "{reason} has the id {id}");
    }
    assert_eq!(totals.bad("not_an_object"), 1);
    assert_eq!(
        dev.tail("bad").iter().find(|b| b["reason"] == "event_too_large").expect("there")["full_length"].as_u64().map(|n| n > 5 << 20),
        Some(true)
    );
}

fn unreadable_bodies_are_kept_and_named(form: Form) {
    let dev = form.fresh();
    let truncated = {
        let whole = gzip(&batch(&[good("x")]));
        whole[..whole.len() / 2].to_vec()
    };
    for (body, what) in
        [(b"{\"batch\":[{]".to_vec(), "broken JSON"), ("[".repeat(100_000).into_bytes(), "open brackets"), (truncated, "half a gzip")]
    {
        let server = dev.post(SEGMENT, &[("content-type", "application/json")], &body);
        assert_eq!(server.status, 400, "{what} on a server route: {}", server.text());
        let browser = dev.post(SEGMENT, &[("content-type", "text/plain"), ("origin", "http://shop.example")], &body);
        assert_eq!(browser.status, 200, "{what} on a browser route: a resend helps nobody");
        assert_eq!(browser.header("access-control-allow-origin"), Some("http://shop.example"));
    }
    let totals = dev.settled();
    assert_eq!((totals.sum(), totals.bad("unreadable")), (6, 6));
}

fn labels_never_refuse_what_the_bytes_say(form: Form) {
    let dev = form.fresh();
    for (n, (headers, body)) in [
        (vec![("content-type", "image/png")], batch(&[good("l0")])),
        (vec![], batch(&[good("l1")])),
        (vec![("content-type", "text/plain"), ("content-encoding", "gzip")], gzip(&batch(&[good("l2")]))),
        (vec![("content-type", "application/json")], gzip(&batch(&[good("l3")]))),
        (vec![("content-encoding", "gzip")], batch(&[good("l4")])),
        (vec![("content-type", "application/json")], [b"\xef\xbb\xbf".to_vec(), batch(&[good("l5")])].concat()),
        (vec![("content-encoding", "zstd")], zstd::bulk::compress(&batch(&[good("l6")]), 1).expect("memory")),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = dev.post(SEGMENT, &headers, &body);
        assert_eq!(answer.status, 200, "case {n}: {}", answer.text());
    }
    dev.settled();
    assert_eq!(column(&dev.tail("trusted"), "event_id"), ["l0", "l1", "l2", "l3", "l4", "l5", "l6"]);
}

fn bounds_answer_413_and_keep_nothing(form: Form) {
    let dev = form.fresh();
    // 1 GiB of zeros as about 1 MiB of gzip.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0u8; 1 << 20];
    for _ in 0..1024 {
        encoder.write_all(&zeros).expect("memory");
    }
    let bomb = encoder.finish().expect("memory");
    let alone = format!(
        "{{\"type\":\"track\",\"event\":\"Product Clicked\",\"messageId\":\"x\",\"properties\":{{\"x\":\"{}\"}}}}",
        "y".repeat(5 << 20)
    );
    for (target, body, what) in [
        (SEGMENT, bomb, "a bomb"),
        ("/v1/t", alone.into_bytes(), "one event of 5 MB"),
        (SEGMENT, vec![b' '; 64 << 20], "64 MiB on the wire"),
    ] {
        let answer = dev.post(target, &[("origin", "http://shop.example")], &body);
        assert_eq!(answer.status, 413, "{what}: {}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), Some("http://shop.example"), "{what}: CORS stands on every status");
    }
    assert_eq!(dev.settled().sum(), 0);
    let memory = std::fs::read_to_string(format!("/proc/{}/status", dev.pid())).expect("Linux");
    let peak: u64 = memory
        .lines()
        .find(|l| l.starts_with("VmHWM"))
        .and_then(|l| l.split_whitespace().nth(1))
        .and_then(|n| n.parse().ok())
        .expect("VmHWM");
    assert!(peak < 400 << 10, "the peak was {peak} KiB");
}

fn half_a_body_is_not_kept(form: Form) {
    let dev = form.fresh();
    for _ in 0..3 {
        let mut stream = http::connect(&dev.listen()).expect("connects");
        stream.write_all(http::head("POST", SEGMENT, &[("content-length", "1000")]).as_bytes()).expect("sent");
        stream.write_all(b"{\"batch\":[").expect("sent");
        drop(stream);
    }
    dev.accepted(SEGMENT, &serde_json::from_slice(&batch(&[good("whole")])).expect("JSON"));
    assert_eq!(dev.settled().sum(), 1);
}

fn a_slow_body_is_answered_408(form: Form) {
    let dev = form.with("[gateway]\nlimits.body_timeout = \"1s\"\n[enricher]\nbackend = \"memory\"\n", &[]);
    let mut stream = http::connect(&dev.listen()).expect("connects");
    stream
        .write_all(http::head("POST", SEGMENT, &[("content-length", "1000"), ("origin", "http://shop.example")]).as_bytes())
        .expect("sent");
    stream.write_all(b"{").expect("sent");
    let answer = http::read_answer(&mut stream, "POST").expect("an answer");
    assert_eq!(answer.status, 408);
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://shop.example"));
}

fn unknown_places_and_methods_have_their_status(form: Form) {
    let dev = form.fresh();
    assert_eq!(http::get(&dev.listen(), "/nowhere-at-all", None).expect("an answer").status, 404);
    assert_eq!(http::request(&dev.listen(), "DELETE", "/v1/events", &[], b"").expect("an answer").status, 405);
    let preflight = http::request(
        &dev.listen(),
        "OPTIONS",
        "/v1/t",
        &[
            ("origin", "http://shop.example"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,x-other"),
        ],
        b"",
    )
    .expect("an answer");
    assert!((200..300).contains(&preflight.status));
    assert_eq!(preflight.header("access-control-allow-origin"), Some("http://shop.example"));
    assert_eq!(preflight.header("access-control-allow-credentials"), Some("true"));
    assert!(preflight.header("access-control-allow-headers").is_some_and(|h| h.contains("x-other")));
    assert_eq!(dev.settled().sum(), 0);
}

/// Exit 2 before a port is bound, naming the file, the key and the line.
#[test]
fn a_bad_configuration_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, line, key) in [
        ("[gateway]\nlisten = \"127.0.0.1:8080\"\nspol = 1\n", "3", "spol"),
        ("[enricher]\nbackend = \"rocksdb\"\n\ncommit_interval = \"soon\"\n", "4", "commit_interval"),
        ("[enricher]\nbackend = \"paper\"\n", "2", "backend"),
    ] {
        let path = folder.path().join("bad.toml");
        std::fs::write(&path, text).expect("written");
        let data = folder.path().join("data");
        let output = Command::new(crate::harness::binary())
            .args(["dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config"])
            .arg(&path)
            .arg("--data")
            .arg(&data)
            .output()
            .expect("the binary starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}: {errors}");
        assert!(errors.contains("bad.toml") && errors.contains(line) && errors.contains(key), "{text}: {errors}");
    }
    let output = Command::new(crate::harness::binary())
        .args(["dev", "--listen", "0.0.0.0:0", "--data"])
        .arg(folder.path().join("data"))
        .output()
        .expect("the binary starts");
    assert_eq!(output.status.code(), Some(2), "off loopback without keys");
}

/// Another key in the place of a lost one would change every token, and nobody would see it.
#[test]
fn a_lost_mask_key_is_not_made_again() {
    let mut dev = Dev::fresh();
    assert_eq!(dev.stop(), 0);
    let key = dev.data.join("keys/mask.key");
    let kept = std::fs::read(&key).expect("made at the first start");
    std::fs::remove_file(&key).expect("removed");
    let arguments = ["dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data"];
    let output = Command::new(crate::harness::binary()).args(arguments).arg(&dev.data).output().expect("the binary starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("mask.key"), "{errors}");
    std::fs::write(&key, kept).expect("put back");
    dev.start();
}
