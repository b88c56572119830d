//! A JSON Schema as a check on our own tree, without turning the event into another one.
//!
//! Owns: the keywords that almost every schema uses; what uses others is handed to `jsonschema`, subtree by subtree.
//! Does not own: which keywords may stand in a catalogue (the catalogue's lint).
//! Invariants: a verdict is the same as `jsonschema`'s (a property test compares them); a message quotes the schema
//! alone; recursion is as deep as the schema.

mod foreign;
mod pattern;

use crate::admit::decode::kind;
use crate::admit::names::Names;
use forebay_schemas::json::Json;
use foreign::Foreign;
pub(super) use pattern::Patterns;
use regex::Regex;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

type Members<'a> = [(Cow<'a, str>, Json<'a>)];

/// One schema.
#[derive(Default)]
pub(super) struct Check {
    types: Option<Types>,
    one_of: Option<Vec<Value>>,
    text: Text,
    number: Number,
    array: Array,
    object: Object,
    foreign: Option<Foreign>,
    /// What it asks for, to be told.
    expected: String,
}

/// Which JSON types pass: a bit each.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Types(u8);

#[derive(Default)]
struct Text {
    min: Option<usize>,
    max: Option<usize>,
    pattern: Option<Arc<Regex>>,
}
#[derive(Default)]
struct Number {
    min: Option<f64>,
    max: Option<f64>,
    above: Option<f64>,
    below: Option<f64>,
}
#[derive(Default)]
struct Array {
    min: Option<usize>,
    max: Option<usize>,
    items: Option<Box<Check>>,
}
#[derive(Default)]
struct Object {
    required: Vec<String>,
    closed: bool,
    properties: Option<(Names, Vec<Check>)>,
}

/// What a property that came as text should become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wants {
    Number,
    Boolean,
}

/// Where and what: the path grows on the way out.
struct Violation {
    path: Vec<String>,
    what: String,
}

impl Types {
    const NULL: u8 = 1;
    const BOOLEAN: u8 = 2;
    const INTEGER: u8 = 4;
    const NUMBER: u8 = 8;
    const STRING: u8 = 16;
    const ARRAY: u8 = 32;
    const OBJECT: u8 = 64;

    fn read(value: &Value) -> Option<Types> {
        let bit = |word: &Value| {
            Some(match word.as_str()? {
                "null" => Types::NULL,
                "boolean" => Types::BOOLEAN,
                "integer" => Types::INTEGER,
                "number" => Types::NUMBER,
                "string" => Types::STRING,
                "array" => Types::ARRAY,
                "object" => Types::OBJECT,
                _ => return None,
            })
        };
        match value {
            Value::Array(words) => words.iter().try_fold(0, |bits, word| Some(bits | bit(word)?)).map(Types),
            word => bit(word).map(Types),
        }
    }
    fn allow(self, value: &Json<'_>) -> bool {
        let bit = match value {
            Json::Null => Types::NULL,
            Json::Bool(_) => Types::BOOLEAN,
            Json::String(_) => Types::STRING,
            Json::Array(_) => Types::ARRAY,
            Json::Object(_) => Types::OBJECT,
            Json::Number(text) => {
                let Some(float) = finite(text) else { return false };
                return self.0 & Types::NUMBER != 0 || self.0 & Types::INTEGER != 0 && (is_digits(text) || float.fract() == 0.0);
            }
        };
        self.0 & bit != 0
    }
}

/// A number beyond f64 is no number to JSON Schema.
fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|float| float.is_finite())
}
fn is_digits(text: &str) -> bool {
    text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit())
}

impl Check {
    /// `document` is an event type's whole schema.
    pub fn compile(document: &Value, patterns: &mut Patterns) -> Result<Check, String> {
        // References are followed by `jsonschema`, which needs the whole document for it.
        if has_reference(document) {
            return Ok(Check { foreign: Some(Foreign::compile(document)?), ..Check::default() });
        }
        Check::node(document, patterns)
    }

    fn node(schema: &Value, patterns: &mut Patterns) -> Result<Check, String> {
        match Check::own(schema, patterns)? {
            Some(check) => Ok(check),
            None => Ok(Check {
                types: schema.get("type").and_then(Types::read),
                foreign: Some(Foreign::compile(schema)?),
                expected: expected(schema),
                ..Check::default()
            }),
        }
    }

