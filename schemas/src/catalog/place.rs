//! Where in a schema file something stands: JSON pointer → line. Also: keys that stand twice in one object.
//!
//! Owns: pointers and lines. Does not own: what is wrong there (`document`, `field`).

use super::CatalogError;
use crate::json::Json;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn whole_file(file: &str, message: String) -> CatalogError {
    CatalogError { file: file.to_string(), line: None, pointer: String::new(), message }
}

/// `pointer` and one more token, escaped by RFC 6901.
pub(super) fn child(pointer: &str, token: &str) -> String {
    format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"))
}

/// The line, from 1, on which the value at `pointer` begins; of a missing value its nearest parent's.
pub(super) fn line(text: &str, pointer: &str) -> usize {
    let mut at = 0;
    let mut here = text;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let Some(value) = member(here, &token) else { break };
        // Both are slices of `text`, so the distance between them is the offset.
        at += value.as_ptr() as usize - here.as_ptr() as usize;
        here = value;
    }
    line_at(text, at)
}

pub(super) fn line_at(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count()
}

fn member<'a>(text: &'a str, token: &str) -> Option<&'a str> {
    if let Ok(members) = serde_json::from_str::<BTreeMap<String, &'a RawValue>>(text) {
        return members.get(token).map(|raw| raw.get());
    }
    let items: Vec<&'a RawValue> = serde_json::from_str(text).ok()?;
    items.get(token.parse::<usize>().ok()?).map(|raw| raw.get())
}

/// Pointers of keys that stand twice in one object: the first would silently not count.
pub(super) fn repeated(value: &Json<'_>, pointer: &str, found: &mut Vec<String>) {
    match value {
        Json::Object(members) => {
            let mut keys = BTreeSet::new();
            for (key, value) in members {
                let pointer = child(pointer, key);
                repeated(value, &pointer, found);
                if !keys.insert(key) {
                    found.push(pointer);
                }
            }
        }
        Json::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                repeated(item, &format!("{pointer}/{i}"), found);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}
