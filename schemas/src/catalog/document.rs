//! One schema file: path and text → type name, version, names and the classified field tree.
//!
//! Owns: the file's frame (path, JSON, root keywords, `x-names`). Does not own: fields (`field`), look-up (`names`).
//! Invariant: what `read` returns without adding an error is fit for use; all defects of a file are told at once.

use super::defects::Defects;
use super::field::Walk;
use super::{CatalogError, Layer, Names, Schema, Version, names, normalise, place};
use crate::dialect::Dialect;
use crate::{json, limit};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Read {
    pub name: String,
    pub version: Version,
    pub schema: Schema,
}

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Reads and lints one file. Its defects are added to `errors`; `None` when no schema could be made of it.
pub(super) fn read(file: &str, text: &str, layer: Layer, errors: &mut Vec<CatalogError>) -> Option<Read> {
    let (name, version_text, version) = match path(file) {
        Ok(parts) => parts,
        Err(message) => {
            errors.push(place::whole_file(file, message));
            return None;
        }
    };
    let document = match parse(text) {
        Ok(document) => document,
        Err((line, message)) => {
            errors.push(CatalogError { line, ..place::whole_file(file, message) });
            return None;
        }
    };
    let mut found = Defects::default();
    repeated_keys(text, &mut found);
    if document.get("$schema").is_some_and(|draft| draft != DRAFT) {
        found.add("/$schema", format!("only {DRAFT} is read"));
    }
    let names = document.get("x-names").map(|value| Names { of: type_names(value, &mut found), layer, file: file.to_string() });
    let mut walk = Walk::new(&document, &mut found);
    let fields = walk.root();
    let own_names = walk.own_names();
    errors.extend(found.in_file(file, text));
    let schema = Schema {
        version: version_text.to_string(),
        document: Value::Object(document),
        fields,
        file: file.to_string(),
        names,
        own_names,
        digest: Sha256::digest(text.as_bytes()).into(),
        layer,
    };
    Some(Read { name: name.to_string(), version, schema })
}

/// `…/<type>/<major>-<minor>-<patch>.json`
fn path(file: &str) -> Result<(&str, &str, Version), String> {
    let mut parts = file.rsplit(['/', '\\']);
    let version_text = parts.next().and_then(|last| last.strip_suffix(".json")).unwrap_or_default();
    let version = Version::parse(version_text).ok_or("the file name must be <major>-<minor>-<patch>.json, such as 1-0-0.json")?;
    let name = parts.next().unwrap_or_default();
    if !names::is_type_name(name) {
        return Err(format!(
            "the file must stand in a folder with the event type's name: a-z, 0-9 and single _, beginning with a letter, at most 64; `{name}` is none"
        ));
    }
    Ok((name, version_text, version))
}

fn parse(text: &str) -> Result<Map<String, Value>, (Option<usize>, String)> {
    if text.len() > limit::SCHEMA_BYTES {
        return Err((None, format!("larger than {} bytes", limit::SCHEMA_BYTES)));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(document)) => Ok(document),
        Ok(_) => Err((Some(1), "a schema is a JSON object".to_string())),
        Err(error) => Err((Some(error.line()), format!("no JSON: {error}"))),
    }
}

fn repeated_keys(text: &str, found: &mut Defects) {
    let mut pointers = Vec::new();
    if let Ok(value) = json::parse(text.as_bytes(), limit::JSON_DEPTH) {
        place::repeated(&value, "", &mut pointers);
    }
    pointers.iter().for_each(|pointer| found.add(pointer, "stands twice in its object"));
}

fn type_names(value: &Value, found: &mut Defects) -> BTreeMap<Dialect, BTreeSet<String>> {
    dialect_names(value, "/x-names", found)
        .into_iter()
        .map(|(dialect, names)| (dialect, names.into_iter().map(|name| normalise(&name)).collect()))
        .collect()
}

/// `{"segment": "Product Viewed", "snowplow": ["…", "…"]}`, of a type or of a field.
pub(super) fn dialect_names(value: &Value, pointer: &str, found: &mut Defects) -> BTreeMap<Dialect, Vec<String>> {
    let mut all = BTreeMap::new();
    let Value::Object(members) = value else {
        found.add(pointer, "must be an object: dialect → name or list of names");
        return all;
    };
    for (key, value) in members {
        let pointer = place::child(pointer, key);
        let Some(dialect) = Dialect::from_name(key) else {
            let known: Vec<&str> = Dialect::ALL.into_iter().map(Dialect::name).collect();
            found.add(&pointer, format!("no such dialect; known are {}", known.join(", ")));
            continue;
        };
        let names: Option<Vec<String>> = match value {
            Value::String(name) => Some(vec![name.clone()]),
            Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_string)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
        };
        match names {
            Some(names) if names.iter().all(|name| !name.trim().is_empty() && name.len() <= limit::FOREIGN_NAME_BYTES) => {
                all.insert(dialect, names);
            }
            _ => found.add(&pointer, format!("must be a name or a list of names, of 1 to {} bytes", limit::FOREIGN_NAME_BYTES)),
        }
    }
    all
}
