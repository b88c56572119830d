//! What clients send that they should not, and what must hold for any bytes at all.

use super::*;
use crate::testing::{accepted, harvested, judged, refused, request, with};
use forebay_schemas::wire::harvested::Content;
use proptest::prelude::*;
use std::io::Write;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
fn event(id: &str, rest: &str) -> String {
    format!(r#"{{"type":"track","event":"x","messageId":"{id}"{rest}}}"#)
}
fn batch(events: &[String]) -> Vec<u8> {
    format!(r#"{{"batch":[{}],"sentAt":"2026-11-30T10:00:01Z"}}"#, events.join(",")).into_bytes()
}
fn ids(kept: &Accepted) -> Vec<&str> {
    kept.events.iter().map(|event| event.event_id.as_str()).collect()
}

#[test]
fn one_bad_event_of_many_leaves_its_neighbours() {
    let large = event("large", &format!(r#","x":"{}""#, "y".repeat(5 << 20)));
    let deep = event("deep", &format!(r#","x":{}{}"#, "[".repeat(100_000), "]".repeat(100_000)));
    let events = [
        event("first", ""),
        event("nan", r#","x":NaN"#),
        event("lone", r#","x":"\ud83d""#),
        deep,
        large.clone(),
        "7".to_owned(),
        event("last", ""),
    ];
    let sent = request("POST /v1/batch", &batch(&events));
    let kept = accepted(&sent, "shop");
    assert_eq!(ids(&kept), ["first", "nan", "lone", "deep", "large", "00000000-0000-0000-0000-000000000001", "last"]);
    let out = harvested(&kept, &sent);
    for ((_, harvested), text) in out.iter().zip(&events) {
        let too_large = harvested.event_id.as_str() == "large";
        assert_eq!(harvested.content, if too_large { Content::Bytes } else { Content::Json });
        assert_eq!(harvested.full_length, too_large.then_some(large.len() as u64));
        let whole = if too_large { &text[..limit::CUT_BYTES] } else { &text[..] };
        assert_eq!(harvested.payload, whole.as_bytes(), "verbatim");
        assert!(harvested.sent_at.is_some());
    }
}

#[test]
fn bodies_that_do_not_read_are_kept_as_bytes() {
    let whole = gzip(&batch(&[event("x", "")]));
    for (body, what) in [
        (b"{\"batch\":[{]".to_vec(), "broken JSON"),
        (b"".to_vec(), "nothing"),
        (gzip(b""), "an empty gzip"),
        (whole[..whole.len() / 2].to_vec(), "half a gzip"),
        ("[".repeat(100_000).into_bytes(), "open brackets"),
        (vec![0; 300], "zeros"),
        (b"event=x&n=1".to_vec(), "a form without data"),
        ([batch(&[event("x", "")]), batch(&[event("y", "")])].concat(), "two batches joined"),
    ] {
        let sent = request("POST /v1/batch", &body);
        let kept = accepted(&sent, "shop");
        assert!(kept.unreadable && !kept.browser, "{what}");
        assert_eq!((kept.events.len(), kept.events[0].id_origin), (1, IdOrigin::Assigned), "{what}");
        let [(key, one)] = &harvested(&kept, &sent)[..] else { panic!("{what}") };
        assert_eq!((one.content, one.event_id.as_str()), (Content::Bytes, key.as_str()), "{what}");
        assert_eq!(one.payload, kept.decoded[..kept.decoded.len().min(limit::CUT_BYTES)], "{what}");
        assert_eq!(one.full_length, (kept.decoded.len() > limit::CUT_BYTES).then_some(kept.decoded.len() as u64), "{what}");
        assert_eq!(one.envelope.as_deref(), Some(forebay_schemas::wire::harvested::UNREADABLE), "{what}");
    }
}

#[test]
fn encodings_on_lines_of_their_own_come_off_in_order() {
    let mut brotli = Vec::new();
    brotli::CompressorWriter::new(&mut brotli, 4096, 1, 20).write_all(&gzip(&batch(&[event("a", "")]))).expect("memory");
    let sent = request("POST /v1/batch", &brotli);
    let sent = with(with(sent, "content-encoding", "gzip"), "content-encoding", "br");
    let kept = accepted(&sent, "shop");
    assert_eq!((ids(&kept), kept.unreadable), (vec!["a"], false));
    assert_eq!(harvested(&kept, &sent).len(), 1);
}

#[test]
fn limits_refuse_by_name_and_keep_nothing() {
    let limits = Limits { wire_bytes: 1 << 20, inflated_bytes: 8 << 20, events: 3, event_bytes: 1_000 };
    let many: Vec<String> = (0..4).map(|n| event(&n.to_string(), "")).collect();
    for (sent, reason, named) in [
        (request("POST /v1/batch", &vec![b' '; (1 << 20) + 1]), RefusalReason::BodyTooLarge, "limits.wire_bytes (1048576)"),
        (request("POST /v1/batch", &gzip(&vec![b' '; 9 << 20])), RefusalReason::InflatedTooLarge, "limits.inflated_bytes (8388608)"),
        (request("POST /v1/batch", &batch(&many)), RefusalReason::TooManyEvents, "limits.events (3)"),
        (
            request("POST /v1/t", event("x", &format!(r#","y":"{}""#, "z".repeat(1_000))).as_bytes()),
            RefusalReason::EventTooLarge,
            "limits.event_bytes (1000)",
        ),
        (request(&format!("GET /i?e=pv&x={}", "y".repeat(limit::TARGET_BYTES)), b""), RefusalReason::TargetTooLong, "(65534)"),
        (request("POST /com.acme/anything", br#"{"api_key":"k","events":[]}"#), RefusalReason::NotFound, ""),
        (request("POST /com.acme/anything", b"{"), RefusalReason::NotFound, ""),
    ] {
        let refusal = refused(&sent, &limits);
        assert_eq!(refusal.reason, reason);
        assert!(refusal.detail.contains(named), "{}", refusal.detail);
    }
    assert!(matches!(judged(&request("POST /v1/batch", &batch(&many[..3])), &limits), Verdict::Keep(_)));
}

#[test]
fn a_body_of_countless_items_is_stopped_at_the_limit() {
    let body = format!("[{}0]", "0,".repeat(4 << 20));
    assert_eq!(refused(&request("POST /v1/events", body.as_bytes()), &Limits::default()).reason, RefusalReason::TooManyEvents);
}

#[test]
fn every_dialect_finds_its_events() {
    for (line, body, expected) in [
        ("POST /v1/events", r#"{"event_id":"a","event_type":"x"}"#, "native a"),
        ("POST /v1/events", r#"{"batch":[{"event_id":"a"},{"event_id":"b"}],"write_key":"k"}"#, "native a b"),
        ("POST /v1/events", "{\"event_id\":\"a\"}\n{\"event_id\":\"b\"}\n", "native a b"),
        ("POST /v1/t", r#"{"messageId":"a"}"#, "segment a"),
        ("POST /v1/b", "\u{feff}{\"batch\":[{\"messageId\":\"a\"}],\"sentAt\":\"t\",\"writeKey\":\"k\"}", "segment a"),
        ("POST /api/s/page", r#"{"messageId":"a"}"#, "segment a"),
        ("POST /com.acme/x", r#"{"schema":"iglu:x","data":[{"eid":"a"}]}"#, "snowplow a"),
        ("GET /i?e=pv&eid=a", "", "snowplow a"),
        ("HEAD /ice.png?e=pv&eid=a", "", "snowplow a"),
        ("POST /e/", r#"{"uuid":"a","event":"x"}"#, "posthog a"),
        ("POST /e/?compression=base64", "data=W3sidXVpZCI6ImEifV0%3D", "posthog a"),
        ("GET /e/?data=W3sidXVpZCI6ImEifV0%3D", "", "posthog a"),
        ("POST /batch", r#"{"api_key":"k","batch":[{"uuid":"a"},{"uuid":"b"}]}"#, "posthog a b"),
        ("POST /v1/batch", r#"{"batch":[]}"#, "segment "),
    ] {
        let sent = request(line, body.as_bytes());
        let kept = accepted(&sent, "shop");
        assert_eq!(format!("{} {}", kept.dialect().name(), ids(&kept).join(" ")), expected, "{line}");
        assert_eq!(harvested(&kept, &sent).len(), kept.events.len());
    }
}

#[test]
fn who_is_a_browser() {
    for (line, header, expected) in [
        ("POST /v1/batch", None, false),
        ("POST /v1/batch", Some(("user-agent", "analytics-python/2.4.0")), false),
        ("POST /v1/batch", Some(("sec-fetch-mode", "cors")), false),
        ("POST /v1/batch", Some(("user-agent", "Mozilla/5.0 (X11)")), true),
        ("POST /v1/track", Some(("origin", "https://shop.example")), true),
        ("POST /v1/track", Some(("sec-fetch-site", "cross-site")), true),
        ("POST /v1/t", None, true),
        ("POST /beacon/v1/batch", None, true),
    ] {
        let sent = request(line, b"[]");
        let sent = header.into_iter().fold(sent, |sent, (name, value)| with(sent, name, value));
        assert_eq!(accepted(&sent, "shop").browser, expected, "{line} {header:?}");
    }
}

const LINES: [&str; 10] = [
    "POST /v1/events",
    "POST /v1/batch",
    "POST /v1/t",
    "POST /com.snowplowanalytics.snowplow/tp2",
    "POST /com.acme/x",
    "POST /e/?compression=lz64&_=1796021424506",
    "POST /batch/",
    "GET /i?e=pv&eid=%ff&duid=a+b&write_key=x",
    "GET /v1/pixel.gif?event_type=x&write_key=secret&event_time=1",
    "GET /e/?data=eyJ1dWlkIjoiYSJ9&token=secret",
];

fn any_piece() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\"batch\":[",
        "\"data\":[",
        "{\"messageId\":\"",
        "\"anonymousId\":",
        "\"properties\":{",
        "null",
        "NaN",
        "1e999",
        "\\ud800",
        "\"timestamp\":\"2026-11-30T10:00:00Z\"",
        "\"sentAt\":1796021400",
        "\n",
        " ",
        "x",
        "data=",
        "%7B",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Whatever the bytes: no panic, every event lies in the body, and the landed record yields the same events.
    #[test]
    fn any_bytes_are_judged(line in proptest::sample::select(LINES.to_vec()), pieces in proptest::collection::vec(any_piece(), 0..24), noise in proptest::collection::vec(any::<u8>(), 0..6), layers in 0..3u8, label in proptest::sample::select(vec!["", "gzip", "br", "zstd", "deflate"])) {
        let mut body = pieces.concat().into_bytes();
        body.extend(noise);
        for _ in 0..layers {
            body = gzip(&body);
        }
        let mut sent = request(line, &body);
        if !label.is_empty() {
            sent = with(sent, "content-encoding", label);
        }
        if let Verdict::Keep(kept) = judged(&sent, &Limits { events: 8, event_bytes: 60, ..Limits::default() }) {
            for event in &kept.events {
                prop_assert!(event.offset + event.length <= kept.decoded.len() as u64);
            }
            prop_assert_eq!(harvested(&kept, &sent).len(), kept.events.len());
        }
    }
}
