//! Write keys and app ids, by which the shell finds a request's source (design §5.7).
//!
//! Owns: every place in which SDKs put them. Does not own: which of them is right.

use crate::dialect::{Own, Spec, own};
use crate::query;
use crate::split;
use crate::text::{Text, Value, unescape};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use forebay_schemas::dialect::Dialect;
use http::HeaderMap;
use std::ops::Range;

/// Query names that hold a write key.
const QUERY: [&str; 6] = ["write_key", "writeKey", "writekey", "api_key", "apiKey", "token"];
/// A key longer than this is none.
const KEY_BYTES: usize = 1_024;

/// First found first; without repeats.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keys {
    pub write_keys: Vec<String>,
    /// Snowplow's `aid`.
    pub app_ids: Vec<String>,
}

impl Keys {
    /// Jitsu sends `key:secret`, and `key:***` in the body: both spellings are candidates.
    fn write_key(&mut self, text: &str) {
        add(&mut self.write_keys, text);
        if let Some((key, _)) = text.split_once(':') {
            add(&mut self.write_keys, key);
        }
    }
}

fn add(list: &mut Vec<String>, text: &str) {
    let text = text.trim();
    if !text.is_empty() && text.len() <= KEY_BYTES && !list.iter().any(|known| known == text) {
        list.push(text.to_owned());
    }
}

/// Keys in `Authorization` (Basic, Bearer), `X-Write-Key` and the query.
pub fn from_head(headers: &HeaderMap, target: &str) -> Keys {
    let mut keys = Keys::default();
    for value in headers.get_all(http::header::AUTHORIZATION).iter().filter_map(|value| value.to_str().ok()) {
        let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            if let Some(text) = STANDARD.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
                keys.write_key(text.strip_suffix(':').unwrap_or(&text));
            }
        } else if scheme.eq_ignore_ascii_case("bearer") {
            keys.write_key(rest);
        }
    }
    for value in headers.get_all("x-write-key").iter().filter_map(|value| value.to_str().ok()) {
        keys.write_key(value);
    }
    let (_, query) = query::split(target);
    for name in QUERY {
        if let Some(text) = query::param(query, name) {
            keys.write_key(&text);
        }
    }
    if let Some(text) = query::param(query, "aid") {
        add(&mut keys.app_ids, &text);
    }
    keys
}

/// All keys that the head of a request of this dialect names.
pub fn of_head(headers: &HeaderMap, target: &str, dialect: Dialect) -> Keys {
    let mut keys = from_head(headers, target);
    from_query(&mut keys, target, own(dialect));
    keys
}

/// Keys under names of the query that only this dialect has.
fn from_query(keys: &mut Keys, target: &str, own: &Own) {
    let (_, query) = query::split(target);
    for text in own.query_keys.iter().filter_map(|name| query::param(query, name)) {
        keys.write_key(&text);
    }
}

/// Keys beside the list, and in the first event.
pub(crate) fn from_body(keys: &mut Keys, decoded: &[u8], events: &[Range<usize>], spec: &Spec) {
    split::beside(decoded, events, &mut |key, value| keys.look(&unescape(key), Value::Json(value), spec));
    let Some(first) = events.first() else { return };
    let mut nested = None;
    Text::Json(&decoded[first.clone()]).visit(|key, value| {
        keys.look(key, value, spec);
        if spec.nested.is_some_and(|name| key == name.as_bytes()) {
            nested = Some(value);
        }
    });
    if let Some(inner) = nested.and_then(Value::object) {
        inner.visit(|key, value| keys.look(key, value, spec));
    }
}

impl Keys {
    fn look(&mut self, key: &[u8], value: Value<'_>, spec: &Spec) {
        if spec.keys.iter().any(|name| key == name.as_bytes())
            && let Some(text) = value.text()
        {
            self.write_key(&text);
        }
        if spec.app_id.is_some_and(|name| key == name.as_bytes())
            && let Some(text) = value.text()
        {
            add(&mut self.app_ids, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::open;
    use crate::dialect::{posthog, segment, snowplow};
    use crate::limits::Limits;
    use crate::testing::{events_route, request};

    fn head(name: &'static str, value: &str, target: &str) -> Vec<String> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a header value"));
        from_head(&headers, target).write_keys
    }

    #[test]
    fn keys_in_the_head() {
        for (name, value, target, expected) in [
            ("authorization", "Basic d2tfZGVtbzo=", "/v1/t", vec!["wk_demo"]),
            ("authorization", "basic d2tfZGVtbw==", "/v1/t", vec!["wk_demo"]),
            ("authorization", "Bearer wk", "/v1/events?write_key=q", vec!["wk", "q"]),
            ("authorization", "Basic %%%", "/v1/t", vec![]),
            ("authorization", "Digest x", "/v1/t", vec![]),
            ("x-write-key", "wk:secret", "/api/s/page", vec!["wk:secret", "wk"]),
            ("x-other", "x", "/beacon/v1/batch?writeKey=a%20b", vec!["a b"]),
        ] {
            assert_eq!(head(name, value, target), expected, "{name}: {value} {target}");
        }
        assert_eq!(from_head(&HeaderMap::new(), "/i?e=pv&aid=shop").app_ids, ["shop"]);
    }

    #[test]
    fn a_secret_in_the_query_is_a_key_of_its_own_dialect_alone() {
        for (line, expected) in [
            ("POST /mp/collect?measurement_id=G-1&api_secret=a%20b", vec!["a b"]),
            ("POST /mp/collect?api_secret=s&write_key=w", vec!["w", "s"]),
            ("POST /mp/collect?api_secret=", vec![]),
            ("POST /v1/events?api_secret=s", vec![]),
            ("POST /v1/cloudevents?api_secret=s&write_key=w", vec!["w"]),
        ] {
            let sent = request(line, br#"{"api_secret":"no"}"#);
            let opened = open(&events_route(&sent), &sent, &Limits::default()).expect("opens");
            assert_eq!(opened.keys().write_keys, expected, "{line}");
        }
    }

    #[test]
    fn keys_in_the_body() {
        for (spec, body, expected) in [
            (&segment::SPEC, r#"{"batch":[{"a":1}],"writeKey":"k"}"#, "k|"),
            (&segment::SPEC, r#"{"type":"page","writeKey":"wk:***"}"#, "wk:***,wk|"),
            (&posthog::SPEC, r#"{"api_key":"k","batch":[{"properties":{"token":"k"}}]}"#, "k|"),
            (&posthog::SPEC, r#"[{"event":"x","properties":{"token":"t"}}]"#, "t|"),
            (&snowplow::SPEC, r#"{"schema":"iglu:x","data":[{"e":"pv","aid":"shop"},{"aid":"other"}]}"#, "|shop"),
            (&segment::SPEC, r#"{"batch":[]}"#, "|"),
        ] {
            let events = split::events(body.as_bytes(), spec, 10).expect("splits");
            let mut keys = Keys::default();
            from_body(&mut keys, body.as_bytes(), &events, spec);
            assert_eq!(format!("{}|{}", keys.write_keys.join(","), keys.app_ids.join(",")), expected, "{body}");
        }
    }
}
