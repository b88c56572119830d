//! Whatever a client sends, admission answers: it does not panic and does not take long.

use crate::fixtures::{event, pipeline, recordings};
use forebay_schemas::dialect::Dialect;
use forebay_schemas::wire::harvested::{Content, Harvested};
use proptest::prelude::*;
use std::sync::LazyLock;

static PIPELINE: LazyLock<forebay_enricher_core::Pipeline> = LazyLock::new(pipeline);

fn any_dialect() -> impl Strategy<Value = Dialect> {
    proptest::sample::select(Dialect::ALL.to_vec())
}

/// Names that decoders look for, and others.
fn any_key() -> impl Strategy<Value = String> {
    let known = [
        "type",
        "event",
        "event_type",
        "properties",
        "traits",
        "context",
        "timestamp",
        "sentAt",
        "page",
        "url",
        "name",
        "library",
        "version",
        "screen",
        "os",
        "device",
        "e",
        "co",
        "cx",
        "ue_pr",
        "ue_px",
        "data",
        "schema",
        "se_va",
        "dtm",
        "$set",
        "$current_url",
        "distinct_id",
        "offset",
        "mono_ms",
        "seq",
        "price",
        "email",
        "products",
        "phone",
    ];
    prop_oneof![6 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,6}"]
}

fn any_value() -> impl Strategy<Value = serde_json::Value> {
    let words = [
        "track",
        "page",
        "identify",
        "Product Clicked",
        "$pageview",
        "pv",
        "ue",
        "page_viewed",
        "order_completed",
        "a@b.example",
        "%61%40b.de",
        "{\"data\":{}}",
        "2026-11-30",
        "1e999",
        "::1",
        "+49 170 5550123",
        "eyJhIjoxfQ",
    ];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        proptest::sample::select(words.to_vec()).prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
        "[a-zA-Z0-9@.:%+/=_&?#; -]{0,40}".prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
            proptest::collection::vec((any_key(), inner), 0..6)
                .prop_map(|members| serde_json::Value::from(serde_json::Map::from_iter(members))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn any_json(dialect in any_dialect(), members in proptest::collection::vec((any_key(), any_value()), 0..8)) {
        let payload = serde_json::Value::from(serde_json::Map::from_iter(members)).to_string();
        let _ = PIPELINE.admit(&event(dialect, &payload));
    }
    #[test]
    fn any_bytes(dialect in any_dialect(), content in proptest::sample::select(Content::ALL.to_vec()), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = PIPELINE.admit(&Harvested { content, payload: bytes.into(), ..event(dialect, "") });
    }
    #[test]
    fn recorded_events_with_bytes_changed(n in 0usize..1_000, at in 0usize..10_000, byte in any::<u8>()) {
        static EVENTS: LazyLock<Vec<Harvested>> = LazyLock::new(|| recordings().into_iter().flat_map(|recording| recording.events).collect());
        let mut event = EVENTS[n % EVENTS.len()].clone();
        let mut payload = event.payload.to_vec();
        let at = at % payload.len();
        payload[at] = byte;
        event.payload = payload.into();
        let _ = PIPELINE.admit(&event);
    }
}

/// One event of the largest size in each way that could make a stage do more than linear work.
#[test]
fn the_largest_events_of_every_bad_kind() {
    const SIZE: usize = 1 << 20;
    let members = |make: &dyn Fn(usize) -> String| {
        let mut text = String::new();
        let mut n = 0;
        while text.len() < SIZE {
            text.push_str(&make(n));
            text.push(',');
            n += 1;
        }
        text.pop();
        text
    };
    let filled = |piece: &str| piece.repeat(SIZE / piece.len());
    let scanned = [
        "@", "a@", "1 ", "11 ", "1.", "%40", "%2540", "a:", "::", "token=", "Bearer ", "QmFzZTY0", "eyJ.", "f-", "+1", "(1) ", "\u{ff20}",
        "030/", "/", "?a=b&", "#",
    ];
    let mut bodies: Vec<(Dialect, String)> = vec![
        (
            Dialect::Segment,
            format!(r#"{{"type":"track","event":"Product Clicked","properties":{{{}}}}}"#, members(&|n| format!(r#""k{n}":{n}"#))),
        ),
        (
            Dialect::Segment,
            format!(r#"{{"type":"track","event":"Product Clicked","properties":{{{}}}}}"#, members(&|_| r#""name":"a""#.to_owned())),
        ),
        (
            Dialect::Segment,
            format!(
                r#"{{"type":"track","event":"Order Completed","properties":{{"order_id":"1","products":[{}]}}}}"#,
                members(&|n| format!(r#"{{"x{n}":1}}"#))
            ),
        ),
        (Dialect::Snowplow, format!(r#"{{"e":"pv",{}}}"#, members(&|n| format!(r#""f_{n}":"{n}""#)))),
        (Dialect::Posthog, format!(r#"{{"event":"$pageview","properties":{{{}}}}}"#, members(&|n| format!(r#""$k{n}":{n}"#)))),
        (Dialect::Native, format!(r#"{{"event_type":"page_viewed",{}}}"#, members(&|n| format!(r#""k{n}":{n}"#)))),
    ];
    for piece in scanned {
        bodies.push((
            Dialect::Segment,
            format!(r#"{{"type":"track","event":"Product Clicked","properties":{{"name":"{0}","url":"{0}"}}}}"#, filled(piece)),
        ));
    }
    let started = std::time::Instant::now();
    let count = bodies.len() as u32;
    for (dialect, body) in &bodies {
        let _ = PIPELINE.admit(&event(*dialect, body));
    }
    let query = Harvested { content: Content::Query, ..event(Dialect::Native, &members(&|n| format!("k{n}.a=1&")).replace(',', "")) };
    let _ = PIPELINE.admit(&query);
    // Anything quadratic takes minutes here; a slow machine under load takes seconds.
    assert!(started.elapsed() < std::time::Duration::from_secs(3) * count, "{:?} for {count} events", started.elapsed());
}
