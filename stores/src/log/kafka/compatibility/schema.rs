//! An Avro schema as far as reading depends on it: types, names, aliases, which fields have defaults.
//!
//! Owns: parsing (names resolved, logical types kept as words), the form in which two texts of one schema are equal.
//! Does not own: the rules of resolution (`compatibility`). Types that refer to themselves are one node of the arena.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A type in its schema's arena.
pub(super) type Id = usize;

#[derive(Debug)]
pub struct Schema {
    types: Vec<Type>,
    root: Id,
}

#[derive(Debug)]
pub(super) struct Type {
    pub kind: Kind,
    logical: Option<String>,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// `null`, `boolean`, `int`, `long`, `float`, `double`, `bytes`, `string`.
    Primitive(&'static str),
    Array(Id),
    Map(Id),
    Union(Vec<Id>),
    Fixed(Names, u64),
    Enum(Names, Vec<String>, Option<String>),
    Record(Names, Vec<Field>),
    /// A name whose definition is being read.
    Pending,
}

/// Full names.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub name: String,
    pub aliases: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub name: String,
    pub aliases: Vec<String>,
    pub of: Id,
    pub has_default: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not an Avro schema: {0}")]
pub struct ParseError(String);

const PRIMITIVES: [&str; 8] = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];

impl Schema {
    pub fn parse(text: &str) -> Result<Schema, ParseError> {
        let json: Value = serde_json::from_str(text).map_err(|e| ParseError(e.to_string()))?;
        let mut parser = Parser { types: Vec::new(), named: BTreeMap::new() };
        let root = parser.any(&json, "")?;
        Ok(Schema { types: parser.types, root })
    }

    pub(super) fn root(&self) -> Id {
        self.root
    }

    pub(super) fn kind(&self, id: Id) -> &Kind {
        &self.types[id].kind
    }

    /// Equal for two schemas exactly when their data is the same bytes with the same logical types: what Avro's parsing
    /// canonical form keeps, and those.
    pub fn form(&self) -> String {
        let mut out = String::new();
        self.write(self.root, &mut vec![false; self.types.len()], &mut out);
        out
    }

    fn write(&self, id: Id, written: &mut [bool], out: &mut String) {
        let Type { kind, logical } = &self.types[id];
        if let Some(names) = kind.names().filter(|_| std::mem::replace(&mut written[id], true)) {
            return quote(&names.name, out);
        }
        out.push('{');
        if let Some(names) = kind.names() {
            out.push_str("\"name\":");
            quote(&names.name, out);
            out.push(',');
        }
        out.push_str("\"type\":");
        quote(kind.word(), out);
        match kind {
            Kind::Primitive(_) | Kind::Pending => {}
            Kind::Array(of) | Kind::Map(of) => {
                out.push_str(",\"of\":");
                self.write(*of, written, out);
            }
            Kind::Union(branches) => self.write_list("branches", branches.iter(), written, out, |_, _| {}),
            Kind::Fixed(_, size) => {
                let _ = write!(out, ",\"size\":{size}");
            }
            Kind::Enum(_, symbols, _) => {
                let _ = write!(out, ",\"symbols\":{}", Value::from(symbols.clone()));
            }
            Kind::Record(_, fields) => {
                self.write_list("fields", fields.iter().map(|field| &field.of), written, out, |at, out| {
                    quote(&fields[at].name, out);
                    out.push(':');
                });
            }
        }
        if let Some(logical) = logical {
            out.push_str(",\"logicalType\":");
            quote(logical, out);
        }
        out.push('}');
    }

    fn write_list<'a>(
        &self,
        word: &str,
        ids: impl Iterator<Item = &'a Id>,
        written: &mut [bool],
        out: &mut String,
        before: impl Fn(usize, &mut String),
    ) {
        let _ = write!(out, ",\"{word}\":[");
        for (at, id) in ids.enumerate() {
            if at > 0 {
                out.push(',');
            }
            before(at, out);
            self.write(*id, written, out);
        }
        out.push(']');
    }
}

impl Kind {
    pub fn word(&self) -> &'static str {
        match self {
            Kind::Primitive(word) => word,
            Kind::Array(_) => "array",
            Kind::Map(_) => "map",
            Kind::Union(_) => "union",
            Kind::Fixed(..) => "fixed",
            Kind::Enum(..) => "enum",
            Kind::Record(..) => "record",
            Kind::Pending => "pending",
        }
    }

    pub fn names(&self) -> Option<&Names> {
        match self {
            Kind::Fixed(names, ..) | Kind::Enum(names, ..) | Kind::Record(names, ..) => Some(names),
            Kind::Primitive(_) | Kind::Array(_) | Kind::Map(_) | Kind::Union(_) | Kind::Pending => None,
        }
    }
}

struct Parser {
    types: Vec<Type>,
    named: BTreeMap<String, Id>,
}

