//! What goes on with each event.

use super::*;
use crate::headers::AddressHeaders;
use crate::testing::{accepted, harvested, request, stamp, with};
use forebay_schemas::id::EventId;

fn sent_at(line: &str, headers: &[(&'static str, &str)], body: &str) -> Vec<String> {
    let sent = headers.iter().fold(request(line, body.as_bytes()), |sent, (name, value)| with(sent, name, value));
    let text = |time: Option<Micros>| time.map_or("-".to_owned(), Micros::to_rfc3339);
    harvested(&accepted(&sent, "shop"), &sent).into_iter().map(|(_, event)| text(event.sent_at)).collect()
}

#[test]
fn sent_time_is_found_where_each_dialect_puts_it() {
    const AT: &str = "2026-11-30T10:00:01.000000Z";
    for (line, headers, body, expected) in [
        ("POST /v1/batch", vec![], r#"{"batch":[{"sentAt":"2026-11-30T09:00:00Z"},{}],"sentAt":"2026-11-30T10:00:01Z"}"#, vec![AT, AT]),
        ("POST /v1/t", vec![], r#"{"messageId":"a","sentAt":"2026-11-30T10:00:01Z"}"#, vec![AT]),
        ("POST /v1/track", vec![("sentat", "2026-11-30T10:00:01.000Z")], r#"{"messageId":"a"}"#, vec![AT]),
        ("POST /v1/t", vec![], r#"{"messageId":"a","sentAt":"soon"}"#, vec!["-"]),
        ("POST /com.snowplowanalytics.snowplow/tp2", vec![], r#"{"schema":"iglu:x","data":[{"stm":"1796032801000"},{}]}"#, vec![AT, "-"]),
        ("GET /i?e=pv&stm=1796032801000", vec![], "", vec![AT]),
        ("POST /batch", vec![], r#"{"batch":[{}],"sent_at":"2026-11-30T10:00:01Z"}"#, vec![AT]),
        ("POST /e/?ip=1&_=1796032801000", vec![], r#"[{},{}]"#, vec![AT, AT]),
        ("POST /v1/events", vec![], r#"{"batch":[{}],"sent_at":"2026-11-30T10:00:01Z"}"#, vec![AT]),
        ("GET /v1/pixel.gif?sent_at=2026-11-30T10:00:01Z", vec![], "", vec![AT]),
    ] {
        assert_eq!(sent_at(line, &headers, body), expected, "{line} {body}");
    }
}

#[test]
fn envelopes_carry_what_their_dialect_names() {
    for (line, body, expected) in [
        ("POST /v1/events", r#"{"batch":[{}],"sent_mono_ms":12.5,"write_key":"k"}"#, Some(r#"{"sent_mono_ms":12.5}"#)),
        ("POST /v1/events", r#"{"batch":[{}],"sent_mono_ms":NaN}"#, None),
        ("POST /v1/events", r#"{"event_type":"x","sent_mono_ms":1}"#, None),
        ("POST /v1/track", r#"{"event":"x"}"#, Some(r#"{"type":"track"}"#)),
        ("POST /v1/track", r#"{"event":"x","type":"track"}"#, None),
        ("POST /v1/batch", r#"{"batch":[{}],"context":{}}"#, None),
        (
            "POST /mp/collect",
            r#"{"client_id":"c","user_id":"u","timestamp_micros":"1796021400000000","user_properties":{"a":{"value":"b"}},"user_data":{"sha256_email_address":"x"},"consent":{},"events":[{"name":"x"}],"device":{"category":"mobile"}}"#,
            Some(
                r#"{"client_id":"c","user_id":"u","timestamp_micros":"1796021400000000","user_properties":{"a":{"value":"b"}},"user_data":{"sha256_email_address":"x"},"consent":{},"device":{"category":"mobile"}}"#,
            ),
        ),
        ("POST /mp/collect", r#"{"app_instance_id":"i","events":[{"name":"x"}]}"#, Some(r#"{"app_instance_id":"i"}"#)),
        ("POST /mp/collect", r#"{"events":[{"name":"x"}]}"#, None),
        ("POST /v1/cloudevents", r#"[{"type":"x","userid":"u"}]"#, None),
    ] {
        let sent = request(line, body.as_bytes());
        assert_eq!(harvested(&accepted(&sent, "shop"), &sent)[0].1.envelope.as_deref(), expected, "{line} {body}");
    }
}

#[test]
fn the_head_goes_on_in_part_and_secrets_do_not() {
    let sent = [
        ("user-agent", "UA/1"),
        ("accept-language", "de"),
        ("referer", "https://shop.example/"),
        ("cookie", "sp=1"),
        ("x-custom", "v"),
        ("authorization", "Basic d2s6"),
    ]
    .into_iter()
    .fold(request("GET /v1/pixel.gif?event_type=x&write_key=secret", b""), |sent, (name, value)| with(sent, name, value));
    let kept = accepted(&sent, "shop");
    let (_, event) = &harvested(&kept, &sent)[0];
    assert_eq!(event.user_agent.as_deref(), Some("UA/1"));
    assert_eq!(event.client_ip.as_deref(), Some("192.0.2.1"));
    let pairs: Vec<_> = event.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(pairs, ["accept-language: de", "referer: https://shop.example/"]);
    assert_eq!(event.payload, "event_type=x&write_key=******");
    let raw = kept.raw(&with(sent, "sp-anonymous", "*"), stamp(), AddressHeaders::Land);
    assert_eq!((raw.peer.as_str(), raw.client_ip.as_deref()), ("", None));
    assert_eq!(raw.target, "/v1/pixel.gif?event_type=x&write_key=******");
}

/// A spool written by another version must not stop this one.
#[test]
fn a_record_that_points_outside_its_body_is_harvested_empty() {
    let sent = request("POST /v1/t", br#"{"messageId":"a"}"#);
    let kept = accepted(&sent, "shop");
    let mut raw = kept.raw(&sent, stamp(), AddressHeaders::Land);
    raw.events[0].offset = u64::MAX;
    raw.target = "/gone".to_owned();
    raw.events[0].event_id = EventId::new("a").expect("short");
    let all = harvest(&raw, &decode_again(&raw), &Limits::default());
    assert_eq!((all.len(), all[0].0.as_str(), all[0].1.payload.len()), (1, "a", 0));
}
