//! Shapes of bodies.

use super::*;
use crate::dialect::{native, segment};
use proptest::prelude::*;

fn texts<'a>(body: &'a str, spec: &Spec) -> Result<Vec<&'a str>, SplitError> {
    events(body.as_bytes(), spec, 4).map(|found| found.into_iter().map(|r| &body[r]).collect())
}

#[test]
fn every_shape_splits() {
    for (body, expected) in [
        (r#" {"a":1} "#, vec![r#"{"a":1}"#]),
        ("\u{feff}{\"a\":1}", vec![r#"{"a":1}"#]),
        (r#"[{"a":1}, 7 ,"x"]"#, vec![r#"{"a":1}"#, "7", "\"x\""]),
        (r#"{"batch":[{"a":NaN},{"a":"\ud800"}],"writeKey":"k"}"#, vec![r#"{"a":NaN}"#, r#"{"a":"\ud800"}"#]),
        (r#"{"sentAt":"t","batch":[]}"#, vec![]),
        (r#"{"batch":[1],"batch":[2,3]}"#, vec!["2", "3"]),
        (r#"{"b\u0061tch":[1]}"#, vec!["1"]),
        (r#"{"x":{"batch":[1]}}"#, vec![r#"{"x":{"batch":[1]}}"#]),
    ] {
        assert_eq!(texts(body, &segment::SPEC), Ok(expected), "{body}");
    }
}

#[test]
fn what_does_not_split_is_unreadable() {
    for body in [
        "",
        "  ",
        "x",
        "7",
        "\"x\"",
        "{",
        "[",
        "[1",
        "{\"batch\":5}",
        "{\"batch\":[{]}",
        "{}{}",
        "{\"a\":1}\n{\"a\":2}",
        "[1] x",
        "{\"a\"}",
    ] {
        assert_eq!(texts(body, &segment::SPEC), Err(SplitError::Unreadable), "{body}");
    }
}

#[test]
fn one_event_a_line_where_the_dialect_has_it() {
    for (body, expected) in [
        ("{\"a\":1}\n{\"a\":2}\n", Ok(vec!["{\"a\":1}", "{\"a\":2}"])),
        ("{\"a\":1}\r\n\r\n {\"a\":}  \r\nx", Ok(vec!["{\"a\":1}", "{\"a\":}", "x"])),
        ("\n{\"a\":1}", Ok(vec!["{\"a\":1}"])),
        ("{\"a\":\n1}", Ok(vec!["{\"a\":\n1}"])),
        ("{\"a\":\n1", Err(SplitError::Unreadable)),
        ("", Err(SplitError::Unreadable)),
        ("\u{feff} \r\n\n", Err(SplitError::Unreadable)),
        ("{\"a\":1} {\"a\":2}", Err(SplitError::Unreadable)),
        ("{}\n{}\n{}\n{}\n{}", Err(SplitError::TooMany)),
    ] {
        assert_eq!(texts(body, &native::SPEC), expected, "{body}");
    }
}

#[test]
fn more_than_the_limit_is_told() {
    assert_eq!(texts("[1,2,3,4]", &segment::SPEC).map(|e| e.len()), Ok(4));
    assert_eq!(texts("[1,2,3,4,5]", &segment::SPEC), Err(SplitError::TooMany));
    assert_eq!(texts("{\"batch\":[1,2,3,4,5]}", &segment::SPEC), Err(SplitError::TooMany));
}

#[test]
fn nesting_of_any_depth_is_one_event() {
    let deep = format!("[{}{},{{}}]", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(texts(&deep, &segment::SPEC).map(|e| e.len()), Ok(2));
    assert_eq!(texts(&"[".repeat(100_000), &segment::SPEC), Err(SplitError::Unreadable));
}

#[test]
fn the_rest_is_visited_without_the_list() {
    for (body, expected) in [
        (r#"{"a":1,"batch":[{"x":[]} , {"y":"]"} ],"b":"t"}"#, "a=1 b=\"t\" "),
        (r#"{"batch":[],"b":"t"}"#, ""),
        (r#"{"a":1}"#, ""),
        (r#"[{"a":1}]"#, ""),
    ] {
        let found = events(body.as_bytes(), &segment::SPEC, 10).expect("splits");
        let mut seen = String::new();
        beside(body.as_bytes(), &found, &mut |key, value| {
            seen += &format!("{}={} ", String::from_utf8_lossy(key), String::from_utf8_lossy(value));
        });
        assert_eq!(seen, expected, "{body}");
    }
}

proptest! {
    #[test]
    fn agrees_with_a_full_parser(bytes in proptest::collection::vec(proptest::sample::select(br#"{}[]",:01 atch"#.to_vec()), 0..40)) {
        if let Ok(serde_json::Value::Array(items)) = serde_json::from_slice::<serde_json::Value>(&bytes) {
            let found = events(&bytes, &segment::SPEC, 100).expect("an array splits");
            prop_assert_eq!(found.into_iter().map(|r| serde_json::from_slice::<serde_json::Value>(&bytes[r]).expect("an item")).collect::<Vec<_>>(), items);
        }
    }
}
