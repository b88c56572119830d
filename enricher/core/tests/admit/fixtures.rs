//! Events of recorded SDKs as the gateway harvests them (`tests-data`), and pipelines to give them to.

use bytes::Bytes;
use forebay_enricher_core::seal::{self, BadPublicKey};
use forebay_enricher_core::{KeyRing, Keys, Options, Pipeline};
use forebay_schemas::catalog::Catalog;
use forebay_schemas::dialect::Dialect;
use forebay_schemas::id::{EventId, IdOrigin, RequestId};
use forebay_schemas::time::Micros;
use forebay_schemas::wire::harvested::{Content, Harvested};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// One recording: what must come out, and what goes in, as often as it was sent.
pub struct Recording {
    pub name: String,
    /// Facts by event type, or by `bad:<reason>`.
    pub expect: BTreeMap<String, u64>,
    pub events: Vec<Harvested>,
}

pub fn recordings() -> Vec<Recording> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests-data");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files.iter().map(|file| read(&std::fs::read_to_string(file).expect("UTF-8"))).collect()
}

fn read(text: &str) -> Recording {
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let head = lines.next().expect("a head");
    let dialect = Dialect::from_name(head["dialect"].as_str().expect("a name")).expect("a dialect");
    Recording {
        name: head["recording"].as_str().expect("a name").to_owned(),
        expect: head["expect"].as_object().expect("counts").iter().map(|(k, v)| (k.clone(), v.as_u64().expect("a count"))).collect(),
        events: lines.map(|line| event_of(dialect, &line)).collect(),
    }
}

fn event_of(dialect: Dialect, line: &Value) -> Harvested {
    let query = line["content"] == "query";
    let payload = if query { line["payload"].as_str().expect("a query").to_owned() } else { line["payload"].to_string() };
    Harvested {
        event_id: EventId::new(line["event_id"].as_str().expect("an id")).expect("a valid id"),
        received_at: Micros((line["received_at"].as_f64().expect("a time") * 1e6) as i64),
        sent_at: line["sent_at"].as_str().and_then(Micros::parse_rfc3339),
        user_agent: line["user_agent"].as_str().map(str::to_owned),
        content: if query { Content::Query } else { Content::Json },
        ..event(dialect, &payload)
    }
}

/// A JSON event as the gateway would harvest it, received on 2026-11-30 at noon.
pub fn event(dialect: Dialect, payload: &str) -> Harvested {
    Harvested {
        event_id: EventId::new("e-1").expect("a valid id"),
        id_origin: IdOrigin::Client,
        request_id: RequestId(Uuid::nil()),
        index: 0,
        gateway: "g".to_owned(),
        source: "default".to_owned(),
        dialect,
        received_at: Micros::parse_rfc3339("2026-11-30T12:00:00Z").expect("a time"),
        sent_at: None,
        client_ip: Some("203.0.113.7".to_owned()),
        user_agent: None,
        headers: Vec::new(),
        content: Content::Json,
        envelope: None,
        payload: Bytes::copy_from_slice(payload.as_bytes()),
        full_length: None,
    }
}

pub fn pipeline() -> Pipeline {
    with(Catalog::builtin(), Options::default())
}

pub fn with(catalog: Catalog, options: Options) -> Pipeline {
    let mask = KeyRing::parse(&KeyRing::generate("k1", [7; 32])).expect("a ring");
    let bad = BadPublicKey::parse(&seal::generate(&[1; 32]).0).expect("a key");
    Pipeline::new(Arc::new(catalog), options, Keys { mask, groups: BTreeMap::new(), bad }).expect("the catalogue compiles")
}
