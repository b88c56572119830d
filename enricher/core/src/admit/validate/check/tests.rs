use super::*;
use forebay_schemas::json::parse;
use proptest::prelude::*;
use serde_json::json;

fn verdict(schema: &Value, properties: &str) -> Result<(), String> {
    let Ok(Json::Object(members)) = parse(properties.as_bytes(), 64) else { panic!("an object") };
    Check::compile(schema, &mut Patterns::default()).expect("compiles").judge(&members)
}

#[test]
fn a_violation_names_the_place_and_what_was_expected() {
    let schema = json!({
        "type": "object",
        "required": ["name"],
        "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "maxLength": 3, "x-privacy": "scan", "description": "d"},
            "kind": {"enum": ["a", "b"]},
            "items": {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": {"price": {"type": ["number", "null"], "minimum": 0}}}},
            "when": {"type": "string", "format": "date-time"},
            "half": {"type": "number", "multipleOf": 0.5},
            "either": {"anyOf": [{"type": "string"}, {"properties": {"x": {"type": "integer"}}, "required": ["x"]}]},
        }
    });
    for (properties, expected) in [
        (r#"{"name":"ok","items":[{"price":1.5},{"price":null}],"when":"2026-01-01T00:00:00Z","half":1.5,"either":{"x":1}}"#, Ok(())),
        ("{}", Err("properties.name: missing")),
        (r#"{"name":7}"#, Err(r#"properties.name: expected maxLength 3, type "string", got number"#)),
        (r#"{"name":"secret"}"#, Err(r#"properties.name: expected maxLength 3, type "string""#)),
        (r#"{"name":"a","kind":"secret"}"#, Err(r#"properties.kind: expected enum ["a","b"]"#)),
        (r#"{"name":"a","items":[{"price":-1}]}"#, Err(r#"properties.items[].price: expected minimum 0, type ["number","null"]"#)),
        (r#"{"name":"a","items":[1,2,3]}"#, Err(r#"properties.items: expected maxItems 2, type "array", got 3 items"#)),
        (r#"{"name":"a","secret":1}"#, Err("properties: expected no member beside the known ones")),
        (r#"{"name":"a","when":"secret"}"#, Err(r#"properties.when: expected format "date-time""#)),
        (r#"{"name":"a","half":0.3}"#, Err("properties.half: expected multipleOf 0.5")),
        (
            r#"{"name":"a","either":{"secret":1}}"#,
            Err(r#"properties.either: expected anyOf [{"type":"string"},{"properties":{"x":{"type":"integer"}},"required":["x"]}]"#),
        ),
    ] {
        assert_eq!(verdict(&schema, properties), expected.map_err(str::to_owned), "{properties}");
    }
}

#[test]
fn references_are_followed() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/price"}, "b": {"type": "array", "items": {"$ref": "#/$defs/price"}}},
        "$defs": {"price": {"type": "number"}}
    });
    assert_eq!(verdict(&schema, r#"{"a":1,"b":[2]}"#), Ok(()));
    let detail = verdict(&schema, r#"{"a":"secret"}"#).expect_err("a text is no price");
    assert!(detail.starts_with("properties") && detail.contains("type \"number\"") && !detail.contains("secret"), "{detail}");
}

/// The keywords that are judged here, in many combinations.
fn any_schema() -> impl Strategy<Value = Value> {
    let types = proptest::sample::subsequence(vec!["null", "boolean", "integer", "number", "string", "array", "object"], 1..4);
    let patterns = proptest::sample::select(vec!["", "^[a-c]{1,2}$", "^[^\\s@]{0,3}$", "\\d"]);
    let leaf = (types, proptest::option::of(0..4usize), proptest::option::of(-2.0..3.0f64), patterns).prop_map(
        |(types, length, minimum, pattern)| {
            let mut schema = json!({"type": types});
            if let Some(length) = length {
                schema["maxLength"] = json!(length);
                schema["maxItems"] = json!(length);
            }
            if let Some(minimum) = minimum {
                schema["minimum"] = json!(minimum);
            }
            if !pattern.is_empty() {
                schema["pattern"] = json!(pattern);
            }
            schema
        },
    );
    let leaf = prop_oneof![4 => leaf, 1 => Just(json!({"enum": [1, "a", null, true]})), 1 => Just(json!({"const": 2.0}))];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            (proptest::collection::btree_map("[a-c]", inner, 0..3), any::<bool>(), any::<bool>()).prop_map(
                |(properties, required, open)| {
                    let names: Vec<&String> = properties.keys().filter(|_| required).collect();
                    json!({"type": "object", "required": names, "additionalProperties": open, "properties": properties})
                }
            ),
        ]
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        proptest::sample::select(vec![0.5, 1.0, 2.0, -1.5]).prop_map(Value::from),
        "[a-d @\u{a0}ü1]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-d]", inner, 0..3).prop_map(|m| Value::from(serde_json::Map::from_iter(m))),
        ]
    })
}

proptest! {
    #[test]
    fn judges_as_jsonschema_does(property in any_schema(), value in any_value()) {
        let schema = json!({"type": "object", "properties": {"p": property}});
        let instance = json!({"p": value});
        let theirs = jsonschema::draft202012::options().should_validate_formats(true).build(&schema).expect("compiles").is_valid(&instance);
        prop_assert_eq!(verdict(&schema, &instance.to_string()).is_ok(), theirs, "{} on {}", schema, instance);
    }
}
