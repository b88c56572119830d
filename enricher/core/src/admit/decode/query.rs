//! Query strings: an event that came as a pixel or a GET.
//!
//! Owns: percent-decoding and nesting by dots (`properties.price=3` is `{"properties":{"price":"3"}}`).
//! Does not own: types. All values are texts; `validate` reads numbers where a schema asks for them.

use super::{Members, unreadable_json};
use crate::pipeline::Reject;
use forebay_schemas::json::{self, Json};
use forebay_schemas::limit;
use forebay_schemas::reason::Reason;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Dots that are read as nesting; the rest of a longer name stays one name.
const NESTING: usize = 4;

/// The parameters as an object of texts; nested by dots when `nest`. Of repeated names the last stands.
pub(super) fn parse(payload: &[u8], nest: bool) -> Result<Json<'_>, Reject> {
    let text = std::str::from_utf8(payload).map_err(|e| not_utf8(e.valid_up_to()))?;
    let mut members: Members<'_> = Vec::new();
    for pair in text.trim_start_matches('?').split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        members.push((decode(key)?, Json::String(decode(value)?)));
    }
    if !nest {
        return Ok(Json::Object(members));
    }
    let mut root = Tree::default();
    for (key, value) in members {
        // A whole object in one parameter: its text is JSON, and its numbers are numbers.
        let value = match (&*key, value) {
            ("properties" | "context" | "traits", Json::String(text)) if text.trim_start().starts_with('{') => {
                json::parse(text.as_bytes(), limit::JSON_DEPTH).map_err(|e| unreadable_json(&format!("query, {key}"), e))?.into_owned()
            }
            (_, value) => value,
        };
        root.put(&key, value);
    }
    Ok(root.into_json())
}

/// One component: `%XX` and `+`.
pub(crate) fn decode(text: &str) -> Result<Cow<'_, str>, Reject> {
    if !text.bytes().any(|b| b == b'%' || b == b'+') {
        return Ok(Cow::Borrowed(text));
    }
    let bytes = crate::admit::percent::decode(text.as_bytes(), true);
    String::from_utf8(bytes).map(Cow::Owned).map_err(|e| not_utf8(e.utf8_error().valid_up_to()))
}

fn not_utf8(at: usize) -> Reject {
    Reject::new(Reason::Malformed, format!("query: not UTF-8 at byte {at}"))
}

#[derive(Default)]
struct Tree<'a> {
    value: Option<Json<'a>>,
    members: BTreeMap<String, Tree<'a>>,
}

impl<'a> Tree<'a> {
    fn put(&mut self, key: &str, value: Json<'a>) {
        let mut node = self;
        for name in key.splitn(NESTING, '.') {
            node = node.members.entry(name.to_owned()).or_default();
        }
        node.value = Some(value);
    }
    /// A name that has both a value and members below it keeps the members.
    fn into_json(self) -> Json<'a> {
        if self.members.is_empty() {
            return self.value.unwrap_or(Json::Object(Vec::new()));
        }
        let mut members: Members<'a> = match self.value {
            Some(Json::Object(members)) => members,
            _ => Vec::new(),
        };
        members.extend(self.members.into_iter().map(|(name, tree)| (Cow::Owned(name), tree.into_json())));
        Json::Object(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_an_object() {
        let text = |payload: &str, nest| parse(payload.as_bytes(), nest).map(|json| json.to_string()).map_err(|reject| reject.detail);
        for (payload, nest, expected) in [
            ("e=pv&url=https%3A%2F%2Fa%2F%C3%BC%3Fq%3Da%20b&page=a+b", false, r#"{"e":"pv","url":"https://a/ü?q=a b","page":"a b"}"#),
            ("?a.b=1&a=&&c", false, r#"{"a.b":"1","a":"","c":""}"#),
            ("event=x&properties.price=3&properties.a.b=1&properties=y", true, r#"{"event":"x","properties":{"a":{"b":"1"},"price":"3"}}"#),
            ("properties=%7B%22n%22%3A1%7D&properties.m=2", true, r#"{"properties":{"n":1,"m":"2"}}"#),
            ("100%=1%2", false, r#"{"100%":"1%2"}"#),
            ("", false, "{}"),
        ] {
            assert_eq!(text(payload, nest).as_deref(), Ok(expected), "{payload}");
        }
        assert_eq!(text("a=%ff", false), Err("query: not UTF-8 at byte 0".to_owned()));
        assert_eq!(text("properties=%7B", true), Err("query, properties: not JSON at byte 1".to_owned()));
    }
}
