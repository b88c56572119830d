use super::{Schema, can_read};
use forebay_schemas::topic::Topic;
use forebay_schemas::wire;
use serde_json::{Value, json};
use std::path::Path;

/// Schemas of every kind; each is compared with each.
const FAMILY: &[&str] = &[
    r#""null""#,
    r#""boolean""#,
    r#""int""#,
    r#""long""#,
    r#""float""#,
    r#""double""#,
    r#""bytes""#,
    r#"{"type": "string"}"#,
    // Logical types.
    r#"{"type": "int", "logicalType": "date"}"#,
    r#"{"type": "int", "logicalType": "time-millis"}"#,
    r#"{"type": "long", "logicalType": "timestamp-micros"}"#,
    r#"{"type": "long", "logicalType": "timestamp-millis"}"#,
    r#"{"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}"#,
    r#"{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}"#,
    r#"{"type": "string", "logicalType": "uuid"}"#,
    r#"{"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}"#,
    r#"{"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 8, "scale": 2}"#,
    // Fixed.
    r#"{"type": "fixed", "name": "F", "size": 8}"#,
    r#"{"type": "fixed", "name": "F", "size": 9}"#,
    r#"{"type": "fixed", "name": "a.F", "size": 8}"#,
    r#"{"type": "fixed", "name": "G", "size": 8}"#,
    r#"{"type": "fixed", "name": "G", "size": 8, "aliases": ["F"]}"#,
    r#"{"type": "fixed", "name": "G", "namespace": "a", "size": 8, "aliases": ["F"]}"#,
    // Enums.
    r#"{"type": "enum", "name": "E", "symbols": ["a", "b"]}"#,
    r#"{"type": "enum", "name": "E", "symbols": ["b", "a"]}"#,
    r#"{"type": "enum", "name": "E", "symbols": ["a", "b", "c"]}"#,
    r#"{"type": "enum", "name": "E", "symbols": ["a", "b"], "default": "a"}"#,
    r#"{"type": "enum", "name": "E", "symbols": ["x"]}"#,
    r#"{"type": "enum", "name": "H", "symbols": ["a", "b"], "aliases": ["E"]}"#,
    r#"{"type": "enum", "name": "F", "symbols": ["a", "b"]}"#,
    // Arrays and maps.
    r#"{"type": "array", "items": "int"}"#,
    r#"{"type": "array", "items": "long"}"#,
    r#"{"type": "array", "items": ["null", "int"]}"#,
    r#"{"type": "array", "items": {"type": "array", "items": "string"}}"#,
    r#"{"type": "map", "values": "int"}"#,
    r#"{"type": "map", "values": "double"}"#,
    r#"{"type": "map", "values": {"type": "enum", "name": "E", "symbols": ["a", "b"]}}"#,
    // Unions.
    r#"["null"]"#,
    r#"["int"]"#,
    r#"["null", "int"]"#,
    r#"["int", "null"]"#,
    r#"["null", "long"]"#,
    r#"["null", "string"]"#,
    r#"["null", "bytes"]"#,
    r#"["int", "string"]"#,
    r#"["float", "double"]"#,
    r#"["null", "int", "long", "float", "double", "string"]"#,
    r#"["null", {"type": "enum", "name": "E", "symbols": ["a", "b"]}]"#,
    r#"["null", {"type": "enum", "name": "E", "symbols": ["a", "b", "c"]}]"#,
    r#"["null", {"type": "fixed", "name": "F", "size": 8}, {"type": "fixed", "name": "G", "size": 8}]"#,
    r#"["null", {"type": "array", "items": "int"}, {"type": "map", "values": "int"}]"#,
    // Records: fields come, go, change and are renamed.
    r#"{"type": "record", "name": "R", "fields": []}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": 7}]}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "int"], "default": null}]}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "int"]}]}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "b", "type": "string"}, {"name": "a", "type": "int"}]}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string", "default": ""}]}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "c", "type": "int", "aliases": ["a"]}]}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "c", "type": "int", "aliases": ["a", "b"]}]}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": "bytes", "aliases": ["b"]}]}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "b", "type": "bytes"}]}"#,
    r#"{"type": "record", "name": "R", "fields": [{"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["a"], "default": "a"}}]}"#,
    // … and records change their names.
    r#"{"type": "record", "name": "S", "fields": [{"name": "a", "type": "int"}]}"#,
    r#"{"type": "record", "name": "S", "aliases": ["R"], "fields": [{"name": "a", "type": "int"}]}"#,
    r#"{"type": "record", "name": "S", "namespace": "n", "aliases": ["R"], "fields": [{"name": "a", "type": "int"}]}"#,
    r#"{"type": "record", "name": "n.R", "fields": [{"name": "a", "type": "int"}]}"#,
    r#"{"type": "record", "name": "S", "aliases": ["n.R"], "fields": [{"name": "a", "type": "int"}]}"#,
    r#"["null", {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}]"#,
    r#"["null", {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, {"type": "record", "name": "S", "fields": [{"name": "a", "type": "int"}]}]"#,
    r#"["null", {"type": "record", "name": "S", "fields": []}, {"type": "record", "name": "R", "fields": []}]"#,
    // One type used twice, by name or written out; within others.
    r#"{"type": "record", "name": "T", "fields": [{"name": "x", "type": {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}}, {"name": "y", "type": "R"}]}"#,
    r#"{"type": "record", "name": "T", "fields": [{"name": "y", "type": {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}}, {"name": "x", "type": "R"}]}"#,
    r#"{"type": "record", "name": "T", "fields": [{"name": "x", "type": {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}}, {"name": "y", "type": "R"}]}"#,
    r#"{"type": "record", "name": "T", "fields": [{"name": "y", "type": {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}}]}"#,
    r#"{"type": "record", "name": "T", "fields": [{"name": "x", "type": {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}}, {"name": "y", "type": ["null", "R"], "default": null}]}"#,
    r#"{"type": "record", "name": "T", "fields": [{"name": "z", "type": {"type": "record", "name": "Z", "fields": [{"name": "r", "type": {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}}]}, "default": {"r": {"a": 1}}}, {"name": "y", "type": "R"}]}"#,
    r#"{"type": "record", "name": "T", "namespace": "n", "fields": [{"name": "x", "type": {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}}, {"name": "y", "type": "n.R"}]}"#,
    // Types that refer to themselves and to each other.
    r#"{"type": "record", "name": "L", "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "L"]}]}"#,
    r#"{"type": "record", "name": "L", "fields": [{"name": "v", "type": "long"}, {"name": "next", "type": ["null", "L"]}]}"#,
    r#"{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}, {"name": "v", "type": "string"}]}"#,
    r#"{"type": "record", "name": "L", "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": "L"}]}"#,
    r#"{"type": "record", "name": "L", "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", {"type": "record", "name": "M", "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "L"]}]}]}]}"#,
    r#"{"type": "record", "name": "L", "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", {"type": "record", "name": "M", "aliases": ["L"], "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "L"]}]}]}]}"#,
    r#"{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", {"type": "array", "items": "L"}, {"type": "map", "values": "L"}]}]}"#,
    r#"{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", {"type": "map", "values": "L"}], "default": null}]}"#,
];

