//! Each record, encoded by hand, is what apache-avro reads by the published schema; and reads back as it was.

use super::*;
use crate::dialect::Dialect;
use crate::id::{EventId, IdOrigin, RequestId};
use crate::reason::Reason;
use crate::stage::Stage;
use crate::time::Micros;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use bytes::Bytes;
use std::borrow::Cow;

fn by_apache(schema: &str, datum: &[u8]) -> Value {
    let schema = apache_avro::Schema::parse_str(schema).expect("a valid schema");
    let mut rest = datum;
    let value = GenericDatumReader::builder(&schema).build().expect("a reader").read_value(&mut rest).expect("apache-avro reads it");
    assert!(rest.is_empty(), "apache-avro leaves {} bytes", rest.len());
    let writer = GenericDatumWriter::builder(&schema).build().expect("a writer");
    assert_eq!(writer.write_value_to_vec(value.clone()).expect("apache-avro writes it"), datum, "same bytes");
    value
}

fn field(value: &Value, name: &str) -> Value {
    match value {
        Value::Record(fields) => fields.iter().find(|(n, _)| n == name).expect("field").1.clone(),
        other => panic!("no record: {other:?}"),
    }
}

fn request_id() -> RequestId {
    RequestId(uuid::Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001))
}
fn event_id(text: &str) -> EventId {
    EventId::new(text).expect("valid id")
}
fn provenance() -> trusted::Provenance {
    trusted::Provenance { request_id: request_id(), partition: 3, offset: 1 << 40, pipeline: "p1".into() }
}

#[test]
fn raw_request() {
    let record = raw_request::RawRequest {
        request_id: request_id(),
        received_at: Micros(-1),
        gateway: "g".into(),
        source: "default".into(),
        peer: "127.0.0.1:1".into(),
        client_ip: Some("::1".into()),
        method: "POST".into(),
        target: "/v1/batch?x=1".into(),
        headers: vec![
            raw_request::Header { name: "content-type".into(), value: Some(Bytes::from_static(b"a\xff")), length: 2 },
            raw_request::Header { name: "cookie".into(), value: None, length: 99 },
        ],
        body: Bytes::from_static(b"\x00\xff{}"),
        dialect: Dialect::Segment,
        events: vec![raw_request::EventRef { event_id: event_id("e1"), id_origin: IdOrigin::Content, offset: 10, length: 1 << 20 }],
    };
    let mut datum = Vec::new();
    raw_request::encode(&record, &mut datum);
    assert_eq!(field(&by_apache(raw_request::SCHEMA, &datum), "body"), Value::Bytes(b"\x00\xff{}".to_vec()));
    let block = Bytes::from(datum);
    let mut reader = avro::Reader::new(&block);
    assert_eq!(raw_request::decode(&mut reader, &block), Ok(record));
    assert_eq!(reader.end(), Ok(()));
}

#[test]
fn harvested() {
    let event = harvested::Harvested {
        event_id: event_id("ü"),
        id_origin: IdOrigin::Assigned,
        request_id: request_id(),
        index: 7,
        gateway: "g".into(),
        source: "s".into(),
        dialect: Dialect::Posthog,
        received_at: Micros(1_796_021_309_348_000),
        sent_at: Some(Micros(5)),
        client_ip: None,
        user_agent: Some("UA".into()),
        headers: vec![("origin".into(), "null".into())],
        content: harvested::Content::Bytes,
        envelope: Some("{}".into()),
        payload: Bytes::from_static(b"{\"a\":1}"),
        full_length: Some(5_000_000),
    };
    let value = harvested::encode(&event);
    assert_eq!(&value[..5], &[0, 0, 0, 0, 1]);
    assert_eq!(field(&by_apache(harvested::SCHEMA, &value[5..]), "content"), Value::Enum(2, "bytes".into()));
    assert_eq!(harvested::decode(&Bytes::from(value)), Ok(event));
}

fn trusted_example() -> trusted::Trusted<'static> {
    trusted::Trusted {
        event_id: Cow::Owned(event_id("e")),
        original_event_id: Some("o".into()),
        event_type: "page_viewed".into(),
        schema_version: "1-0-0".into(),
        event_time: Micros(1),
        time_origin: trusted::TimeOrigin::Clamped,
        received_at: Micros(2),
        source: "s".into(),
        user_id: Some("k.u".into()),
        anonymous_id: None,
        session_id: Some("k.s".into()),
        seq: Some(-4),
        session_index: Some(1),
        page: Some(trusted::Page { url: Some("u".into()), title: None, path: Some("p".into()), referrer: Some("r".into()) }),
        device: Some(trusted::Device { screen_width: Some(1280), library: Some("l".into()), ..trusted::Device::default() }),
        geo: Some(trusted::Geo { country: Some("DE".into()), ..trusted::Geo::default() }),
        campaign: Some(trusted::Campaign { term: Some("t".into()), ..trusted::Campaign::default() }),
        properties: "{}".into(),
        entities: "{}".into(),
        provenance: provenance(),
    }
}

