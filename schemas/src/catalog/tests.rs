#![allow(clippy::unwrap_used)]

use super::*;
use crate::json::{self, Json};

fn file(path: &str, text: &str) -> (String, String) {
    (path.to_string(), text.to_string())
}

/// `schemas/vectors/names.json`: tests in other languages can read it too.
#[derive(serde::Deserialize)]
struct Vectors {
    normalise: Vec<(String, String)>,
    lookup: Vec<(String, String, Option<String>)>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../vectors/names.json")).unwrap()
}

/// A schema with one property.
fn one(property: &str) -> String {
    format!(r#"{{"type": "object", "properties": {{"f": {property}}}}}"#)
}

/// The defects of one user file, `line pointer message` each.
fn defects(text: &str) -> Vec<String> {
    let errors = lint(&[file("conf/thing_done/1-0-0.json", text)]);
    errors.iter().map(|e| format!("{} {} {}", e.line.unwrap_or(0), e.pointer, e.message)).collect()
}

#[track_caller]
fn refused(property: &str, pointer: &str, part: &str) {
    let found = defects(&one(property));
    assert!(found.iter().any(|e| e.starts_with(&format!("1 {pointer} ")) && e.contains(part)), "{property}\n{found:?}");
}

#[track_caller]
fn accepted(property: &str) {
    assert_eq!(defects(&one(property)), Vec::<String>::new(), "{property}");
}

#[test]
fn built_in_catalogue_lints_clean() {
    let files: Vec<(String, String)> = BUILT_IN.iter().map(|(path, text)| file(path, text)).collect();
    let errors = Catalog::assemble(None, &files, Layer::BuiltIn).err().unwrap_or_default();
    assert!(errors.is_empty(), "{}", errors.iter().map(|e| format!("{e}\n")).collect::<String>());
}

#[test]
fn every_built_in_leaf_is_classified() {
    fn leaves(field: &Field, count: &mut usize) {
        match &field.shape {
            Shape::Scalar => {
                assert!(field.privacy.is_some());
                *count += 1;
            }
            Shape::Object(members) => members.values().for_each(|member| leaves(member, count)),
            Shape::Array(items) => leaves(items, count),
        }
    }
    let catalog = Catalog::builtin();
    let mut count = 0;
    for event_type in catalog.types() {
        event_type.versions().for_each(|schema| leaves(&schema.fields, &mut count));
    }
    leaves(&catalog.context().fields, &mut count);
    assert!(catalog.types().count() >= 30 && count > 300, "{count} leaves");
}

#[test]
fn names_of_each_dialect_find_their_type() {
    let catalog = Catalog::builtin();
    for (dialect, foreign, expected) in vectors().lookup {
        let dialect = Dialect::from_name(&dialect).unwrap();
        let found = catalog.lookup(dialect, &foreign).map(|t| t.name.as_str());
        assert_eq!(found, expected.as_deref(), "{dialect:?} {foreign}");
    }
    assert!(catalog.lookup(Dialect::Native, &"x".repeat(10_000)).is_none());
}

#[test]
fn names_are_normalised() {
    for (foreign, expected) in vectors().normalise {
        assert_eq!(normalise(&foreign), expected, "{foreign}");
    }
}

#[test]
fn field_names_of_a_dialect_become_ours() {
    let catalog = Catalog::builtin();
    let own = |name: &str, dialect, foreign| catalog.get(name).unwrap().newest().own_name(dialect, foreign).to_string();
    assert_eq!(own("structured_event", Dialect::Snowplow, "se_va"), "value");
    assert_eq!(own("user_identified", Dialect::Segment, "firstName"), "first_name");
    assert_eq!(own("element_interacted", Dialect::Posthog, "$el_text"), "text");
    assert_eq!(own("element_interacted", Dialect::Segment, "$el_text"), "$el_text");
    assert_eq!(own("order_completed", Dialect::Ga4, "transaction_id"), "order_id");
    assert_eq!(own("order_completed", Dialect::CloudEvents, "transaction_id"), "transaction_id");
}

#[test]
fn unclassified_and_badly_classified_fields_are_refused() {
    refused(r#"{"type": "string"}"#, "/properties/f", "not classified");
    refused(r#"{"type": "string", "x-privacy": "unclassified"}"#, "/properties/f/x-privacy", "still to classify");
    refused(r#"{"type": "string", "x-privacy": "tokenise"}"#, "/properties/f/x-privacy", "meant: tokenize?");
    refused(r#"{"type": "string", "x-privacy": 1}"#, "/properties/f/x-privacy", "one of keep, drop");
    refused(r#"{"type": "string", "x-privacy": "scan", "x-privcy": 1}"#, "/properties/f/x-privcy", "meant: x-privacy?");
    refused(r#"{"type": "string", "x-privacy": "scan", "minLenght": 1}"#, "/properties/f/minLenght", "meant: minLength?");
    refused(r#"{"type": "string", "x-privacy": "tokenize"}"#, "/properties/f", "x-token-domain");
    refused(r#"{"type": "string", "x-privacy": "scan", "x-token-domain": "user"}"#, "/properties/f/x-token-domain", "beside");
    refused(r#"{"x-privacy": "scan"}"#, "/properties/f", "\"type\"");
    refused(r#"{"type": "text", "x-privacy": "scan"}"#, "/properties/f/type", "one or several of");
    refused(r#"{"type": "number", "x-privacy": "truncate-ip"}"#, "/properties/f/x-privacy", "string");
    refused(r#"{"type": "number", "x-privacy": "keep", "x-sanitize": "trim"}"#, "/properties/f/x-sanitize", "strings");
    refused(r#"{"type": "string", "x-privacy": "scan", "x-sanitize": ["trimm"]}"#, "/properties/f/x-sanitize", "list of");
    refused(
        r#"{"type": "string", "x-privacy": "scan", "x-sanitize": {"enum": {"a": ["x"], "b": ["X "]}}}"#,
        "/properties/f/x-sanitize",
        "",
    );
    refused("true", "/properties/f", "must be an object");
    accepted(r#"{"x-privacy": "drop"}"#);
    accepted(r#"{"type": "string", "x-privacy": "tokenize", "x-token-domain": "user"}"#);
    accepted(r#"{"type": ["string", "null"], "x-privacy": "scan", "x-sanitize": ["trim", "lowercase", {"url": ["utm_source"]}]}"#);
}

#[test]
fn keep_stands_only_where_no_free_text_can() {
    for free in [
        r#"{"type": "string", "x-privacy": "keep"}"#,
        r#"{"type": ["number", "string"], "x-privacy": "keep"}"#,
        r#"{"type": "string", "maxLength": 64, "x-privacy": "keep"}"#,
        r#"{"type": "string", "format": "email", "x-privacy": "keep"}"#,
        r#"{"type": "string", "enum": [], "x-privacy": "keep"}"#,
        r#"{"type": "string", "x-privacy": "keep", "x-sanitize": {"enum": {"a": []}}}"#,
        r#"{"type": "string", "pattern": "^\\S{1,64}$", "x-privacy": "keep"}"#,
        r#"{"x-privacy": "keep"}"#,
    ] {
        refused(free, "/properties/f/x-privacy", "`keep` needs");
    }
    accepted(r#"{"type": ["integer", "number", "boolean", "null"], "x-privacy": "keep"}"#);
    accepted(r#"{"type": "string", "format": "date-time", "x-privacy": "keep"}"#);
    accepted(r#"{"enum": ["red", "green", null], "x-privacy": "keep"}"#);
    accepted(r#"{"type": "string", "pattern": "^[^\\s@]{1,64}$", "x-privacy": "keep"}"#);
}

#[test]
fn thing_id_patterns() {
    let good = [
        "^[^\\s@]{0,64}$",
        "^[A-Za-z0-9][\\w.:/-]{0,63}$",
        "^sku-\\d{1,12}(?:-[a-z]{2})?$",
        "^(a|bc){1,32}$",
        "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        "^[a-z_\\-\\]]{3}$",
    ];
    for text in good {
        assert_eq!(pattern::thing_id(text), Ok(()), "{text}");
    }
    let bad = [
        ("[a-z]{3}", "begin"),
        ("^[a-z]{3}", "end with $"),
        ("^a$|^b$", "end with $"),
        ("^a|b$", "anchored"),
        ("^[a-z]+$", "bound"),
        ("^[a-z]{3,}$", "most"),
        ("^[a-z]{65}$", "65"),
        ("^([a-z]{16}){5}$", "80"),
        ("^.{1,9}$", "anything"),
        ("^a b$", "white space"),
        ("^a@b$", "@"),
        ("^[ -~]{3}$", "admits"),
        ("^[^@]{3}$", "both"),
        ("^[^\\s]{3}$", "both"),
        ("^\\S{3}$", "\\S"),
        ("^\\x40$", "\\x"),
        ("^[\\u0020]{3}$", "\\u"),
        ("^[\\s]{3}$", "\\s"),
        ("^(?=a)b$", "group"),
        ("^(a$", "group"),
        ("^[a", "end"),
        ("^\\", "ends with"),
        ("^[\u{2003}-\u{2004}]$", "white space"),
    ];
    for (text, part) in bad {
        let found = pattern::thing_id(text).expect_err(text);
        assert!(found.contains(part), "{text}: {found}");
    }
    assert!(pattern::thing_id(&format!("^{}", "(".repeat(400))).is_err());
}

#[test]
fn objects_arrays_and_references() {
    refused(r#"{"type": "object"}"#, "/properties/f", "properties");
    refused(r#"{"type": "array"}"#, "/properties/f", "items");
    refused(r#"{"type": "object", "x-privacy": "keep", "properties": {}}"#, "/properties/f", "leaves");
    refused(r#"{"type": ["object", "string"], "properties": {}}"#, "/properties/f", "something else");
    refused(r#"{"type": "array", "items": {"type": "string"}}"#, "/properties/f/items", "not classified");
    refused(r#"{"type": "object", "properties": {"a/b": {"type": "string"}}}"#, "/properties/f/properties/a~1b", "not classified");
    refused(
        r#"{"type": "object", "additionalProperties": {"type": "number"}, "properties": {}}"#,
        "/properties/f/additionalProperties",
        "true or false",
    );
    refused(r#"{"type": "object", "patternProperties": {}, "properties": {}}"#, "/properties/f/patternProperties", "unknown");
    refused(
        r#"{"type": "object", "properties": {"a": {"x-privacy": "drop", "x-names": {"segment": "A"}}}}"#,
        "/properties/f/properties/a/x-names",
        "root",
    );
    refused(r##"{"$ref": "https://example.com/a.json"}"##, "/properties/f/$ref", "#/$defs");
    refused(r##"{"$ref": "#/properties/f"}"##, "/properties/f/$ref", "#/$defs");
    refused(r##"{"$ref": "#/$defs/none"}"##, "/properties/f/$ref", "no such");
    refused(r#"{"x-privacy": "drop", "anyOf": [{"$ref": "other.json"}]}"#, "/properties/f/anyOf/0/$ref", "#/$defs");
    refused(r#"{"type": "string", "x-privacy": "scan", "anyOf": [{"x-privacy": "keep"}]}"#, "/properties/f/anyOf/0/x-privacy", "not read");
    accepted(r#"{"type": "object", "x-privacy": "drop"}"#);
    accepted(r#"{"type": ["object", "string"], "x-privacy": "redact", "properties": {"a": {"type": "string"}}}"#);

    let cycle = r##"{"type": "object", "properties": {"f": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/a"}}}}}"##;
    assert_eq!(defects(cycle), ["1 /$defs/a/properties/b/$ref refers to itself: a field tree must end"]);
    let bomb: String = (0..40)
        .map(|i| {
            format!(r##","d{i}":{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/d{0}"}},"b":{{"$ref":"#/$defs/d{0}"}}}}}}"##, i + 1)
        })
        .collect();
    let bomb =
        format!(r##"{{"type":"object","properties":{{"f":{{"$ref":"#/$defs/d0"}}}},"$defs":{{"d40":{{"x-privacy":"drop"}}{bomb}}}}}"##);
    assert!(defects(&bomb).iter().any(|e| e.contains("more than 2000 fields")));
}

#[test]
fn defects_have_writtenline_and_pointer() {
    let text = "{\n  \"type\": \"object\",\n  \"properties\": {\n    \"a\": { \"type\": \"string\" },\n    \"b\": {\n      \"x-privacy\": \"kep\",\n      \"type\": \"string\"\n    }\n  }\n}\n";
    let shown: Vec<String> = lint(&[file("my/thing_done/1-0-0.json", text)]).iter().map(|e| e.to_string()).collect();
    assert_eq!(shown.len(), 2);
    assert!(shown[0].starts_with("my/thing_done/1-0-0.json:4: /properties/a: not classified"), "{}", shown[0]);
    assert!(shown[1].starts_with("my/thing_done/1-0-0.json:6: /properties/b/x-privacy: no such word, meant: keep?"), "{}", shown[1]);

    assert_eq!(defects("{\n  \"type\": \"object\",\n  oops\n}").len(), 1);
    assert!(defects("{\n  \"type\": \"object\",\n  oops\n}")[0].starts_with("3  no JSON"));
    assert!(defects("[]")[0].contains("JSON object"));
    assert!(
        defects(r#"{"type":"object","properties":{"a":{"x-privacy":"drop"},"a":{"x-privacy":"drop"}}}"#)[0]
            .contains("/properties/a stands twice")
    );
    assert!(defects(r#"{"properties": {}}"#)[0].contains("\"type\": \"object\""));
    assert!(defects(r#"{"type": "object"}"#)[0].contains("no \"properties\""));
    assert!(
        defects(r#"{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {}}"#)[0].contains("2020-12")
    );
    assert!(defects(r#"{"type": "object", "x-privacy": "keep", "properties": {}}"#)[0].contains("not on the root"));
    assert!(defects(r#"{"type": "object", "x-names": {"segmnt": "A"}, "properties": {}}"#)[0].contains("no such dialect"));
    assert!(defects(r#"{"type": "object", "x-names": {"segment": [1]}, "properties": {}}"#)[0].contains("list of names"));
    for path in [
        "thing_done/1-0.json",
        "thing_done/1-0-0.yaml",
        "Thing Done/1-0-0.json",
        "1-0-0.json",
        "thing_done/01-0-0.json",
        "thing_done/0-1-0.json",
    ] {
        assert_eq!(lint(&[file(path, &one(r#"{"x-privacy": "drop"}"#))]).len(), 1, "{path}");
    }
}

#[test]
fn one_name_means_one_type() {
    let named = |name: &str| format!(r#"{{"type": "object", "x-names": {{"segment": "{name}"}}, "properties": {{}}}}"#);
    let twice = [file("a_done/1-0-0.json", &named("It Happened")), file("b_done/1-0-0.json", &named("it-happened"))];
    let errors = lint(&twice);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].message.contains("`it_happened` is claimed by `b_done` and by `a_done`"), "{}", errors[0]);
    assert_eq!((errors[0].file.as_str(), errors[0].pointer.as_str()), ("b_done/1-0-0.json", "/x-names/segment"));
    let other = [file("a_done/1-0-0.json", &named("b_done")), file("b_done/1-0-0.json", &named("B"))];
    assert_eq!(lint(&other).len(), 1);
    assert_eq!(lint(&[file("a_done/1-0-0.json", &named("A")), file("x/a_done/1-0-0.json", &named("A"))]).len(), 1, "one version twice");

    // A user's names win over built-in ones, whether they stand in x-names or are the type's own.
    let mine = [file("purchase/1-0-0.json", &named("Order Completed")), file("signed_in/1-0-0.json", &one(r#"{"x-privacy": "drop"}"#))];
    let catalog = Catalog::builtin().overlay(&mine).unwrap();
    let name = |dialect, foreign| catalog.lookup(dialect, foreign).map(|t| t.name.clone());
    assert_eq!(name(Dialect::Segment, "Order Completed").as_deref(), Some("purchase"));
    assert_eq!(name(Dialect::Posthog, "Order Completed").as_deref(), Some("order_completed"));
    assert_eq!(name(Dialect::Segment, "Signed In").as_deref(), Some("signed_in"));

    let fields = r#"{"type": "object", "properties": {
        "a": {"x-privacy": "drop", "x-names": {"segment": "A"}}, "b": {"x-privacy": "drop", "x-names": {"segment": ["A", "a"]}}}}"#;
    let found = defects(fields);
    assert!(
        found.iter().any(|e| e.contains("claimed by two fields")) && found.iter().any(|e| e.contains("another field's name")),
        "{found:?}"
    );
}

#[test]
fn a_users_version_replaces_or_is_added() {
    let text = |title: &str| format!(r#"{{"title": "{title}", "type": "object", "properties": {{"f": {{"x-privacy": "drop"}}}}}}"#);
    let builtin = Catalog::builtin();
    let before = builtin.fingerprint();
    assert_eq!(before, Catalog::builtin().fingerprint());
    let files = [
        file("dir/page_viewed/1-0-0.json", &text("mine")),
        file("dir/page_viewed/1-10-0.json", &text("newest")),
        file("dir/page_viewed/1-9-3.json", &text("older")),
        file("dir/thing_done/2-0-0.json", &text("new")),
    ];
    let catalog = builtin.overlay(&files).unwrap();
    let page = catalog.lookup(Dialect::Segment, "page").unwrap();
    assert_eq!(page.name, "page_viewed", "names come from the newest version that has some");
    assert_eq!(page.versions().map(|s| s.version.as_str()).collect::<Vec<_>>(), ["1-0-0", "1-9-3", "1-10-0"]);
    assert_eq!(page.newest().document["title"], "newest");
    assert_eq!(page.version("1-0-0").unwrap().document["title"], "mine");
    assert!(page.version("1.0.0").is_none() && page.version("9-9-9").is_none());
    assert_eq!(catalog.lookup(Dialect::Segment, "Thing Done").unwrap().newest().file, "dir/thing_done/2-0-0.json");
    assert_ne!(catalog.fingerprint(), before);
    assert!(Catalog::builtin().overlay(&[file("page_viewed/1-0-0.json", "{")]).is_err());

    let context = catalog.overlay(&[file("context/1-1-0.json", &text("context"))]).unwrap();
    assert_eq!(context.context().document["title"], "context");
    assert!(context.get("context").is_none());
}

#[test]
fn classifications_that_other_parts_rely_on() {
    let catalog = Catalog::builtin();
    let email = catalog.get("user_identified").unwrap().newest().fields.member("email").cloned().unwrap();
    assert_eq!(email.privacy, Some(Privacy::Tokenize));
    assert_eq!(email.token_domain.as_deref(), Some("email"));
    assert_eq!(email.sanitize, [Sanitize::Trim, Sanitize::Lowercase]);
    let context = &catalog.context().fields;
    for (name, domain) in [("user_id", "user"), ("anonymous_id", "anonymous"), ("session_id", "session")] {
        let field = context.member(name).unwrap();
        assert_eq!((field.privacy, field.token_domain.as_deref()), (Some(Privacy::Tokenize), Some(domain)));
    }
    let device = context.member("device").and_then(|device| device.member("type")).unwrap();
    let Some(Sanitize::Enum(aliases)) = device.sanitize.last() else { panic!("device.type has aliases") };
    assert_eq!(aliases.get("smartphone").map(String::as_str), Some("mobile"));
    let products = catalog.get("order_completed").unwrap().newest().fields.member("products").cloned().unwrap();
    let Shape::Array(product) = products.shape else { panic!("products is a list") };
    assert_eq!(product.member("price").unwrap().privacy, Some(Privacy::Keep));
}

#[test]
fn a_draft_names_all_fields_and_passes_only_when_classified() {
    let samples = [
        r#"{"price": 1, "tags": ["a", null], "who": {"mail": "pat@example.com", "age": 3}, "gone": null, "mix": 1, "a\"b": true}"#,
        r#"{"price": 1.5, "tags": [], "who": {"mail": null}, "mix": {"x": 1}, "empty": []}"#,
        r#"[1]"#,
    ];
    let samples: Vec<Json<'_>> = samples.iter().map(|text| json::parse(text.as_bytes(), 9).unwrap()).collect();
    let names = [(Dialect::Segment, "Thing \"Done\""), (Dialect::Snowplow, "com.acme/thing")];
    let names: ForeignNames = names.map(|(dialect, name)| (dialect, [name.to_owned()].into())).into();
    let draft = infer("Thing Done", &names, &samples);
    assert!(!draft.contains("pat@example.com"), "a draft quotes no value");
    let document: serde_json::Value = serde_json::from_str(&draft).unwrap();
    let of = |name: &str| document["properties"][name].clone();
    assert_eq!(of("price")["type"], "number");
    assert_eq!(of("tags")["items"]["type"], serde_json::json!(["null", "string"]));
    assert_eq!(of("who")["properties"]["mail"]["type"], serde_json::json!(["null", "string"]));
    assert_eq!(of("gone")["type"], serde_json::json!(["null", "string"]));
    assert_eq!(of("mix")["type"], serde_json::json!(["integer", "object"]));
    assert_eq!(of("a\"b")["x-privacy"], "unclassified");

    let errors = lint(&[file("thing_done/1-0-0.json", &draft)]);
    let unclassified = errors.iter().filter(|e| e.message.contains("still to classify")).count();
    assert_eq!(unclassified, draft.matches("\"unclassified\"").count());
    assert_eq!(unclassified, 8);
    let classified = draft.replace("\"unclassified\"", "\"drop\"");
    let written = file("thing_done/1-0-0.json", &classified);
    assert_eq!(lint(std::slice::from_ref(&written)), []);
    let catalog = Catalog::builtin().overlay(&[written]).unwrap();
    assert_eq!(catalog.lookup(Dialect::Snowplow, "com.acme/thing").unwrap().name, "thing_done");
    assert!(catalog.lookup(Dialect::Native, "com.acme/thing").is_none());
    assert_eq!(lint(&[file("none/1-0-0.json", &infer("None", &names, &[]))]), [], "nothing seen: nothing to classify");
}

#[test]
fn the_page_about_the_catalogue_lists_every_type() {
    let page = include_str!("../../../docs/catalogue.md");
    let catalog = Catalog::builtin();
    for event_type in catalog.types() {
        assert!(page.contains(&format!("| `{}` |", event_type.name)), "docs/catalogue.md lacks {}", event_type.name);
    }
    assert!(page.contains(&format!("{} types are built in", catalog.types().count())));
}