/// Every pair of the family, and each wire schema with each of its mutations.
fn pairs() -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> =
        FAMILY.iter().flat_map(|reader| FAMILY.iter().map(|writer| ((*reader).to_owned(), (*writer).to_owned()))).collect();
    for topic in Topic::ALL {
        let ours = serde_json::from_str::<Value>(wire::schema(topic)).unwrap();
        let mut all = vec![ours.to_string()];
        mutate(&ours, &mut |changed| all.push(changed.to_string()));
        pairs.extend(all.iter().map(|other| (all[0].clone(), other.clone())));
        pairs.extend(all.iter().map(|other| (other.clone(), all[0].clone())));
    }
    pairs
}

/// `schema` with one thing changed, each way that there is: a member of a list left out, a default left out, a
/// primitive type made another.
fn mutate(schema: &Value, visit: &mut dyn FnMut(Value)) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object {
                let mut with = |value: Option<Value>| {
                    let mut changed = object.clone();
                    match value {
                        Some(value) => changed.insert(key.clone(), value),
                        None => changed.remove(key),
                    };
                    visit(Value::Object(changed));
                };
                match key.as_str() {
                    "default" => with(None),
                    "type" | "items" | "values" if value.is_string() => {
                        ["int", "long", "string", "bytes"].iter().for_each(|word| with(Some(json!(word))));
                    }
                    _ => mutate(value, &mut |value| with(Some(value))),
                }
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                let mut shorter = list.clone();
                shorter.remove(at);
                visit(Value::Array(shorter));
                mutate(value, &mut |value| {
                    let mut changed = list.clone();
                    changed[at] = value;
                    visit(Value::Array(changed));
                });
            }
        }
        _ => {}
    }
}

