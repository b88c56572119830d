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
        ("GET /pixel/v1/track?messageId=a&writeKey=k&event=x", "", "segment a"),
        ("GET /api/px/track?data=eyJtZXNzYWdlSWQiOiJhIn0", "", "segment a"),
        ("POST /i/v1/analytics/events", r#"{"created_at":"t","batch":[{"uuid":"a","distinct_id":"u"}]}"#, "posthog a"),
        ("POST /v1/batch", r#"{"batch":[]}"#, "segment "),
        ("POST /2/httpapi", r#"{"api_key":"k","events":[{"insert_id":"a"},{"insert_id":"b"}]}"#, "amplitude a b"),
        ("POST /batch", r#"{"api_key":"k","events":[{"insert_id":"a"}],"options":{}}"#, "amplitude a"),
        ("POST /batch", r#"{"api_key":"k","events":7,"batch":[{"uuid":"a"}]}"#, "posthog a"),
        (
            "POST /",
            "checksum=c&client=k&e=%5B%7B%22uuid%22%3A%22a+%5C%22%22%7D%2C%7B%22uuid%22%3A%22b%22%7D%5D&upload_time=1&v=2",
            "amplitude a \" b",
        ),
        ("POST /track/?verbose=1", "data=W3siZXZlbnQiOiJ4IiwicHJvcGVydGllcyI6eyIkaW5zZXJ0X2lkIjoiYSIsInRva2VuIjoiayJ9fV0%3D", "mixpanel a"),
        (
            "GET /track?data=%7B%22event%22%3A%22x%22%2C%22properties%22%3A%7B%22%24insert_id%22%3A%22a%22%2C%22token%22%3A%22k%22%7D%7D",
            "",
            "mixpanel a",
        ),
        ("POST /track", r#"{"api_key":"k","uuid":"a","properties":{"token":"k"}}"#, "posthog a"),
        ("POST /track", r#"[{"uuid":"a","event":"x","properties":{}}]"#, "posthog a"),
        (
            "POST /import",
            "{\"event\":\"x\",\"properties\":{\"$insert_id\":\"a\"}}\n{\"properties\":{\"$insert_id\":\"b\"}}",
            "mixpanel a b",
        ),
        ("POST /mp/collect", r#"{"client_id":"c","events":[]}"#, "ga4 "),
        ("POST /mp/collect", r#"{"events":[{"name":"x"}]}"#, "ga4 00000000-0000-0000-0000-000000000001"),
        ("POST /v1/cloudevents", r#"{"specversion":"1.0","id":"a","source":"/s","type":"x"}"#, "cloudevents a"),
        ("POST /v1/cloudevents", r#"[{"id":"a"},{"id":"b"}]"#, "cloudevents a b"),
    ] {
        let sent = request(line, body.as_bytes());
        let kept = accepted(&sent, "shop");
        assert_eq!(format!("{} {}", kept.dialect().name(), ids(&kept).join(" ")), expected, "{line}");
        assert_eq!(harvested(&kept, &sent).len(), kept.events.len());
    }
}

/// Where a path is shared, what is published again after a crash is of the dialect that was accepted.
#[test]
fn keys_and_times_of_amplitude_and_mixpanel() {
    for (line, body, keys, sent_at, partition_key) in [
        (
            "POST /2/httpapi",
            r#"{"api_key":"k","client_upload_time":"2026-11-30T06:48:35.520Z","events":[{"insert_id":"a","device_id":"d","user_id":"u"}]}"#,
            "k",
            Some("2026-11-30T06:48:35.520000Z"),
            "d",
        ),
        (
            "POST /",
            "client=k&e=%5B%7B%22uuid%22%3A%22a%22%2C%22user_id%22%3A%22u%22%7D%5D&upload_time=1796021315520",
            "k",
            Some("2026-11-30T06:48:35.520000Z"),
            "u",
        ),
        ("POST /engage", r#"[{"$token":"k","$distinct_id":"u","$set":{"a":1}}]"#, "k", None, "u"),
        (
            "GET /track?data=eyJwcm9wZXJ0aWVzIjp7InRva2VuIjoiayIsImRpc3RpbmN0X2lkIjoidSIsIiRkZXZpY2VfaWQiOiJkIiwiJGluc2VydF9pZCI6ImEifX0",
            "",
            "k",
            None,
            "d",
        ),
    ] {
        let sent = request(line, body.as_bytes());
        let route = crate::testing::events_route(&sent);
        let opened = open(&route, &sent, &Limits::default()).expect("opens");
        assert_eq!(opened.keys().write_keys.join(","), keys, "{line}");
        let kept = accepted(&sent, "shop");
        let [(key, event)] = &harvested(&kept, &sent)[..] else { panic!("{line}") };
        assert_eq!((event.sent_at.map(Micros::to_rfc3339).as_deref(), key.as_str()), (sent_at, partition_key), "{line}");
        assert_eq!(event.content, Content::Json);
    }
    // Capture V1 says in a header when it sent.
    let sent = with(
        request("POST /i/v1/analytics/events", br#"{"batch":[{"uuid":"a","distinct_id":"u"}]}"#),
        "posthog-request-timestamp",
        "2026-11-30T06:48:35.520Z",
    );
    let kept = accepted(&sent, "shop");
    let [(key, event)] = &harvested(&kept, &sent)[..] else { panic!("one event") };
    assert_eq!((event.sent_at.map(Micros::to_rfc3339).as_deref(), key.as_str()), (Some("2026-11-30T06:48:35.520000Z"), "u"));
    // A pixel's call is its path's.
    let sent = request("GET /pixel/v1/page?anonymousId=d&properties.url=x", b"");
    let kept = accepted(&sent, "shop");
    let [(key, event)] = &harvested(&kept, &sent)[..] else { panic!("one event") };
    assert_eq!((event.envelope.as_deref(), key.as_str(), event.content), (Some("{\"type\":\"page\"}"), "d", Content::Query));
    // A form without events is what it is.
    let sent = request("POST /", b"client=k&upload_time=1");
    assert!(accepted(&sent, "shop").unreadable);
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

const LINES: [&str; 16] = [
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
    "POST /",
    "POST /2/httpapi",
    "POST /track",
    "POST /import",
    "POST /mp/collect?api_secret=secret",
    "POST /v1/cloudevents",
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
        "\"events\":[",
        "\"timestamp_micros\":1796021400000000",
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
