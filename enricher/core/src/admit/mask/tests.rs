//! What each word of `x-privacy` does, by a schema that uses all of them.

use super::*;
use crate::admit::decode::Decoder;
use crate::admit::sanitize::sanitize;
use crate::admit::validate::Validator;
use crate::keys::KeyRing;
use crate::options::UnknownEvent;
use crate::seal::{self, BadPublicKey};
use bytes::Bytes;
use forebay_schemas::catalog::Catalog;
use forebay_schemas::dialect::Dialect;
use forebay_schemas::id::{EventId, IdOrigin, RequestId};
use forebay_schemas::json::parse;
use forebay_schemas::wire::harvested::{Content, Harvested};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "keep": {"type": ["number", "boolean", "null"], "x-privacy": "keep"},
    "drop": {"x-privacy": "drop"},
    "redact": {"x-privacy": "redact"},
    "token": {"type": ["string", "integer", "null"], "x-privacy": "tokenize", "x-token-domain": "user"},
    "same": {"type": ["string", "integer", "null"], "x-privacy": "tokenize", "x-token-domain": "user", "x-sanitize": ["trim", "lowercase"]},
    "hash": {"type": ["string", "null"], "x-privacy": "hash"},
    "ip": {"type": ["string", "null"], "x-privacy": "truncate-ip"},
    "scan": {"type": ["string", "number", "boolean", "null"], "x-privacy": "scan"},
    "items": {"type": ["array", "null"], "items": {"type": ["object", "null"], "properties": {"price": {"type": "number", "x-privacy": "keep"}}}},
    "words": {"type": "array", "items": {"type": "string", "x-privacy": "scan"}}
  }
}"#;

fn mask(properties: &str, policy: UnclassifiedPolicy) -> Result<(String, Vec<String>), String> {
    let catalog = Catalog::builtin().overlay(&[("words/1-0-0.json".to_owned(), SCHEMA.to_owned())]).expect("a good schema");
    let mut domains = Domains::default();
    let context = ContextPlan::new(&catalog, &mut domains);
    let validator = Validator::new(Arc::new(catalog), UnknownEvent::Bad, &mut domains).expect("compiles");
    let mask = KeyRing::parse(&KeyRing::generate("k1", [7; 32])).expect("a ring");
    let bad = BadPublicKey::parse(&seal::generate(&[1; 32]).0).expect("a key");
    let masker = Masker::new(context, &domains, &Keys { mask, groups: BTreeMap::new(), bad });
    let event = Harvested {
        event_id: EventId::new("e").expect("an id"),
        id_origin: IdOrigin::Client,
        request_id: RequestId(Uuid::nil()),
        index: 0,
        gateway: String::new(),
        source: "s".to_owned(),
        dialect: Dialect::Native,
        received_at: Micros(0),
        sent_at: None,
        client_ip: None,
        user_agent: None,
        headers: Vec::new(),
        content: Content::Json,
        envelope: None,
        payload: Bytes::from(format!(r#"{{"event_type":"words","properties":{properties}}}"#)),
        full_length: None,
    };
    let decoded = Decoder::new(0).decode(&event, parse(&event.payload, 64).expect("JSON")).map_err(|reject| reject.detail)?;
    let valid = validator.validate(decoded, &masker).map_err(|reject| reject.detail)?;
    let (masked, unclassified) = masker.mask(sanitize(valid, masker.context()), policy).map_err(|reject| reject.detail)?;
    Ok((masked.properties().to_owned(), unclassified.into_iter().map(|field| field.path).collect()))
}

fn check(properties: &str, expected: &str) {
    assert_eq!(mask(properties, UnclassifiedPolicy::Omit), Ok((expected.to_owned(), vec![])), "{properties}");
}

#[test]
fn what_each_word_does() {
    for (properties, expected) in [
        (r#"{"keep":1.10}"#, r#"{"keep":1.10}"#),
        (&format!(r#"{{"keep":0.{}}}"#, "25".repeat(40)), r#"{"keep":2.5252525252525254e-1}"#),
        (r#"{"keep":false,"drop":{"a":1}}"#, r#"{"keep":false}"#),
        (r#"{"redact":{"street":"x"}}"#, r#"{"redact":"[redacted]"}"#),
        (r#"{"redact":7,"keep":null}"#, r#"{"redact":"[redacted]","keep":null}"#),
        (r#"{"redact":null,"token":null,"hash":""}"#, r#"{"redact":null,"token":null,"hash":""}"#),
        (r#"{"ip":"203.0.113.77"}"#, r#"{"ip":"203.0.113.0"}"#),
        (r#"{"ip":" [2001:db8:1:2:3::4]:443 "}"#, r#"{"ip":"2001:db8:1::"}"#),
        (r#"{"ip":"::ffff:203.0.113.77"}"#, r#"{"ip":"203.0.113.0"}"#),
        (r#"{"ip":"203.0.113.77:8080"}"#, r#"{"ip":"203.0.113.0"}"#),
        (r#"{"ip":"unknown"}"#, "{}"),
        (r#"{"scan":"mail pat@example.com"}"#, r#"{"scan":"mail [email]"}"#),
        (r#"{"scan":4917012345678}"#, r#"{"scan":"[phone]"}"#),
        (r#"{"scan":1796021312504}"#, r#"{"scan":1796021312504}"#),
        (r#"{"scan":19.99}"#, r#"{"scan":19.99}"#),
        (r#"{"scan":true}"#, r#"{"scan":true}"#),
        (r#"{"items":[{"price":1},null,{}],"words":["a","203.0.113.7"]}"#, r#"{"items":[{"price":1},null,{}],"words":["a","[ip]"]}"#),
    ] {
        check(properties, expected);
    }
}

#[test]
fn equal_values_of_one_domain_join() {
    let (told, _) = mask(r#"{"token":42,"same":" 42 "}"#, UnclassifiedPolicy::Omit).expect("valid");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["token"], told["same"]);
    let (other, _) = mask(r#"{"token":"43","hash":"42"}"#, UnclassifiedPolicy::Omit).expect("valid");
    assert!(!other.contains(told["token"].as_str().expect("a token")));
}

#[test]
fn what_nobody_classified_is_left_out_and_counted() {
    let properties = r#"{"keep":1,"other":{"a":1},"items":[{"price":1,"x":1},{"x":2}],"pat@example.com":1}"#;
    let (told, paths) = mask(properties, UnclassifiedPolicy::Omit).expect("valid");
    assert_eq!(told, r#"{"keep":1,"items":[{"price":1},{}]}"#);
    let shapes: Vec<&str> = paths.iter().map(|path| path.split('#').next().expect("a first part")).collect();
    assert_eq!(shapes, ["properties.{a", "properties.items[].{a", "properties.{a@a.a"]);
    let detail = mask(properties, UnclassifiedPolicy::Reject).expect_err("rejected");
    assert!(detail.starts_with("properties.{a#") && detail.ends_with(": not classified"), "{detail}");
    let many: String = (0..100).map(|n| format!(r#""k{n}":1,"#)).collect();
    let (_, paths) = mask(&format!("{{{many}\"keep\":1}}"), UnclassifiedPolicy::Omit).expect("valid");
    assert_eq!((paths.len(), paths.last().map(String::as_str)), (limit::UNCLASSIFIED_PER_EVENT + 1, Some("…")));
}