impl Parser {
    fn add(&mut self, kind: Kind, json: &Value) -> Id {
        self.types.push(Type { kind, logical: logical(json) });
        self.types.len() - 1
    }

    /// `space`: the namespace of names without one.
    fn any(&mut self, json: &Value, space: &str) -> Result<Id, ParseError> {
        match json {
            Value::String(word) => self.reference(word, json, space),
            Value::Array(branches) => {
                let branches = branches.iter().map(|branch| self.any(branch, space)).collect::<Result<_, _>>()?;
                Ok(self.add(Kind::Union(branches), json))
            }
            Value::Object(object) => match object.get("type") {
                Some(Value::String(word)) => self.object(word, json, space),
                Some(inner) => self.any(inner, space),
                None => Err(ParseError("an object without \"type\"".to_owned())),
            },
            other => Err(ParseError(format!("{other} is no type"))),
        }
    }

    fn reference(&mut self, word: &str, json: &Value, space: &str) -> Result<Id, ParseError> {
        if let Some(primitive) = PRIMITIVES.iter().find(|primitive| **primitive == word) {
            return Ok(self.add(Kind::Primitive(primitive), json));
        }
        let known = self.named.get(&full(word, space)).or_else(|| self.named.get(word));
        known.copied().ok_or_else(|| ParseError(format!("no type is named {word:?}")))
    }

    fn object(&mut self, word: &str, json: &Value, space: &str) -> Result<Id, ParseError> {
        let part = |name: &str| json.get(name).ok_or_else(|| ParseError(format!("{word} without {name:?}")));
        match word {
            "array" => {
                let of = self.any(part("items")?, space)?;
                Ok(self.add(Kind::Array(of), json))
            }
            "map" => {
                let of = self.any(part("values")?, space)?;
                Ok(self.add(Kind::Map(of), json))
            }
            "record" | "error" | "enum" | "fixed" => {
                let names = names(json, space)?;
                let id = self.add(Kind::Pending, json);
                if self.named.insert(names.name.clone(), id).is_some() {
                    return Err(ParseError(format!("two types are named {:?}", names.name)));
                }
                self.types[id].kind = match word {
                    "fixed" => {
                        let size = part("size")?.as_u64().ok_or_else(|| ParseError(format!("fixed {:?}: size", names.name)))?;
                        Kind::Fixed(names, size)
                    }
                    "enum" => {
                        let default = json.get("default").and_then(Value::as_str).map(str::to_owned);
                        let symbols = strings(part("symbols")?)?;
                        Kind::Enum(names, symbols, default)
                    }
                    _ => {
                        let fields = part("fields")?.as_array().ok_or_else(|| ParseError("fields are no list".to_owned()))?;
                        let space = names.name.rsplit_once('.').map_or("", |(space, _)| space).to_owned();
                        let fields = fields.iter().map(|field| self.field(field, &space)).collect::<Result<_, _>>()?;
                        Kind::Record(names, fields)
                    }
                };
                Ok(id)
            }
            other => self.reference(other, json, space),
        }
    }

    fn field(&mut self, json: &Value, space: &str) -> Result<Field, ParseError> {
        let name = json.get("name").and_then(Value::as_str).ok_or_else(|| ParseError("a field without a name".to_owned()))?;
        let of = json.get("type").ok_or_else(|| ParseError(format!("field {name:?} without a type")))?;
        Ok(Field {
            name: name.to_owned(),
            aliases: json.get("aliases").map_or(Ok(Vec::new()), strings)?,
            of: self.any(of, space)?,
            has_default: json.get("default").is_some(),
        })
    }
}

fn names(json: &Value, space: &str) -> Result<Names, ParseError> {
    let name = json.get("name").and_then(Value::as_str).ok_or_else(|| ParseError("a named type without a name".to_owned()))?;
    let name = full(name, json.get("namespace").and_then(Value::as_str).unwrap_or(space));
    let space = name.rsplit_once('.').map_or("", |(space, _)| space);
    let aliases = json.get("aliases").map_or(Ok(Vec::new()), strings)?;
    let aliases = aliases.iter().map(|alias| full(alias, space)).collect();
    Ok(Names { name, aliases })
}

fn full(name: &str, space: &str) -> String {
    if name.contains('.') || space.is_empty() { name.to_owned() } else { format!("{space}.{name}") }
}

fn strings(json: &Value) -> Result<Vec<String>, ParseError> {
    let list = json.as_array().and_then(|list| list.iter().map(|word| word.as_str().map(str::to_owned)).collect());
    list.ok_or_else(|| ParseError(format!("{json} is no list of words")))
}

fn logical(json: &Value) -> Option<String> {
    json.get("logicalType").and_then(Value::as_str).map(str::to_owned)
}

fn quote(text: &str, out: &mut String) {
    let _ = write!(out, "{}", Value::from(text));
}