    /// `None` when the schema uses a keyword that is not ours.
    fn own(schema: &Value, patterns: &mut Patterns) -> Result<Option<Check>, String> {
        let Value::Object(keywords) = schema else { return Ok(None) };
        let mut check = Check { expected: expected(schema), ..Check::default() };
        for (keyword, value) in keywords {
            let understood = match keyword.as_str() {
                "type" => store(&mut check.types, Types::read(value)),
                "enum" => store(&mut check.one_of, scalars(value)),
                "const" => store(&mut check.one_of, scalars(&Value::Array(vec![value.clone()]))),
                "minLength" => store(&mut check.text.min, count(value)),
                "maxLength" => store(&mut check.text.max, count(value)),
                "pattern" => store(&mut check.text.pattern, value.as_str().and_then(|text| patterns.get(text))),
                "minimum" => store(&mut check.number.min, value.as_f64()),
                "maximum" => store(&mut check.number.max, value.as_f64()),
                "exclusiveMinimum" => store(&mut check.number.above, value.as_f64()),
                "exclusiveMaximum" => store(&mut check.number.below, value.as_f64()),
                "minItems" => store(&mut check.array.min, count(value)),
                "maxItems" => store(&mut check.array.max, count(value)),
                "items" => store(&mut check.array.items, Some(Box::new(Check::node(value, patterns)?))),
                "required" => value.as_array().is_some_and(|names| {
                    check.object.required = names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                    check.object.required.len() == names.len()
                }),
                "additionalProperties" => value.as_bool().is_some_and(|open| {
                    check.object.closed = !open;
                    true
                }),
                "properties" => {
                    let members = value.as_object();
                    let checks: Result<Vec<Check>, String> =
                        members.into_iter().flat_map(|all| all.values()).map(|schema| Check::node(schema, patterns)).collect();
                    let names = Names::new(members.into_iter().flat_map(|all| all.keys()).map(|name| name.as_str().into()).collect());
                    check.object.properties = Some((names, checks?));
                    members.is_some()
                }
                // Notes say nothing about validity.
                "$schema" | "$id" | "$comment" | "title" | "description" | "default" | "deprecated" | "examples" | "readOnly"
                | "writeOnly" | "contentEncoding" | "contentMediaType" => true,
                other => other.starts_with("x-"),
            };
            if !understood {
                return Ok(None);
            }
        }
        Ok(Some(check))
    }

    /// What a top-level property that came as text should become.
    pub fn wants(&self, name: &str) -> Option<Wants> {
        let types = self.property(name)?.types?;
        match types.0 & !Types::NULL {
            bits if bits != 0 && bits & !(Types::NUMBER | Types::INTEGER) == 0 => Some(Wants::Number),
            Types::BOOLEAN => Some(Wants::Boolean),
            _ => None,
        }
    }

    /// The verdict on an event's properties: a path and what was expected there.
    pub fn judge(&self, properties: &Members<'_>) -> Result<(), String> {
        self.object(properties)
            .and_then(|()| match &self.foreign {
                Some(foreign) => foreign.judge(&members_to_serde(properties)).map_err(Violation::here),
                None => Ok(()),
            })
            .map_err(|violation| {
                let path = violation.path.iter().rev().fold("properties".to_owned(), |path, step| path + step);
                violation.what.replacen("{path}", &path, 1)
            })
    }

    fn property(&self, name: &str) -> Option<&Check> {
        let (names, checks) = self.object.properties.as_ref()?;
        names.find(name).map(|number| &checks[number])
    }

    fn value(&self, value: &Json<'_>) -> Result<(), Violation> {
        if self.types.is_some_and(|types| !types.allow(value)) {
            return Err(self.violation(&format!(", got {}", kind(value))));
        }
        if self.one_of.as_ref().is_some_and(|values| !values.iter().any(|one| equal(one, value))) {
            return Err(self.violation(""));
        }
        match value {
            Json::String(text) if !self.text.allows(text) => return Err(self.violation("")),
            Json::Number(text) if !self.number.allows(text) => return Err(self.violation("")),
            Json::Array(items) => self.items(items)?,
            Json::Object(members) => self.object(members)?,
            Json::Null | Json::Bool(_) | Json::String(_) | Json::Number(_) => {}
        }
        match &self.foreign {
            Some(foreign) => foreign.judge(&value.to_serde()).map_err(Violation::here),
            None => Ok(()),
        }
    }

