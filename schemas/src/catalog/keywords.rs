//! Which JSON Schema keywords may stand where. A mistyped one would be a mere remark to JSON Schema.
//!
//! Owns: the closed list of keywords, references, schemas that judge without classifying. Does not own: what the notes
//! on a field say (`field`).

use super::defects::Defects;
use super::place;
use serde_json::{Map, Value};

/// Keywords that hold no schema.
const PLAIN: &[&str] = &[
    "$comment",
    "$schema",
    "$id",
    "title",
    "description",
    "default",
    "deprecated",
    "examples",
    "readOnly",
    "writeOnly",
    "type",
    "enum",
    "const",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "required",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "contentEncoding",
    "contentMediaType",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
];
/// Keywords whose schemas describe fields.
const FIELDS: &[&str] = &["properties", "items", "$ref", "$defs"];
/// Keywords whose schemas only judge: what they say of a field classifies nothing.
const JUDGING: &[&str] = &["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "contains", "propertyNames", "dependentSchemas"];
/// Ours.
pub(super) const NOTES: &[&str] = &["x-privacy", "x-sanitize", "x-token-domain", "x-names"];

/// Refuses keywords that are unknown or stand where they are not read.
pub(super) fn check(schema: &Map<String, Value>, pointer: &str, root: bool, found: &mut Defects) {
    for (key, value) in schema {
        let at = place::child(pointer, key);
        match key.as_str() {
            "$defs" | "$schema" | "$id" if !root => found.add(&at, "stands only at the root"),
            "$ref" if root => found.add(&at, "the root cannot be a reference"),
            "$ref" if local_name(value).is_none() => found.add(&at, "only #/$defs/<name> of the same file can be referred to"),
            "additionalProperties" | "unevaluatedProperties" | "unevaluatedItems" if !value.is_boolean() => {
                found.add(&at, "must be true or false: what has no name of its own never passes");
            }
            word if PLAIN.contains(&word) || FIELDS.contains(&word) || NOTES.contains(&word) => {}
            word if JUDGING.contains(&word) => judging(value, &at, found),
            word => {
                let known: Vec<&str> = [PLAIN, FIELDS, JUDGING, NOTES].concat();
                found.add(&at, format!("unknown keyword{}", meant(word, &known)));
            }
        }
    }
}

/// Schemas that only judge hold no classification, and refer to this file alone.
pub(super) fn judging(value: &Value, pointer: &str, found: &mut Defects) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let at = place::child(pointer, key);
                if key.starts_with("x-") {
                    found.add(&at, "is not read here: classify the field where \"properties\" or \"items\" names it");
                }
                if key == "$ref" && local_name(value).is_none() {
                    found.add(&at, "only #/$defs/<name> of the same file can be referred to");
                }
                judging(value, &at, found);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                judging(item, &format!("{pointer}/{i}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `#/$defs/<name>`
pub(super) fn local_name(reference: &Value) -> Option<&str> {
    reference.as_str()?.strip_prefix("#/$defs/").filter(|name| !name.is_empty() && !name.contains(['/', '~', '%']))
}

/// ", meant: required?" for a word one or two slips away from a known one.
pub(super) fn meant(word: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|other| (slips(word, other), *other)).min();
    nearest.filter(|(slips, _)| *slips <= 2).map_or_else(String::new, |(_, other)| format!(", meant: {other}?"))
}

/// Letters to insert, remove or change.
fn slips(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
