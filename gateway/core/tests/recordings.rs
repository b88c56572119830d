//! Recorded requests of real SDKs go through route, accept and harvest and yield exactly the ids that are in them.
//!
//! The folder is `FOREBAY_TRAFFIC`, else the repository's `tests/recordings`.

use base64::Engine;
use forebay_gateway_core::headers::AddressHeaders;
use forebay_gateway_core::{Limits, Request, Route, Stamp, Verdict, accept, decode_again, harvest, route};
use forebay_schemas::id::{IdOrigin, RequestId};
use forebay_schemas::time::Micros;
use forebay_schemas::wire::harvested::{Content, Harvested};
use forebay_schemas::{json, limit};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use uuid::Uuid;

fn folder() -> PathBuf {
    let committed = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings");
    std::env::var_os("FOREBAY_TRAFFIC").map_or_else(committed, PathBuf::from)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn request(line: &str) -> Request {
    let recorded: Value = serde_json::from_str(line).expect("a recorded request");
    let mut headers = http::HeaderMap::new();
    for pair in recorded["headers"].as_array().expect("headers") {
        let name: http::HeaderName = pair[0].as_str().expect("a name").parse().expect("a header name");
        headers.append(name, pair[1].as_str().expect("a value").parse().expect("a header value"));
    }
    let body = base64::engine::general_purpose::STANDARD.decode(recorded["body_b64"].as_str().expect("a body")).expect("base64");
    Request {
        method: recorded["method"].as_str().expect("a method").parse().expect("a method"),
        target: recorded["target"].as_str().expect("a target").to_owned(),
        headers,
        body: body.into(),
    }
}

/// The events of one request; none of a preflight or a start-up request.
fn events(request: &Request, n: u128) -> Vec<(String, Harvested)> {
    let route = match route(&request.method, &request.target) {
        Route::Events(route) => route,
        Route::Startup(_) | Route::Preflight => return Vec::new(),
        other @ (Route::Limits | Route::NotFound | Route::MethodNotAllowed(_)) => {
            panic!("{} {}: {other:?}", request.method, request.target)
        }
    };
    // Ids that are nobody's.
    let mut fresh = 0;
    let mut fresh = || {
        fresh += 1;
        Uuid::from_u128(n << 64 | fresh)
    };
    let Verdict::Keep(kept) = accept(&route, request, "shop", &Limits::default(), &mut fresh) else {
        panic!("{}: refused", request.target)
    };
    assert!(!kept.unreadable);
    let stamp = Stamp {
        request_id: RequestId(Uuid::from_u128(n)),
        received_at: Micros(1_796_021_400_000_000),
        gateway: "gw".to_owned(),
        peer: String::new(),
        client_ip: None,
    };
    let raw = kept.raw(request, stamp, AddressHeaders::Land);
    assert_eq!(raw.body, request.body, "landed as it arrived");
    assert_eq!(decode_again(&raw), kept.decoded);
    harvest(&raw, &kept.decoded, &kept.limits)
}

fn check(name: &str, text: &str, truth: &Value) {
    let expected: BTreeSet<String> = truth["ids"].as_object().expect("ids").keys().cloned().collect();
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    let (mut sends, mut without_id) = (0, 0);
    for (n, line) in text.lines().enumerate() {
        for (key, event) in events(&request(line), n as u128) {
            sends += 1;
            assert_eq!(event.dialect.name(), truth["dialect"], "{name}");
            assert!(event.sent_at.is_some() || event.content == Content::Json, "{name}: {event:?}");
            if event.content == Content::Json {
                json::parse(&event.payload, limit::JSON_DEPTH).expect("a whole event");
            }
            if event.id_origin != IdOrigin::Client {
                without_id += 1;
                continue;
            }
            // A retry meets its first attempt (law A4).
            let first = keys.entry(event.event_id.to_string()).or_insert_with(|| key.clone());
            assert_eq!(*first, key, "{name}: {}", event.event_id);
        }
    }
    assert_eq!(keys.into_keys().collect::<BTreeSet<_>>(), expected, "{name}");
    assert_eq!((&truth["sends"], &truth["no_id"]), (&sends.into(), &without_id.into()), "{name}");
}

fn check_folder(folder: &Path) -> usize {
    let truth: BTreeMap<String, Value> = serde_json::from_str(&read(&folder.join("truth.json"))).expect("JSON");
    let ours = |truth: &Value| matches!(truth["dialect"].as_str(), Some("segment" | "snowplow" | "posthog" | "amplitude" | "mixpanel"));
    let mut checked = 0;
    for (name, truth) in truth.iter().filter(|(_, truth)| ours(truth)) {
        check(name, &read(&folder.join(format!("{name}.jsonl"))), truth);
        checked += 1;
    }
    checked
}

#[test]
fn recordings_yield_exactly_their_ids() {
    assert!(check_folder(&folder()) >= 8, "too few recordings in {}", folder().display());
}
