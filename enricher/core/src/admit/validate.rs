//! Validate: is this what its event type promises? Closed: what cannot be judged does not pass (law E1).
//!
//! Owns: `Valid`, finding the type and the version, own names for a dialect's property names, the compiled schemas.
//! Does not own: names and schemas themselves (the catalogue), the keywords (`check`).
//! Invariants: a reject's detail quotes the schema, never the event; an unknown name is a shape and a keyed hash.

mod check;

use super::decode::Decoded;
use super::mask::Masker;
use super::plan::{Domains, Node};
use super::scan;
use crate::options::UnknownEvent;
use crate::pipeline::{PipelineError, Reject};
use check::{Check, Patterns, Wants};
use forebay_schemas::catalog::{Catalog, Schema, normalise};
use forebay_schemas::json::Json;
use forebay_schemas::reason::Reason;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// A decoded event that is what its type promises.
pub struct Valid<'a> {
    decoded: Decoded<'a>,
    judged: Judged<'a>,
}

/// By what an event was judged.
pub(crate) enum Judged<'a> {
    Known(&'a Compiled),
    /// No schema has this name, and `unknown_event = "envelope"`: nothing of the properties passes.
    Envelope(String),
}

/// One schema, ready for use.
pub(crate) struct Compiled {
    pub event_type: String,
    pub version: String,
    pub root: Node,
    check: Check,
}

pub(crate) struct Validator {
    catalog: Arc<Catalog>,
    unknown_event: UnknownEvent,
    /// By type name; the newest last.
    schemas: HashMap<String, Vec<Compiled>>,
}

/// The version of an event that passed without a schema.
const NO_VERSION: &str = "0-0-0";
/// A type name that may be told although no schema has it.
const ENVELOPE_NAME_BYTES: usize = 64;

impl Validator {
    pub(crate) fn new(catalog: Arc<Catalog>, unknown_event: UnknownEvent, domains: &mut Domains) -> Result<Validator, PipelineError> {
        let mut schemas = HashMap::new();
        let mut patterns = Patterns::default();
        for event_type in catalog.types() {
            let compiled: Result<Vec<Compiled>, PipelineError> =
                event_type.versions().map(|schema| Compiled::new(&event_type.name, schema, domains, &mut patterns)).collect();
            schemas.insert(event_type.name.clone(), compiled?);
        }
        Ok(Validator { catalog, unknown_event, schemas })
    }

    pub(crate) fn validate<'a>(&'a self, mut decoded: Decoded<'a>, masker: &Masker) -> Result<Valid<'a>, Reject> {
        let Some(event_type) = self.catalog.lookup(decoded.event.dialect, &decoded.name) else {
            return self.unknown(decoded, masker);
        };
        let versions = self.schemas.get(&event_type.name).map(Vec::as_slice).unwrap_or_default();
        let (compiled, schema) = match &decoded.version {
            None => (versions.last(), Some(event_type.newest())),
            Some(version) => (versions.iter().find(|compiled| compiled.version == **version), event_type.version(version)),
        };
        let (Some(compiled), Some(schema)) = (compiled, schema) else {
            let known: Vec<&str> = versions.iter().map(|compiled| compiled.version.as_str()).collect();
            let detail = format!("schema_version: expected one of {}", known.join(", "));
            return Err(Reject::new(Reason::UnknownSchemaVersion, detail).of_type(&event_type.name));
        };
        own_names(&mut decoded, schema);
        if decoded.texts {
            compiled.read_texts(&mut decoded);
        }
        compiled.check.judge(&decoded.properties).map_err(|what| {
            Reject::new(Reason::SchemaViolation, format!("{what} ({} {})", compiled.event_type, compiled.version)).of_type(&event_type.name)
        })?;
        Ok(Valid { decoded, judged: Judged::Known(compiled) })
    }

