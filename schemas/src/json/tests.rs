use super::*;
use proptest::prelude::*;

fn kind(text: &str) -> Option<JsonErrorKind> {
    parse(text.as_bytes(), 64).err().map(|e| e.kind)
}

#[test]
fn keeps_number_text_and_repeated_keys() {
    let value = parse(br#" {"a":1.10,"b":18446744073709551616,"a":1e400,"c":-0} "#, 64).expect("valid");
    assert_eq!(value.to_string(), r#"{"a":1.10,"b":18446744073709551616,"a":1e400,"c":-0}"#);
    assert_eq!(value.get("a"), Some(&Json::Number("1e400".into())));
}

#[test]
fn reads_escapes_and_pairs() {
    let value = parse(br#""\ud83d\ude42\u0000\/\n\u00fc""#, 64).expect("valid");
    assert_eq!(value.as_str(), Some("🙂\0/\nü"));
}

#[test]
fn byte_order_mark_is_skipped() {
    assert_eq!(parse(b"\xef\xbb\xbf{}", 64), Ok(Json::Object(vec![])));
}

#[test]
fn errors_have_their_kind() {
    for (text, expected) in [
        (r#""\ud83d""#, JsonErrorKind::LoneSurrogate),
        (r#""\ude42x""#, JsonErrorKind::LoneSurrogate),
        (r#"{"\ud800":1}"#, JsonErrorKind::LoneSurrogate),
        ("NaN", JsonErrorKind::Syntax),
        ("[1,]", JsonErrorKind::Syntax),
        ("01", JsonErrorKind::Syntax),
        ("{} x", JsonErrorKind::Syntax),
        ("\"a\u{1}\"", JsonErrorKind::Syntax),
        ("", JsonErrorKind::Syntax),
        ("{\"a\"", JsonErrorKind::Syntax),
        ("\"abc", JsonErrorKind::Syntax),
        ("\"\\u12", JsonErrorKind::Syntax),
        ("\"\\", JsonErrorKind::Syntax),
    ] {
        assert_eq!(kind(text), Some(expected), "{text:?}");
    }
    assert_eq!(parse(b"\"\xff\"", 64).map_err(|e| e.kind), Err(JsonErrorKind::Utf8));
    assert_eq!(kind(&"[".repeat(100_000)), Some(JsonErrorKind::TooDeep));
    assert_eq!(kind(&format!("{}{}", "[".repeat(64), "]".repeat(64))), None);
    assert_eq!(kind(&format!("{}{}", "[".repeat(65), "]".repeat(65))), Some(JsonErrorKind::TooDeep));
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<u64>().prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|m| serde_json::Value::from(serde_json::Map::from_iter(m))),
        ]
    })
}

proptest! {
    #[test]
    fn reads_and_writes_what_serde_json_writes(value in any_json()) {
        let text = value.to_string();
        let ours = parse(text.as_bytes(), 64).expect("serde_json writes JSON");
        prop_assert_eq!(ours.to_serde(), value.clone());
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&ours.to_string()).expect("we write JSON"), value);
    }

    #[test]
    fn accepts_only_what_serde_json_accepts(bytes in proptest::collection::vec(proptest::sample::select(br#"{}[]",:0123.eE+-tfn\u d8"#.to_vec()), 0..24)) {
        let theirs = serde_json::from_slice::<&serde_json::value::RawValue>(&bytes).is_ok();
        match parse(&bytes, 64) {
            Ok(_) => prop_assert!(theirs),
            Err(e) => prop_assert!(!theirs || e.kind == JsonErrorKind::LoneSurrogate),
        }
    }
}

proptest! {
    #[test]
    fn plain_text_ends_at_the_first_special_byte(bytes in proptest::collection::vec(proptest::sample::select(b"\x00\x1f \x21\x22\x23\x5b\x5c\x5d\x7f\x80\xa2\xdc\xffa".to_vec()), 0..40)) {
        let special = |b: &u8| *b == b'"' || *b == b'\\' || *b < 0x20;
        prop_assert_eq!(plain_length(&bytes), bytes.iter().position(special).unwrap_or(bytes.len()));
    }
}