fn ours(reader: &str, writer: &str) -> Result<(), String> {
    let parse = |text: &str| Schema::parse(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    can_read(&parse(reader), &parse(writer)).map_err(|e| e.to_string())
}

#[test]
fn java_says_the_same_of_every_pair() {
    let pairs = pairs();
    let folder = tempfile::tempdir().unwrap();
    let (file, answers) = (folder.path().join("pairs"), folder.path().join("answers"));
    let lines: String = pairs.iter().map(|(reader, writer)| format!("{reader}\t{writer}\n")).collect();
    std::fs::write(&file, lines).unwrap();
    let oracle = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/interop/Compatibility.java");
    let mut java = forebay_services::java::source(Path::new(oracle)).unwrap();
    java.args([&file, &answers]);
    forebay_services::java::run(java).unwrap();
    let said = std::fs::read_to_string(&answers).unwrap();
    assert_eq!(said.lines().count(), pairs.len());
    let (mut good, mut bad) = (0, 0);
    for ((reader, writer), said) in pairs.iter().zip(said.lines()) {
        match said {
            "COMPATIBLE" => {
                good += 1;
                assert_eq!(ours(reader, writer), Ok(()), "reader {reader}\nwriter {writer}");
            }
            "INCOMPATIBLE" => {
                bad += 1;
                assert!(ours(reader, writer).is_err(), "reader {reader}\nwriter {writer}");
            }
            // A mutation that is no schema to Java, like a union of two strings.
            other => assert!(other.starts_with("INVALID"), "{other}"),
        }
    }
    assert!(good > 900 && bad > 7_000, "{good} good, {bad} bad");
}

#[test]
fn our_schemas_read_themselves() {
    for topic in Topic::ALL {
        assert_eq!(ours(wire::schema(topic), wire::schema(topic)), Ok(()));
    }
}

#[test]
fn the_place_is_told() {
    let trusted = wire::schema(Topic::Trusted);
    let changed = |from: &str, to: &str| {
        assert!(trusted.contains(from), "{from}");
        ours(trusted, &trusted.replace(from, to)).unwrap_err()
    };
    assert_eq!(
        changed(r#""name": "event_type""#, r#""name": "type""#),
        "forebay.TrustedEvent.event_type: was not written, and has no default"
    );
    assert_eq!(
        changed(r#"{"name": "path", "type": ["null", "string"]"#, r#"{"name": "path", "type": ["null", "long"]"#),
        "forebay.TrustedEvent.page.path: no branch of the union reads long"
    );
    assert_eq!(
        changed(r#""name": "partition", "type": "int""#, r#""name": "partition", "type": "long""#),
        "forebay.TrustedEvent.provenance.partition: int cannot read long"
    );
    let harvested = wire::schema(Topic::Harvested);
    let more = harvested.replace(r#""bytes"]"#, r#""bytes", "form"]"#);
    assert_eq!(ours(harvested, &more), Err("forebay.HarvestedEvent.content: the enum has no symbol \"form\" and no default".to_owned()));
    assert_eq!(ours(&more, harvested), Ok(()));
}

#[test]
fn the_form_is_of_the_data_alone() {
    let form = |text: &str| Schema::parse(text).unwrap().form();
    let written = r#"{"type": "record", "name": "R", "namespace": "n", "doc": "one", "fields": [
        {"name": "a", "type": {"type": "fixed", "name": "F", "size": 4}, "doc": "two"}, {"name": "b", "type": ["null", "F"], "default": null}]}"#;
    let again = r#"{"fields": [{"type": {"size": 4, "name": "n.F", "type": "fixed"}, "name": "a"}, {"name": "b", "type": [{"type": "null"}, "n.F"]}],
        "name": "n.R", "type": "record", "aliases": ["S"]}"#;
    assert_eq!(form(written), form(again));
    for (from, to) in [("\"size\": 4", "\"size\": 5"), ("\"name\": \"b\"", "\"name\": \"c\""), ("[\"null\", \"F\"]", "[\"F\", \"null\"]")] {
        assert_ne!(form(written), form(&written.replace(from, to)), "{to}");
    }
    assert_ne!(
        form(r#"{"type": "long", "logicalType": "timestamp-micros"}"#),
        form(r#"{"type": "long", "logicalType": "timestamp-millis"}"#)
    );
    let forms: std::collections::BTreeSet<String> = Topic::ALL.iter().map(|topic| form(wire::schema(*topic))).collect();
    assert_eq!(forms.len(), Topic::ALL.len());
}

#[test]
fn what_is_no_schema_is_said() {
    for (text, said) in [
        ("{", "EOF"),
        ("{\"type\": \"recrod\"}", "no type is named \"recrod\""),
        ("{\"type\": \"record\", \"name\": \"R\"}", "record without \"fields\""),
        ("{\"type\": \"record\", \"name\": \"R\", \"fields\": [{\"name\": \"a\"}]}", "field \"a\" without a type"),
        ("[\"Other\"]", "no type is named \"Other\""),
        ("7", "7 is no type"),
    ] {
        let error = Schema::parse(text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