    fn unknown<'a>(&'a self, decoded: Decoded<'a>, masker: &Masker) -> Result<Valid<'a>, Reject> {
        let name = normalise(&decoded.name);
        // In an envelope the type passes; a name that could be somebody's address is no type.
        let plain = name.len() <= ENVELOPE_NAME_BYTES
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && scan::redact(&decoded.name).is_none()
            && scan::redact(&name).is_none();
        if self.unknown_event == UnknownEvent::Envelope && plain {
            return Ok(Valid { decoded, judged: Judged::Envelope(name) });
        }
        let name = masker.unknown_name(&decoded.name, decoded.event.received_at);
        let dialect = decoded.event.dialect.name();
        Err(Reject::new(Reason::UnknownEventType, format!("event type: no type of the catalogue is called {name} by {dialect}")))
    }
}

impl<'a> Valid<'a> {
    pub(super) fn into_parts(self) -> (Decoded<'a>, Judged<'a>) {
        (self.decoded, self.judged)
    }
}

impl<'a> Judged<'a> {
    pub fn event_type(&self) -> &str {
        match self {
            Judged::Known(compiled) => &compiled.event_type,
            Judged::Envelope(name) => name,
        }
    }
    /// Name and version.
    pub fn into_type(self) -> (Cow<'a, str>, Cow<'a, str>) {
        match self {
            Judged::Known(compiled) => (Cow::Borrowed(&compiled.event_type), Cow::Borrowed(&compiled.version)),
            Judged::Envelope(name) => (Cow::Owned(name), Cow::Borrowed(NO_VERSION)),
        }
    }
}

impl Compiled {
    fn new(event_type: &str, schema: &Schema, domains: &mut Domains, patterns: &mut Patterns) -> Result<Compiled, PipelineError> {
        let check = Check::compile(&schema.document, patterns).map_err(|message| PipelineError {
            event_type: event_type.to_owned(),
            version: schema.version.clone(),
            message,
        })?;
        let root = Node::compile("properties", &schema.fields, domains);
        Ok(Compiled { event_type: event_type.to_owned(), version: schema.version.clone(), root, check })
    }

    /// Texts become the numbers or truth values that the schema asks for, if they are such.
    fn read_texts(&self, decoded: &mut Decoded<'_>) {
        for (name, value) in &mut decoded.properties {
            let Json::String(text) = value else { continue };
            match self.check.wants(name) {
                Some(Wants::Number) => {
                    let text = text.trim();
                    let number = if text.is_empty() { Some(Json::Null) } else { number(text) };
                    if let Some(number) = number {
                        *value = number;
                    }
                }
                Some(Wants::Boolean) => match &**text {
                    "true" | "1" => *value = Json::Bool(true),
                    "false" | "0" => *value = Json::Bool(false),
                    _ => {}
                },
                None => {}
            }
        }
    }
}

fn number(text: &str) -> Option<Json<'static>> {
    let json = forebay_schemas::json::parse(text.as_bytes(), 1).ok()?;
    matches!(json, Json::Number(_)).then(|| json.into_owned())
}

/// Gives each property the name that the schema knows it by. A property that has that name already wins, and a
/// parameter of the transport is a property only where a schema claims it.
fn own_names(decoded: &mut Decoded<'_>, schema: &Schema) {
    let dialect = decoded.event.dialect;
    let mut renamed: Vec<(usize, String)> = Vec::new();
    let mut gone: Vec<usize> = Vec::new();
    for (at, (name, _)) in decoded.properties.iter().enumerate() {
        let own = schema.own_name(dialect, name);
        if own != &**name {
            renamed.push((at, own.to_owned()));
        } else if (decoded.transport)(name) {
            gone.push(at);
        }
    }
    for (at, own) in renamed {
        let taken = decoded.properties.iter().enumerate().any(|(other, (name, _))| *name == own && !gone.contains(&other));
        if taken {
            gone.push(at);
        } else {
            decoded.properties[at].0 = Cow::Owned(own);
        }
    }
    if !gone.is_empty() {
        let mut at = 0;
        decoded.properties.retain(|_| {
            at += 1;
            !gone.contains(&(at - 1))
        });
    }
}
