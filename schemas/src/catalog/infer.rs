//! A draft of a schema from samples: the shape is guessed, the classification is left to a person.
//!
//! Owns: merging samples, writing the draft. Does not own: where samples come from, where the draft goes.
//! Invariant: no value of a sample is written, only names and types; the draft does not pass `lint` as it is.

use super::field::UNCLASSIFIED;
use crate::dialect::Dialect;
use crate::json::{self, Json};
use crate::limit;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What senders call a type.
pub type ForeignNames = BTreeMap<Dialect, BTreeSet<String>>;

/// A JSON Schema for the `properties` of `event_type`, every field `"x-privacy": "unclassified"`, which `lint` refuses.
pub fn infer(event_type: &str, names: &ForeignNames, samples: &[Json<'_>]) -> String {
    let mut root = Seen::default();
    let mut room = limit::SCHEMA_FIELDS;
    for sample in samples.iter().filter(|sample| sample.as_object().is_some()) {
        root.add(sample, &mut room);
    }
    root.kinds.insert("object");
    let mut out = String::from("{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"title\": ");
    json::write_string(event_type, &mut out);
    out.push_str(",\n  \"x-names\": ");
    write_names(names, &mut out);
    out.push_str(",\n  \"type\": \"object\",\n  \"required\": [],\n  \"properties\": ");
    root.write_members(2, &mut out);
    out.push_str("\n}\n");
    out
}

fn write_names(names: &ForeignNames, out: &mut String) {
    out.push('{');
    for (i, (dialect, names)) in names.iter().enumerate() {
        let _ = write!(out, "{}\"{}\": [", if i == 0 { "" } else { ", " }, dialect.name());
        for (i, name) in names.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { ", " });
            json::write_string(name, out);
        }
        out.push(']');
    }
    out.push('}');
}

/// What all samples showed at one place.
#[derive(Default)]
struct Seen {
    kinds: BTreeSet<&'static str>,
    members: BTreeMap<String, Seen>,
    items: Option<Box<Seen>>,
}

impl Seen {
    fn add(&mut self, value: &Json<'_>, room: &mut usize) {
        self.kinds.insert(match value {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) if value.as_i64().is_some() => "integer",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        });
        match value {
            Json::Object(members) => {
                for (key, value) in members {
                    if !self.members.contains_key(key.as_ref()) {
                        if *room == 0 {
                            continue;
                        }
                        *room -= 1;
                    }
                    self.members.entry(key.to_string()).or_default().add(value, room);
                }
            }
            Json::Array(items) => {
                let seen = self.items.get_or_insert_default();
                items.iter().for_each(|item| seen.add(item, room));
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }

    fn write(&self, indent: usize, out: &mut String) {
        let mut kinds = self.kinds.clone();
        if kinds.contains("number") {
            kinds.remove("integer");
        }
        if kinds.iter().all(|kind| *kind == "null") {
            kinds.insert("string");
        }
        let quoted: Vec<String> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
        let types = if quoted.len() == 1 { quoted.concat() } else { format!("[{}]", quoted.join(", ")) };
        let some: BTreeSet<&str> = kinds.into_iter().filter(|kind| *kind != "null").collect();
        if some.len() == 1 && some.contains("object") && !self.members.is_empty() {
            let _ = write!(out, "{{ \"type\": {types}, \"properties\": ");
            self.write_members(indent, out);
            out.push_str(" }");
            return;
        }
        if let (1, true, Some(items)) = (some.len(), some.contains("array"), self.items.as_ref().filter(|items| !items.kinds.is_empty())) {
            let _ = write!(out, "{{ \"type\": {types}, \"items\": ");
            items.write(indent, out);
            out.push_str(" }");
            return;
        }
        let _ = write!(out, "{{ \"type\": {types}, \"x-privacy\": \"{UNCLASSIFIED}\" }}");
    }

    fn write_members(&self, indent: usize, out: &mut String) {
        out.push('{');
        for (i, (key, seen)) in self.members.iter().enumerate() {
            out.push_str(if i == 0 { "\n" } else { ",\n" });
            out.extend(std::iter::repeat_n(' ', indent + 2));
            json::write_string(key, out);
            out.push_str(": ");
            seen.write(indent + 2, out);
        }
        if !self.members.is_empty() {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
        }
        out.push('}');
    }
}
