//! The classified field tree of one schema, and the lint that no unclassified or wrongly kept field gets past.
//!
//! Owns: `x-privacy`, `x-sanitize`, `x-token-domain`, `x-names` of fields.
//! Does not own: JSON Schema's own keywords (`keywords`), thing-id patterns (`pattern`), validation of events (the
//! enricher compiles the same document).
//! Invariant: a leaf is classified, or an error says that it is not. Nothing recurses deeper than
//! `limit::JSON_DEPTH` or visits more than `limit::SCHEMA_FIELDS` fields, whatever `$ref` multiplies.

use super::defects::Defects;
use super::{Field, Privacy, Sanitize, Shape, document, keywords, pattern, place};
use crate::dialect::Dialect;
use crate::limit;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

type Schema = Map<String, Value>;

const TYPES: &[&str] = &["string", "number", "integer", "boolean", "null", "object", "array"];
/// What a draft writes for a field that nobody has looked at.
pub(super) const UNCLASSIFIED: &str = "unclassified";

pub(super) struct Walk<'a> {
    document: &'a Schema,
    found: &'a mut Defects,
    own_names: BTreeMap<Dialect, HashMap<String, String>>,
    fields: usize,
    /// The `$defs` that stand open, against cycles.
    open: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(document: &'a Schema, found: &'a mut Defects) -> Walk<'a> {
        Walk { document, found, own_names: BTreeMap::new(), fields: 0, open: Vec::new() }
    }

    /// Foreign property name → own, by dialect.
    pub(super) fn own_names(self) -> BTreeMap<Dialect, HashMap<String, String>> {
        self.own_names
    }

    /// The whole document: an object with properties.
    pub(super) fn root(&mut self) -> Field {
        let document = self.document;
        keywords::check(document, "", true, self.found);
        if document.get("type") != Some(&Value::from("object")) {
            self.error("", "the root must say \"type\": \"object\": it describes the event's properties");
        }
        for note in keywords::NOTES.iter().filter(|note| **note != "x-names" && document.contains_key(**note)) {
            self.error(&place::child("", note), "stands on fields, not on the root");
        }
        for (name, def) in document.get("$defs").and_then(Value::as_object).into_iter().flatten() {
            if let Some(def) = def.as_object() {
                keywords::check(def, &format!("/$defs{}", place::child("", name)), false, self.found);
            }
        }
        let members = match document.get("properties") {
            Some(properties) => self.members(properties, "/properties", 1),
            None => {
                self.error("", "no \"properties\": nothing of such an event could pass");
                BTreeMap::new()
            }
        };
        for (name, property) in document.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if let Some(names) = property.get("x-names") {
                self.field_names(name, names, &members);
            }
        }
        let shape = Shape::Object(members);
        Field { privacy: None, sanitize: Vec::new(), token_domain: None, shape }
    }

    fn error(&mut self, pointer: &str, message: impl Into<String>) {
        self.found.add(pointer, message);
    }

    fn members(&mut self, properties: &'a Value, pointer: &str, depth: usize) -> BTreeMap<String, Field> {
        let Value::Object(properties) = properties else {
            self.error(pointer, "must be an object: name → schema");
            return BTreeMap::new();
        };
        let mut members = BTreeMap::new();
        for (name, schema) in properties {
            let pointer = place::child(pointer, name);
            if depth > 1 && schema.get("x-names").is_some() {
                self.error(&place::child(&pointer, "x-names"), "stands only on the fields of the root's properties");
            }
            members.insert(name.clone(), self.field(schema, &pointer, depth));
        }
        members
    }

    fn field(&mut self, schema: &'a Value, pointer: &str, depth: usize) -> Field {
        let unknown = Field { privacy: None, sanitize: Vec::new(), token_domain: None, shape: Shape::Scalar };
        self.fields += 1;
        if depth > limit::JSON_DEPTH || self.fields > limit::SCHEMA_FIELDS {
            self.error("", format!("deeper than {} or more than {} fields", limit::JSON_DEPTH, limit::SCHEMA_FIELDS));
            return unknown;
        }
        let Value::Object(schema) = schema else {
            self.error(pointer, "must be an object with \"type\" and \"x-privacy\"");
            return unknown;
        };
        keywords::check(schema, pointer, false, self.found);
        if let Some(reference) = schema.get("$ref") {
            return self.reference(schema, reference, pointer, depth).unwrap_or(unknown);
        }
        let types = self.types(schema, pointer);
        let privacy = self.privacy(schema, pointer);
        let token_domain = self.token_domain(schema, privacy, pointer);
        let sanitize = self.sanitize(schema, &types, pointer);
        let shape = self.shape(schema, &types, privacy, pointer, depth);
        Field { privacy, sanitize, token_domain, shape }
    }

    fn reference(&mut self, schema: &'a Schema, reference: &'a Value, pointer: &str, depth: usize) -> Option<Field> {
        let at = place::child(pointer, "$ref");
        if schema.keys().any(|key| keywords::NOTES.contains(&key.as_str()) && key != "x-names") {
            self.error(&at, "beside \"$ref\" no classification is read: write it into the definition");
        }
        let name = keywords::local_name(reference)?;
        let Some(target) = self.document.get("$defs").and_then(|defs| defs.get(name)) else {
            self.error(&at, "no such definition in #/$defs");
            return None;
        };
        if self.open.contains(&name) {
            self.error(&at, "refers to itself: a field tree must end");
            return None;
        }
        self.open.push(name);
        let field = self.field(target, &format!("/$defs{}", place::child("", name)), depth + 1);
        self.open.pop();
        Some(field)
    }

    fn shape(&mut self, schema: &'a Schema, types: &BTreeSet<&str>, privacy: Option<Privacy>, pointer: &str, depth: usize) -> Shape {
        let object = types.contains("object") || schema.contains_key("properties");
        let array = types.contains("array") || schema.contains_key("items");
        if !object && !array {
            self.leaf(schema, types, privacy, pointer);
            return Shape::Scalar;
        }
        if matches!(privacy, Some(Privacy::Drop | Privacy::Redact)) {
            for key in ["properties", "items"] {
                if let Some(inner) = schema.get(key) {
                    keywords::judging(inner, &place::child(pointer, key), self.found);
                }
            }
            return Shape::Scalar;
        }
        if let Some(privacy) = privacy {
            let word = privacy.name();
            self.error(pointer, format!("`{word}` stands on leaves; a whole object or array can be dropped or redacted"));
        }
        if types.iter().filter(|word| **word != "null").count() > 1 || object && array {
            self.error(pointer, "an object or array cannot also be something else; split the field, or drop it");
        }
        if array {
            let Some(items) = schema.get("items") else {
                self.error(pointer, "an array needs \"items\" with a classification, or \"x-privacy\": \"drop\"");
                return Shape::Scalar;
            };
            return Shape::Array(Box::new(self.field(items, &place::child(pointer, "items"), depth + 1)));
        }
        let Some(properties) = schema.get("properties") else {
            self.error(pointer, "an object needs \"properties\": a member that is not named never passes; or \"x-privacy\": \"drop\"");
            return Shape::Scalar;
        };
        Shape::Object(self.members(properties, &place::child(pointer, "properties"), depth + 1))
    }

    fn leaf(&mut self, schema: &Schema, types: &BTreeSet<&str>, privacy: Option<Privacy>, pointer: &str) {
        let unread = matches!(privacy, Some(Privacy::Drop | Privacy::Redact));
        if types.is_empty() && !is_closed(schema) && !unread {
            self.error(pointer, "a field needs a \"type\", unless it is dropped or redacted whatever it is");
        }
        match privacy {
            None if !schema.contains_key("x-privacy") => {
                self.error(pointer, format!("not classified: add \"x-privacy\", one of {}", words()));
            }
            Some(Privacy::Keep) => {
                if let Err(why) = keepable(schema, types) {
                    let at = place::child(pointer, "x-privacy");
                    self.error(&at, format!("`keep` needs a number, a boolean, a date, an enum or a thing id by pattern: {why}"));
                }
            }
            Some(Privacy::TruncateIp) if !types.contains("string") => {
                self.error(&place::child(pointer, "x-privacy"), "`truncate-ip` needs a string");
            }
            None | Some(Privacy::Drop | Privacy::Redact | Privacy::Tokenize | Privacy::Hash | Privacy::TruncateIp | Privacy::Scan) => {}
        }
    }

    fn types(&mut self, schema: &'a Schema, pointer: &str) -> BTreeSet<&'a str> {
        let at = place::child(pointer, "type");
        let given: Vec<&Value> = match schema.get("type") {
            None => return BTreeSet::new(),
            Some(Value::Array(items)) => items.iter().collect(),
            Some(one) => vec![one],
        };
        let known: BTreeSet<&str> = given.iter().filter_map(|word| word.as_str()).filter(|word| TYPES.contains(word)).collect();
        if known.len() != given.len() || known.is_empty() {
            self.error(&at, format!("must be one or several of {}", TYPES.join(", ")));
        }
        known
    }

    fn privacy(&mut self, schema: &Schema, pointer: &str) -> Option<Privacy> {
        let given = schema.get("x-privacy")?;
        let known = given.as_str().and_then(Privacy::from_name);
        if known.is_none() {
            let message = match given.as_str() {
                Some(UNCLASSIFIED) => format!("still to classify: choose one of {}", words()),
                Some(word) => format!("no such word{}; known are {}", keywords::meant(word, &Privacy::ALL.map(Privacy::name)), words()),
                None => format!("must be one of {}", words()),
            };
            self.error(&place::child(pointer, "x-privacy"), message);
        }
        known
    }

    fn token_domain(&mut self, schema: &Schema, privacy: Option<Privacy>, pointer: &str) -> Option<String> {
        let at = place::child(pointer, "x-token-domain");
        let Some(given) = schema.get("x-token-domain") else {
            if privacy == Some(Privacy::Tokenize) {
                self.error(pointer, "`tokenize` needs an \"x-token-domain\": equal values join within one domain");
            }
            return None;
        };
        if !matches!(privacy, Some(Privacy::Tokenize | Privacy::Hash)) {
            self.error(&at, "stands only beside `tokenize` and `hash`");
        }
        let domain = given.as_str().filter(|word| super::names::is_type_name(word));
        if domain.is_none() {
            self.error(&at, "must be a word of a-z, 0-9 and _, such as user or email");
        }
        domain.map(str::to_string)
    }

    fn sanitize(&mut self, schema: &Schema, types: &BTreeSet<&str>, pointer: &str) -> Vec<Sanitize> {
        let Some(given) = schema.get("x-sanitize") else { return Vec::new() };
        let at = place::child(pointer, "x-sanitize");
        if !types.contains("string") {
            self.error(&at, "only strings are sanitized");
        }
        let single = [given];
        let steps: Vec<&Value> = match given {
            Value::Array(items) => items.iter().collect(),
            _ => single.to_vec(),
        };
        let read: Vec<Option<Sanitize>> = steps.into_iter().map(sanitizer).collect();
        if read.iter().any(Option::is_none) {
            let known = r#""trim", "lowercase", "collapse-space", "url", {"url": ["utm_source"]}, {"enum": {"desktop": ["pc"]}}"#;
            self.error(&at, format!("must be a list of {known}"));
        }
        read.into_iter().flatten().collect()
    }

    fn field_names(&mut self, name: &str, names: &Value, members: &BTreeMap<String, Field>) {
        let at = format!("/properties{}/x-names", place::child("", name));
        for (dialect, foreign) in document::dialect_names(names, &at, self.found) {
            for foreign in foreign {
                if members.contains_key(&foreign) && foreign != name {
                    self.error(&at, format!("`{foreign}` is another field's name"));
                    continue;
                }
                let before = self.own_names.entry(dialect).or_default().insert(foreign.clone(), name.to_string());
                if before.is_some_and(|before| before != name) {
                    self.error(&at, format!("`{foreign}` is claimed by two fields"));
                }
            }
        }
    }
}

