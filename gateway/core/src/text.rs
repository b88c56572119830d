//! One event, or what stands around it, seen as names and values without a full parse.
//!
//! Owns: reading top-level members of JSON or pairs of a query alike, and the lenient reading of ids.
//! Does not own: which names matter (`dialect`). Invariant: nothing here fails on broken input; it just finds less.

use crate::query;
use forebay_schemas::json::{self, Json};
use forebay_schemas::scan;
use std::borrow::Cow;
use std::ops::ControlFlow;

/// The bytes of one event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text<'a> {
    Json(&'a [u8]),
    Query(&'a [u8]),
}

/// A member's value: JSON text, or the raw value of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    Json(&'a [u8]),
    Query(&'a [u8]),
}

/// A value read as an id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Id<'a> {
    /// Null or empty text.
    Absent,
    Text(Cow<'a, str>),
    /// There is something, but no text: its bytes.
    Undecodable(Cow<'a, [u8]>),
}

impl<'a> Text<'a> {
    /// Visits names, decoded as a parser would, and values as they are written.
    pub fn visit(self, mut visit: impl FnMut(&[u8], Value<'a>)) {
        match self {
            Text::Json(bytes) => {
                // A broken tail ends the visit; what came before it was seen.
                let _ = scan::each_member(bytes, 0, |member| {
                    visit(&unescape(member.key), Value::Json(&bytes[member.value]));
                    ControlFlow::Continue(())
                });
            }
            Text::Query(text) => query::pairs(text).for_each(|(key, value)| visit(&query::bytes(key), Value::Query(value))),
        }
    }

    /// The last value of this name.
    pub fn get(self, name: &str) -> Option<Value<'a>> {
        let mut found = None;
        self.visit(|key, value| {
            if key == name.as_bytes() {
                found = Some(value);
            }
        });
        found
    }
}

/// A key with its JSON escapes resolved; as it stands when they are broken.
pub fn unescape(key: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', key).is_none() {
        return Cow::Borrowed(key);
    }
    match json::parse(&[b"\"", key, b"\""].concat(), 1) {
        Ok(Json::String(text)) => Cow::Owned(text.into_owned().into_bytes()),
        _ => Cow::Borrowed(key),
    }
}

impl<'a> Value<'a> {
    /// Read as an id: a string's text, a number's text, a pair's decoded value.
    pub fn id(self) -> Id<'a> {
        match self {
            Value::Json(b"null") => Id::Absent,
            Value::Json(bytes @ [b'"' | b'-' | b'0'..=b'9', ..]) => match json::parse(bytes, 1) {
                Ok(Json::String(text) | Json::Number(text)) => Id::of(text),
                _ => Id::Undecodable(Cow::Borrowed(unquoted(bytes))),
            },
            Value::Json(bytes) => Id::Undecodable(Cow::Borrowed(bytes)),
            Value::Query(raw) => match query::bytes(raw) {
                Cow::Borrowed(bytes) => {
                    std::str::from_utf8(bytes).map_or(Id::Undecodable(Cow::Borrowed(bytes)), |t| Id::of(Cow::Borrowed(t)))
                }
                Cow::Owned(bytes) => {
                    String::from_utf8(bytes).map_or_else(|e| Id::Undecodable(Cow::Owned(e.into_bytes())), |text| Id::of(Cow::Owned(text)))
                }
            },
        }
    }

    /// The text of a string, number or pair that is not empty.
    pub fn text(self) -> Option<Cow<'a, str>> {
        match self.id() {
            Id::Text(text) => Some(text),
            Id::Absent | Id::Undecodable(_) => None,
        }
    }

    /// The object that this value is, as something to look into.
    pub fn object(self) -> Option<Text<'a>> {
        match self {
            Value::Json(bytes) if bytes.first() == Some(&b'{') => Some(Text::Json(bytes)),
            Value::Json(_) | Value::Query(_) => None,
        }
    }
}

/// What stands between the quotes.
fn unquoted(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(bytes)
}

impl<'a> Id<'a> {
    fn of(text: Cow<'a, str>) -> Id<'a> {
        if text.is_empty() { Id::Absent } else { Id::Text(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> String {
        match Value::Json(text.as_bytes()).id() {
            Id::Absent => "absent".to_owned(),
            Id::Text(text) => format!("text {text}"),
            Id::Undecodable(bytes) => format!("bytes {}", String::from_utf8_lossy(&bytes)),
        }
    }

    #[test]
    fn ids_are_read_leniently() {
        for (json, expected) in [
            ("\"a\"", "text a"),
            ("\"\\u00fc\\n\"", "text ü\n"),
            ("12.50", "text 12.50"),
            ("\"\"", "absent"),
            ("null", "absent"),
            ("\"\\ud800\"", "bytes \\ud800"),
            ("{\"a\":1}", "bytes {\"a\":1}"),
            ("true", "bytes true"),
            ("NaN", "bytes NaN"),
        ] {
            assert_eq!(id(json), expected, "{json}");
        }
        assert_eq!(Value::Query(b"%ff").id(), Id::Undecodable(Cow::Owned(vec![0xff])));
    }

    #[test]
    fn names_are_found_however_they_are_written() {
        let event = Text::Json(br#"{"message\u0049d":"x","a":{"messageId":"no"}}"#);
        assert_eq!(event.get("messageId"), Some(Value::Json(b"\"x\"")));
        assert_eq!(Text::Query(b"%65id=1&eid=2").get("eid"), Some(Value::Query(b"2")));
        assert_eq!(Text::Json(b"{\"a\":1,\"b\":").get("a"), Some(Value::Json(b"1")));
        assert_eq!(Text::Json(b"[]").get("a"), None);
    }
}
