//! The three modes of CloudEvents over HTTP, live and from the landed record.

use crate::accept::{Accepted, Verdict};
use crate::limits::Limits;
use crate::refusal::RefusalReason;
use crate::testing::{accepted, harvested, judged, refused, request, with};
use forebay_schemas::limit;
use forebay_schemas::wire::harvested::{Content, Harvested, UNREADABLE};
use proptest::prelude::*;

fn binary(headers: &[(&'static str, &str)], body: &[u8]) -> (Accepted, Vec<(String, Harvested)>) {
    let sent = with(request("POST /v1/cloudevents", body), "ce-specversion", "1.0");
    let sent = headers.iter().fold(sent, |sent, (name, value)| with(sent, name, value));
    let kept = accepted(&sent, "shop");
    let out = harvested(&kept, &sent);
    (kept, out)
}
fn payload(headers: &[(&'static str, &str)], body: &[u8]) -> String {
    let (kept, out) = binary(headers, body);
    assert_eq!((kept.unreadable, out.len(), out[0].1.content), (false, 1, Content::Json), "{headers:?}");
    String::from_utf8(out[0].1.payload.to_vec()).expect("UTF-8")
}

const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

#[test]
fn attributes_in_headers_are_an_event_in_the_order_of_their_names() {
    let headers = [("ce-type", "com.acme.x"), ("ce-id", "e-1"), ("ce-source", "/shop"), JSON, ("ce-anonymousid", "a"), ("x-other", "no")];
    let (kept, out) = binary(&headers, b"\xef\xbb\xbf {\"n\":1.50} \n");
    assert_eq!(
        out[0].1.payload,
        r#"{"anonymousid":"a","id":"e-1","source":"/shop","specversion":"1.0","type":"com.acme.x","datacontenttype":"application/json; charset=utf-8","data":{"n":1.50}}"#
    );
    assert_eq!((kept.events[0].event_id.as_str(), kept.events[0].id_origin.name(), out[0].0.as_str()), ("e-1", "client", "a"));
    assert_eq!(kept.events[0].length, kept.decoded.len() as u64);
}

#[test]
fn the_type_of_the_content_says_what_the_data_is() {
    for (label, body, expected) in [
        (Some("application/json"), &b"[1]"[..], r#""datacontenttype":"application/json","data":[1]"#),
        (Some("application/vnd.acme+JSON"), b"7", r#""datacontenttype":"application/vnd.acme+JSON","data":7"#),
        (Some("text/json"), b"\"x\"", r#""datacontenttype":"text/json","data":"x""#),
        (Some("text/plain"), b"{\"a\":1}", r#""datacontenttype":"text/plain","data":"{\"a\":1}""#),
        (Some("text/plain"), b"aGVsbG8gd29ybGQ=", r#""datacontenttype":"text/plain","data":"aGVsbG8gd29ybGQ=""#),
        (Some("application/octet-stream"), b"\x00\xff", r#""datacontenttype":"application/octet-stream","data_base64":"AP8=""#),
        (Some("application/gzip"), b"\x1f\x8b\x08\x00", r#""datacontenttype":"application/gzip","data_base64":"H4sIAA==""#),
        (Some("application/json"), b"", r#""datacontenttype":"application/json""#),
        (None, b"{\"a\":1}", r#""data":{"a":1}"#),
        (None, b"{\"a\":", r#""data":"{\"a\":""#),
        (None, b"hi", r#""data":"hi""#),
        (None, b"\xff", r#""data_base64":"/w==""#),
    ] {
        let headers: Vec<_> = label.map(|label| ("content-type", label)).into_iter().collect();
        assert_eq!(payload(&headers, body), format!(r#"{{"specversion":"1.0",{expected}}}"#), "{label:?}");
    }
    assert_eq!(payload(&[], b""), r#"{"specversion":"1.0"}"#);
}

#[test]
fn values_are_decoded_once() {
    for (value, expected) in [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ("a+b%2Bc", "a+b+c"),
        ("%2541", "%41"),
        ("100%", "100%"),
        ("%zz%4", "%zz%4"),
        ("\"quoted \\\"x\\\\\"", "quoted \"x\\"),
        ("%ff", "\u{fffd}"),
        ("\"", "\""),
        ("", ""),
    ] {
        let out = payload(&[("ce-subject", value)], b"");
        let event: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(event["subject"], expected, "{value}");
    }
    // The last of a name counts; what the body and its type say no header can.
    let out = payload(&[("ce-id", "a"), ("ce-id", "b"), ("ce-data", "x"), ("ce-datacontenttype", "y"), ("ce-", "z")], b"1");
    assert_eq!(out, r#"{"id":"b","specversion":"1.0","data":1}"#);
}

#[test]
fn a_body_that_is_not_what_its_type_says_is_kept_as_it_is() {
    for body in [&b"{\"a\":NaN}"[..], b"{\"a\":1", b"1,\"id\":\"x\"", b"{} {}", b" ", b"\"\xff\"", b"{\"data\":1}x"] {
        let (kept, out) = binary(&[JSON, ("ce-id", "e-1")], body);
        assert!(kept.unreadable, "{}", String::from_utf8_lossy(body));
        assert_eq!((out[0].1.content, out[0].1.envelope.as_deref()), (Content::Bytes, Some(UNREADABLE)));
        assert_eq!((&out[0].1.payload[..], kept.events[0].id_origin.name()), (body, "assigned"));
    }
    // What the enricher has a reason for is an event.
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    for body in [deep.as_str(), r#"{"a":"\ud800"}"#] {
        let (kept, _) = binary(&[JSON, ("ce-id", "e-1")], body.as_bytes());
        assert_eq!((kept.unreadable, kept.events[0].event_id.as_str()), (false, "e-1"), "{body}");
    }
}

#[test]
fn only_the_encoding_of_its_label_comes_off_data() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"{\"a\":1}").expect("memory");
    let gzip = gzip.finish().expect("memory");
    assert_eq!(payload(&[("content-encoding", "gzip")], &gzip), r#"{"specversion":"1.0","data":{"a":1}}"#);
    assert!(payload(&[], &gzip).contains("\"data_base64\":\"H4sI"));
}

#[test]
fn the_bytes_tell_an_event_from_a_batch() {
    const ONE: &str = r#"{"specversion":"1.0","id":"a","source":"/s","type":"x"}"#;
    for (label, body, expected) in [
        ("application/cloudevents+json", ONE.to_owned(), 1),
        ("application/cloudevents-batch+json; charset=utf-8", format!("[{ONE},{ONE}]"), 2),
        ("application/cloudevents+json", format!("[{ONE}]"), 1),
        ("text/plain", format!(" [{ONE}, {ONE},{ONE}]"), 3),
        ("application/cloudevents-batch+json", "[]".to_owned(), 0),
    ] {
        let sent = with(request("POST /v1/cloudevents", body.as_bytes()), "content-type", label);
        let out = harvested(&accepted(&sent, "shop"), &sent);
        assert_eq!(out.len(), expected, "{label}");
        assert!(out.iter().all(|(_, event)| event.payload == ONE), "{label}");
    }
    // A structured event may repeat its attributes in headers; a list of events may not stand in an object.
    let repeated = [("content-type", "Application/CloudEvents+json"), ("ce-id", "b"), ("ce-type", "y")];
    assert_eq!(payload(&repeated, ONE.as_bytes()), ONE);
    let sent = request("POST /v1/cloudevents", br#"{"batch":[{"id":"a"}]}"#);
    assert_eq!(accepted(&sent, "shop").events.len(), 1);
    assert!(accepted(&request("POST /v1/cloudevents", b"x"), "shop").unreadable);
    // Attributes in the headers of another route are nobody's.
    let sent = with(request("POST /v1/events", br#"{"event_id":"n"}"#), "ce-specversion", "1.0");
    assert_eq!(accepted(&sent, "shop").events[0].event_id.as_str(), "n");
}

#[test]
fn data_that_grows_past_the_limits_is_refused() {
    let limits = Limits { inflated_bytes: 1_000, event_bytes: 500, ..Limits::default() };
    let sent = |bytes: usize| with(request("POST /v1/cloudevents", &vec![1; bytes]), "ce-specversion", "1.0");
    assert_eq!(refused(&sent(900), &limits).reason, RefusalReason::InflatedTooLarge, "six bytes for each control character");
    assert_eq!(refused(&sent(100), &limits).reason, RefusalReason::EventTooLarge);
    assert!(matches!(judged(&sent(20), &limits), Verdict::Keep(_)));
    // Of what is larger than any event the structure says that it is one.
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(limit::EVENT_BYTES));
    let sent = with(with(request("POST /v1/cloudevents", large.as_bytes()), "ce-specversion", "1.0"), "content-type", "application/json");
    assert_eq!(refused(&sent, &Limits::default()).reason, RefusalReason::EventTooLarge);
}

proptest! {
    /// Whatever the bytes: an event or an unreadable body, and the landed record yields the same (`harvested` checks it).
    #[test]
    fn any_data_is_judged(label in proptest::sample::select(vec!["", "application/json", "text/plain", "application/cloudevents+json"]), pieces in proptest::collection::vec(proptest::sample::select(vec!["{", "}", "[", "]", ",", ":", "\"", "\"a\"", "1", "NaN", "\\ud800", " ", "x"]), 0..12), noise in proptest::collection::vec(any::<u8>(), 0..4), id in "[ -~]{0,12}") {
        let body = [pieces.concat().into_bytes(), noise].concat();
        let mut headers = vec![("ce-id", &*id)];
        if !label.is_empty() {
            headers.push(("content-type", label));
        }
        let (kept, out) = binary(&headers, &body);
        prop_assert_eq!(out.len(), kept.events.len());
        if !kept.unreadable && !label.starts_with("application/cloudevents") {
            prop_assert_eq!(kept.decoded.first(), Some(&b'{'));
        }
    }
}