fn sanitizer(step: &Value) -> Option<Sanitize> {
    match step {
        Value::String(word) => match word.as_str() {
            "trim" => Some(Sanitize::Trim),
            "lowercase" => Some(Sanitize::Lowercase),
            "collapse-space" => Some(Sanitize::CollapseSpace),
            "url" => Some(Sanitize::Url(BTreeSet::new())),
            _ => None,
        },
        Value::Object(members) if members.len() == 1 => {
            let (word, value) = members.iter().next()?;
            match word.as_str() {
                "url" => value.as_array()?.iter().map(|name| name.as_str().map(str::to_string)).collect::<Option<_>>().map(Sanitize::Url),
                "enum" => aliases(value.as_object()?),
                _ => None,
            }
        }
        _ => None,
    }
}

/// `{"desktop": ["pc", "computer"]}`; no alias may mean two values.
fn aliases(values: &Schema) -> Option<Sanitize> {
    let mut map = BTreeMap::new();
    for (value, aliases) in values {
        let aliases = aliases.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<&str>>>()?;
        for alias in aliases.into_iter().chain([value.as_str()]) {
            let before = map.insert(alias.trim().to_lowercase(), value.clone());
            if before.is_some_and(|before| before != *value) {
                return None;
            }
        }
    }
    Some(Sanitize::Enum(map))
}

/// Only listed scalars are valid.
fn is_closed(schema: &Schema) -> bool {
    let scalar = |value: &Value| !value.is_object() && !value.is_array();
    schema.get("enum").and_then(Value::as_array).is_some_and(|values| !values.is_empty() && values.iter().all(scalar))
        || schema.get("const").is_some_and(scalar)
}

/// Whether no text that a person typed can stand in a valid value (law E2).
fn keepable(schema: &Schema, types: &BTreeSet<&str>) -> Result<(), String> {
    if is_closed(schema) || (!types.is_empty() && !types.contains("string")) {
        return Ok(());
    }
    if matches!(schema.get("format").and_then(Value::as_str), Some("date" | "date-time")) {
        return Ok(());
    }
    match schema.get("pattern").and_then(Value::as_str) {
        Some(text) => pattern::thing_id(text).map_err(|why| format!("its pattern {why}")),
        None => Err("this is free text; `scan` fits most".to_string()),
    }
}

fn words() -> String {
    Privacy::ALL.map(Privacy::name).join(", ")
}