#[test]
fn trusted_event() {
    let full = trusted_example();
    let bare = trusted::Trusted {
        page: None,
        device: None,
        geo: None,
        campaign: None,
        seq: None,
        user_id: None,
        original_event_id: None,
        ..full.clone()
    };
    for event in [full, bare] {
        let value = trusted::encode(&event);
        by_apache(trusted::SCHEMA, &value[5..]);
        assert_eq!(trusted::decode(&value), Ok(event));
    }
}

#[test]
fn bad_event() {
    let bad = bad::Bad {
        clear: bad::Clear {
            event_id: event_id("e"),
            source: "s".into(),
            dialect: Dialect::Native,
            request_id: request_id(),
            index: 0,
            received_at: Micros(1),
            stage: Stage::Validate,
            reason: Reason::SchemaViolation,
            detail: "properties.price: number".into(),
            full_length: None,
            failed_at: Micros(9),
            provenance: provenance(),
        },
        sealed: bad::Sealed { key_id: "k".into(), encapsulated_key: vec![1; 32], sequence: 3, ciphertext: vec![2; 40] },
    };
    let value = bad::encode(&bad);
    by_apache(bad::SCHEMA, &value[5..]);
    assert_eq!(bad::decode(&value), Ok(bad));
}

#[test]
fn state_delta() {
    let delta = delta::Delta {
        format: delta::FORMAT,
        task: 2,
        seq: 9,
        prev_seq: 8,
        part: 0,
        parts: 1,
        from_offset: 100,
        to_offset: 110,
        watermark: Micros(3),
        clock: Micros(4),
        pipeline: "p1".into(),
        ops: vec![delta::Op { key: vec![0, 1], value: Some(vec![]) }, delta::Op { key: vec![0, 2], value: None }],
    };
    let value = delta::encode(&delta);
    by_apache(delta::SCHEMA, &value[5..]);
    assert_eq!(delta::decode(&value), Ok(delta));
}

#[test]
fn window_result() {
    let result = window::WindowResult {
        window: "views".into(),
        key: "{\"source\":\"web\"}".into(),
        start: Micros(-60_000_000),
        end: Micros(0),
        values: "{\"count\":3}".into(),
        revision: 2,
        is_final: true,
        fingerprint: "f".into(),
    };
    let value = window::encode(&result);
    assert_eq!(field(&by_apache(window::SCHEMA, &value[5..]), "final"), Value::Boolean(true));
    assert_eq!(window::decode(&value), Ok(result));
}

#[test]
fn late_event() {
    let trusted = trusted::encode(&trusted_example());
    let missed = late::Missed { window: "views".into(), start: Micros(0), end: Micros(60), by_micros: 7 };
    let value = late::encode(&missed, &trusted).expect("a trusted event");
    assert_eq!(field(&by_apache(late::SCHEMA, &value[5..]), "late_by_micros"), Value::Long(7));
    assert_eq!(late::decode(&value), Ok(late::Late { missed: missed.clone(), event: trusted_example() }));
    assert!(late::encode(&missed, &value).is_err(), "no trusted event");
    // One form of a trusted event in both schemas.
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let event = &parse(late::SCHEMA)["fields"][4]["type"];
    assert_eq!(*event, parse(trusted::SCHEMA));
}

#[test]
fn partials_of_a_task() {
    let partial = partials::Partial {
        window: "w".into(),
        key: "{}".into(),
        bucket: Micros(-1),
        since: Some(Micros(9)),
        kept: Cow::Borrowed(&[1, 2]),
    };
    let partials = partials::Partials {
        format: partials::FORMAT,
        task: 3,
        watermark: Micros(i64::MIN),
        partials: vec![partials::Partial { since: None, ..partial.clone() }, partial],
    };
    let value = partials::encode(&partials);
    by_apache(partials::SCHEMA, &value[5..]);
    assert_eq!(partials::decode(&value), Ok(partials));
}

#[test]
fn cut_values_are_errors_not_panics() {
    let delta = delta::Delta {
        format: 1,
        task: 0,
        seq: 1,
        prev_seq: 0,
        part: 0,
        parts: 1,
        from_offset: 0,
        to_offset: 1,
        watermark: Micros(0),
        clock: Micros(0),
        pipeline: String::new(),
        ops: vec![delta::Op { key: vec![1; 9], value: None }],
    };
    let value = delta::encode(&delta);
    for len in 0..value.len() {
        assert!(delta::decode(&value[..len]).is_err(), "{len} bytes");
    }
}
