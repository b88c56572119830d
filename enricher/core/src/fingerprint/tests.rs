//! Golden values that an independent script computed, and what must and must not make another fact.

use super::*;
use crate::admit::decode;
use bytes::Bytes;
use forebay_schemas::id::{EventId, IdOrigin, RequestId};
use forebay_schemas::time::Micros;
use forebay_schemas::wire::harvested::{Content, Harvested};
use serde_json::Value;
use uuid::Uuid;

fn fingerprint(dialect: Dialect, payload: &str) -> u64 {
    let event = Harvested {
        event_id: EventId::new("e").expect("an id"),
        id_origin: IdOrigin::Client,
        request_id: RequestId(Uuid::nil()),
        index: 0,
        gateway: String::new(),
        source: String::new(),
        dialect,
        received_at: Micros(0),
        sent_at: None,
        client_ip: None,
        user_agent: None,
        headers: Vec::new(),
        content: if payload.starts_with('?') { Content::Query } else { Content::Json },
        envelope: None,
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        full_length: None,
    };
    of(dialect, &decode::parse(&event).expect("readable"))
}

#[test]
fn golden() {
    let vectors: Value = serde_json::from_str(include_str!("../../../../schemas/vectors/fingerprint.json")).expect("JSON");
    for case in vectors["cases"].as_array().expect("cases") {
        let dialect = Dialect::from_name(case["dialect"].as_str().expect("a name")).expect("a dialect");
        for payload in case["payloads"].as_array().expect("payloads").iter().map(|payload| payload.as_str().expect("a text")) {
            let fingerprint = format!("{:016x}", fingerprint(dialect, payload));
            assert_eq!(case["fingerprint"], fingerprint, "{}: {payload}", case["name"]);
        }
    }
}