    fn items(&self, items: &[Json<'_>]) -> Result<(), Violation> {
        let array = &self.array;
        if array.min.is_some_and(|min| items.len() < min) || array.max.is_some_and(|max| items.len() > max) {
            return Err(self.violation(&format!(", got {} items", items.len())));
        }
        match &array.items {
            Some(check) => items.iter().try_for_each(|item| check.value(item)).map_err(|violation| violation.below("[]".to_owned())),
            None => Ok(()),
        }
    }

    fn object(&self, members: &Members<'_>) -> Result<(), Violation> {
        for name in &self.object.required {
            if !members.iter().any(|(other, _)| other == name) {
                return Err(Violation::here("{path}: missing".to_owned()).below(format!(".{name}")));
            }
        }
        if self.object.properties.is_none() && !self.object.closed {
            return Ok(());
        }
        for (name, value) in members {
            match self.property(name) {
                Some(check) => check.value(value).map_err(|violation| violation.below(format!(".{name}")))?,
                None if self.object.closed => return Err(Violation::here("{path}: expected no member beside the known ones".to_owned())),
                None => {}
            }
        }
        Ok(())
    }

    fn violation(&self, got: &str) -> Violation {
        Violation::here(format!("{{path}}: expected {}{got}", self.expected))
    }
}

impl Violation {
    /// `what` has `{path}` where the path is to stand.
    fn here(what: String) -> Violation {
        Violation { path: Vec::new(), what }
    }
    fn below(mut self, step: String) -> Violation {
        self.path.push(step);
        self
    }
}

impl Text {
    fn allows(&self, text: &str) -> bool {
        // Bytes bound characters from above, which saves the counting.
        let short = |max: usize| text.len() <= max || text.chars().count() <= max;
        self.max.is_none_or(short)
            && self.min.is_none_or(|min| text.chars().count() >= min)
            && self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
    }
}

impl Number {
    fn allows(&self, text: &str) -> bool {
        if self.min.or(self.max).or(self.above).or(self.below).is_none() {
            return true;
        }
        let Some(value) = finite(text) else { return false };
        self.min.is_none_or(|min| value >= min)
            && self.max.is_none_or(|max| value <= max)
            && self.above.is_none_or(|above| value > above)
            && self.below.is_none_or(|below| value < below)
    }
}

/// Puts what was read; false when nothing could be.
fn store<T>(slot: &mut Option<T>, value: Option<T>) -> bool {
    *slot = value;
    slot.is_some()
}

fn count(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|n| usize::try_from(n).ok())
}

/// Values that can be compared without looking inside.
fn scalars(value: &Value) -> Option<Vec<Value>> {
    value.as_array().filter(|values| values.iter().all(|value| !value.is_object() && !value.is_array())).cloned()
}

fn equal(one: &Value, value: &Json<'_>) -> bool {
    match (one, value) {
        (Value::Null, Json::Null) => true,
        (Value::Bool(a), Json::Bool(b)) => a == b,
        (Value::String(a), Json::String(b)) => a == b,
        (Value::Number(a), Json::Number(b)) => finite(b).is_some_and(|b| a.as_f64() == Some(b)),
        _ => false,
    }
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.contains_key("$ref") || members.values().any(has_reference),
        Value::Array(items) => items.iter().any(has_reference),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn members_to_serde(members: &Members<'_>) -> Value {
    Value::Object(members.iter().map(|(name, value)| (name.to_string(), value.to_serde())).collect())
}

/// What a schema asks for, in its own words: all that judges a scalar, not its notes and not what lies below.
fn expected(schema: &Value) -> String {
    const LEAVE: [&str; 12] = [
        "properties",
        "items",
        "required",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "$schema",
        "$id",
        "$comment",
        "additionalProperties",
    ];
    let words: Vec<String> = schema
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(keyword, _)| !LEAVE.contains(&keyword.as_str()) && !keyword.starts_with("x-"))
        .map(|(keyword, value)| format!("{keyword} {}", brief(value)))
        .collect();
    words.join(", ")
}

/// At most so many characters of a keyword's value are told.
const BRIEF: usize = 120;

fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(BRIEF) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
