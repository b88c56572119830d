//! CloudEvents 1.0 over HTTP, in its three modes: one event (structured), an array (batched), and attributes in `ce-*` headers
//! with the data as body (binary).
//!
//! Owns: which of the modes it is, and the JSON event that a binary request means. The bytes tell an event from an array,
//! whatever the content type says.
//! Invariant: the JSON event is a function of the `ce-*` headers, `Content-Type` and the body, all of which are landed, so
//! that it is the same when it is made again after a crash.

use super::{Envelope, Own, Spec};
use crate::headers::Head;
use crate::split;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use forebay_schemas::json::{self, JsonErrorKind, write_string};
use forebay_schemas::limit;
use forebay_schemas::scan::{skip_space, skip_value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An id is its producer's: unique within its `source`. Two producers of one write key that give the same id meet as one id
/// with two facts, a collision and no duplicate, for `source` is part of the fingerprint.
/// Tracers stamp their context anew with each attempt.
pub const SPEC: Spec = Spec {
    list: None,
    lines: false,
    id: Some("id"),
    other_id: None,
    times: &["time"],
    nested_times: &[],
    sent_at: &[],
    transport: &["traceparent", "tracestate"],
    keys: &[],
    app_id: None,
    nested: None,
    envelope: Envelope::Of(&[]),
};

/// `partitionkey` is the specification's extension, `anonymousid` and `userid` are ours. Who gives a partition key wants it
/// used.
pub const OWN: Own = Own { query_keys: &[], devices: &["partitionkey", "anonymousid"], users: &["userid"] };

/// Before the name of an attribute, in a header.
pub(crate) const PREFIX: &str = "ce-";
/// Of all modes but binary. A structured request may repeat its attributes in headers.
const STRUCTURED: &[u8] = b"application/cloudevents";
/// Names that a header cannot give: they come from `Content-Type` and the body.
const OF_THE_BODY: [&str; 3] = ["data", "data_base64", "datacontenttype"];

/// Whether the attributes stand in headers and the body is data.
pub(crate) fn is_binary(head: Head<'_>) -> bool {
    let (mut attributes, mut structured) = (false, false);
    head.visit(|name, value| match name {
        "ce-specversion" => attributes = true,
        "content-type" => structured = starts_with(value.trim_ascii_start(), STRUCTURED),
        _ => {}
    });
    attributes && !structured
}

/// The JSON event of a binary request: the attributes in the order of their names, then `datacontenttype`, then the data. A
/// body that is no JSON, though its type says so, stays as it is: `is_json` tells it from an event.
pub(crate) fn of_binary(head: Head<'_>, body: &Bytes) -> Bytes {
    let mut attributes: BTreeMap<&str, &[u8]> = BTreeMap::new();
    let mut content_type = None;
    head.visit(|name, value| match name.strip_prefix(PREFIX) {
        // Of repeated names the last counts, as in JSON.
        Some(attribute) if !attribute.is_empty() && !OF_THE_BODY.contains(&attribute) => {
            attributes.insert(attribute, value);
        }
        Some(_) => {}
        None if name == "content-type" => content_type = Some(value),
        None => {}
    });
    let json = match content_type {
        Some(label) => says_json(label),
        None => is_json(body),
    };
    if json && !body.is_empty() && !is_json(body) {
        return body.clone();
    }
    let mut out = String::with_capacity(body.len() + 256);
    for (name, value) in attributes {
        member(name, &attribute(value), &mut out);
    }
    if let Some(label) = content_type {
        member("datacontenttype", &String::from_utf8_lossy(label), &mut out);
    }
    match std::str::from_utf8(body) {
        Ok("") => {}
        Ok(text) if json => {
            out.push_str(if out.is_empty() { "{\"data\":" } else { ",\"data\":" });
            out.push_str(text[split::begin(body)..].trim_ascii_end());
        }
        Ok(text) => member("data", text, &mut out),
        Err(_) => member("data_base64", &STANDARD.encode(body), &mut out),
    }
    if out.is_empty() {
        out.push('{');
    }
    out.push('}');
    Bytes::from(out)
}

fn member(name: &str, value: &str, out: &mut String) {
    out.push(if out.is_empty() { '{' } else { ',' });
    write_string(name, out);
    out.push(':');
    write_string(value, out);
}

/// Whether it is one JSON value. What is nested too deep or has half of a surrogate pair is one, too: the enricher has a
/// reason for each. Of what is larger than any event the structure alone is looked at.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    let start = split::begin(bytes);
    if !skip_value(bytes, start).is_ok_and(|end| skip_space(bytes, end) == bytes.len()) {
        return false;
    }
    if bytes.len() > limit::EVENT_BYTES {
        return matches!(bytes[start], b'{' | b'[' | b'"') && std::str::from_utf8(bytes).is_ok();
    }
    match json::parse(bytes, limit::JSON_DEPTH) {
        Ok(_) => true,
        Err(error) => match error.kind {
            JsonErrorKind::TooDeep | JsonErrorKind::LoneSurrogate => std::str::from_utf8(bytes).is_ok(),
            JsonErrorKind::Syntax | JsonErrorKind::Utf8 => false,
        },
    }
}

/// `application/json`, `text/json`, `application/vnd.acme+json; charset=utf-8`.
fn says_json(label: &[u8]) -> bool {
    let end = memchr::memchr(b';', label).unwrap_or(label.len());
    let media_type = label[..end].trim_ascii();
    let Some(slash) = memchr::memchr(b'/', media_type) else { return false };
    let subtype = &media_type[slash + 1..];
    subtype.eq_ignore_ascii_case(b"json") || ends_with(subtype, b"+json")
}

fn starts_with(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}
fn ends_with(text: &[u8], word: &[u8]) -> bool {
    text.len().checked_sub(word.len()).is_some_and(|at| text[at..].eq_ignore_ascii_case(word))
}

/// An attribute's text from its header: quotes off as older senders put them, then one round of percent-decoding, in which
/// `+` is itself. Bytes that are no UTF-8 become U+FFFD.
fn attribute(value: &[u8]) -> String {
    let value = value.trim_ascii();
    let value = match value {
        [b'"', inner @ .., b'"'] => Cow::Owned(unquoted(inner)),
        _ => Cow::Borrowed(value),
    };
    let mut out = Vec::with_capacity(value.len());
    let mut rest = &value[..];
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let digit = |at: usize| after.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                rest = &after[2..];
            }
            _ => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Without the backslashes before what they protect.
fn unquoted(inner: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner.iter();
    while let Some(&byte) = rest.next() {
        out.push(if byte == b'\\' { rest.next().copied().unwrap_or(byte) } else { byte });
    }
    out
}

#[cfg(test)]
mod tests;
