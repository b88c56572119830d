use super::*;
use bytes::Bytes;
use forebay_schemas::catalog::{Catalog, Privacy};
use forebay_schemas::id::{EventId, IdOrigin};
use forebay_schemas::time::Micros;
use forebay_schemas::wire::harvested::Content;

fn event(dialect: Dialect, content: Content, payload: String) -> Harvested {
    Harvested {
        event_id: EventId::new("e-1").expect("a valid id"),
        id_origin: IdOrigin::Assigned,
        request_id: "01a22b36-5a4c-75de-8aa0-e225cefea702".parse().expect("an id"),
        index: 0,
        gateway: "g".to_owned(),
        source: "s".to_owned(),
        dialect,
        received_at: Micros(1_796_000_000_000_000),
        sent_at: None,
        client_ip: None,
        user_agent: None,
        headers: Vec::new(),
        content,
        envelope: None,
        payload: Bytes::from(payload),
        full_length: None,
    }
}

fn encoded(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}

/// One name as each dialect and each way of sending has it.
fn events() -> Vec<Harvested> {
    let thing = r#"{"schema":"iglu:com.snowplowanalytics.snowplow/unstruct_event/jsonschema/1-0-0","data":{"schema":"iglu:com.acme/thing/jsonschema/1-0-0","data":{"size":2}}}"#;
    let posted = json!({"e": "ue", "ue_pr": thing, "url": "https://shop.example/"}).to_string();
    [
        (Dialect::Snowplow, Content::Json, posted),
        (Dialect::Snowplow, Content::Query, format!("e=ue&ue_px={}&page=A+page", encoded(&thing.replace("size", "weight")))),
        (Dialect::Segment, Content::Json, r#"{"type":"track","event":"Left Page","properties":{"how":"back"}}"#.to_owned()),
        (Dialect::Native, Content::Json, r#"{"event_type":"left_page","properties":{"after_ms":20}}"#.to_owned()),
        (Dialect::Native, Content::Query, "event_type=left_page&properties.via=pixel&anonymous_id=a".to_owned()),
        (Dialect::Posthog, Content::Json, r#"{"event":"left page","properties":{"$lib":"web","depth":1}}"#.to_owned()),
        (Dialect::Native, Content::Json, "not JSON".to_owned()),
        (Dialect::Native, Content::Bytes, "event_type=left_page".to_owned()),
    ]
    .into_iter()
    .map(|(dialect, content, payload)| event(dialect, content, payload))
    .collect()
}

#[test]
fn names_are_listed_as_infer_takes_them() {
    let events = events();
    let listed: Vec<_> = counts(events.iter()).into_iter().map(|((name, dialect), count)| (name, dialect.name(), count)).collect();
    let listed: Vec<_> = listed.iter().map(|(name, dialect, count)| (name.as_str(), *dialect, *count)).collect();
    assert_eq!(
        listed,
        [("Left Page", "segment", 1), ("com.acme/thing", "snowplow", 2), ("left page", "posthog", 1), ("left_page", "native", 2),]
    );
}

/// What a person does with a draft: a folder of their choice, every field classified. Then the catalogue takes the event.
#[test]
fn a_draft_makes_every_sender_of_the_name_known() {
    let events = events();
    for (asked, folder, fields, known) in [
        ("com.acme/thing", "thing", vec!["size", "weight"], vec![(Dialect::Snowplow, "com.acme/thing")]),
        (
            "Left Page",
            "left",
            vec!["after_ms", "depth", "how", "via"],
            vec![(Dialect::Segment, "Left Page"), (Dialect::Native, "left_page"), (Dialect::Posthog, "left page")],
        ),
    ] {
        let wanted = normalise(asked);
        let draft = draft(&wanted, &samples(events.iter(), &wanted));
        let file = (format!("{folder}/1-0-0.json"), draft.replace("unclassified", "drop"));
        let catalog = Catalog::builtin().overlay(&[file]).expect(&draft);
        for (dialect, name) in known {
            assert_eq!(catalog.lookup(dialect, name).map(|found| found.name.as_str()), Some(folder), "{draft}");
        }
        let schema = catalog.get(folder).expect("it is there").newest();
        for field in fields {
            assert_eq!(schema.fields.member(field).and_then(|found| found.privacy), Some(Privacy::Drop), "{field}: {draft}");
        }
    }
}
