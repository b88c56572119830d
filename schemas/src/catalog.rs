//! The event catalogue: which types may arrive, how each dialect calls them, and what of each field may pass.
//!
//! Owns: the built-in types (`schemas/events`, embedded by `build.rs`), the overlay of a user's folder, names
//! (`normalise`, `lookup`), the classification of every field (`Field`), the lint, drafts (`infer`).
//! Does not own: JSON Schema validation, sanitizing and masking themselves (the enricher), reading files.
//! Invariants: a catalogue that exists has been linted: every leaf of every schema is classified, and `keep`
//! stands only where a value cannot be free text. Iteration is in name order.

use crate::dialect::Dialect;
use crate::limit;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};

mod defects;
mod document;
mod field;
mod infer;
mod keywords;
mod names;
mod pattern;
mod place;

pub use infer::{ForeignNames, infer};
pub use names::normalise;

include!(concat!(env!("OUT_DIR"), "/catalog_files.rs"));

/// All event types and the context schema. Share it in an `Arc`.
#[derive(Clone, Debug)]
pub struct Catalog {
    types: BTreeMap<String, EventType>,
    context: EventType,
    /// By dialect (its place in `Dialect::ALL`): normalised foreign name → type name.
    by_foreign_name: [HashMap<String, String>; Dialect::ALL.len()],
}

/// One event type with all its versions.
#[derive(Clone, Debug)]
pub struct EventType {
    pub name: String,
    versions: BTreeMap<Version, Schema>,
}

/// One version of an event type.
#[derive(Clone, Debug)]
pub struct Schema {
    /// `1-0-0`
    pub version: String,
    /// The JSON Schema as written. It describes the `properties` object.
    pub document: serde_json::Value,
    /// The root object's classification.
    pub fields: Field,
    /// The file that it was read from, as shown in errors.
    pub file: String,
    names: Option<Names>,
    own_names: BTreeMap<Dialect, HashMap<String, String>>,
    digest: [u8; 32],
    layer: Layer,
}

/// What may become of one field. An object's or array's leaves carry the classification; a leaf without one never
/// passes (a linted catalogue has none, but `Option` keeps the closed default in the type).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    pub privacy: Option<Privacy>,
    /// In the order in which they are applied.
    pub sanitize: Vec<Sanitize>,
    pub token_domain: Option<String>,
    pub shape: Shape,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A scalar, or a whole object or array that is dropped or redacted unread.
    Scalar,
    Object(BTreeMap<String, Field>),
    Array(Box<Field>),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Privacy {
    /// Passes as it is.
    Keep,
    /// Left out.
    Drop,
    /// Replaced by a marker: that there was a value stays visible.
    Redact,
    /// Replaced by a keyed token; equal values of one `token_domain` get equal tokens.
    Tokenize,
    /// Replaced by a keyed hash that is not meant for joins.
    Hash,
    /// An IP address without its last part.
    TruncateIp,
    /// Free text: e-mail, phone, card, IP and token patterns are redacted, the rest passes.
    Scan,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sanitize {
    Trim,
    Lowercase,
    CollapseSpace,
    /// Trimmed and lower-cased text → the value to use instead. Values stand in it themselves. Other text stays.
    Enum(BTreeMap<String, String>),
    /// The query names that stay. Fragment and user info always go, the path is scanned.
    Url(BTreeSet<String>),
}

/// One defect of one schema file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CatalogError {
    pub file: String,
    pub line: Option<usize>,
    /// JSON pointer into the file; empty for the file itself.
    pub pointer: String,
    pub message: String,
}

impl std::fmt::Display for CatalogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.pointer.is_empty() {
            write!(f, ": {}", self.pointer)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for CatalogError {}

/// How the dialects call a type, normalised, and who says so.
#[derive(Clone, Debug)]
struct Names {
    of: BTreeMap<Dialect, BTreeSet<String>>,
    layer: Layer,
    file: String,
}

/// Who wrote a schema. A user's names win over built-in ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Layer {
    BuiltIn,
    User,
}

/// `1-0-0`. The newest is the highest: the newest minor of the highest major.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Version(u32, u32, u32);

impl Version {
    fn parse(text: &str) -> Option<Version> {
        let mut parts = text.split('-').map(|part| {
            let plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
            part.parse().ok().filter(|_| plain)
        });
        let version = Version(parts.next()??, parts.next()??, parts.next()??);
        (parts.next().is_none() && version.0 > 0).then_some(version)
    }
}

/// The folder name that holds the context schema beside the event types' folders.
const CONTEXT: &str = "context";

impl Catalog {
    /// The types that are compiled in.
    pub fn builtin() -> Catalog {
        let files: Vec<(String, String)> = BUILT_IN.iter().map(|(file, text)| (file.to_string(), text.to_string())).collect();
        Catalog::assemble(None, &files, Layer::BuiltIn).expect("a test lints the built-in catalogue")
    }

    /// Puts a user's files over this catalogue. `files`: path as shown in errors (it must end in
    /// `<type>/<major>-<minor>-<patch>.json`) and text. The same type and version replaces, another version is added.
    pub fn overlay(self, files: &[(String, String)]) -> Result<Catalog, Vec<CatalogError>> {
        Catalog::assemble(Some(self), files, Layer::User)
    }

    /// The type that a dialect calls so: first by `x-names`, then by the type's own name.
    pub fn lookup(&self, dialect: Dialect, foreign_name: &str) -> Option<&EventType> {
        if foreign_name.len() > limit::FOREIGN_NAME_BYTES {
            return None;
        }
        let name = self.by_foreign_name[dialect as usize].get(&normalise(foreign_name))?;
        self.types.get(name)
    }

    /// The type of this very name.
    pub fn get(&self, name: &str) -> Option<&EventType> {
        self.types.get(name)
    }

    /// All types, by name.
    pub fn types(&self) -> impl Iterator<Item = &EventType> {
        self.types.values()
    }

    /// Classifies what stands beside `properties`: ids, page, device, campaign.
    pub fn context(&self) -> &Schema {
        self.context.newest()
    }

    /// Tells catalogues apart: of all names, versions and texts, however they were put together.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Sha256::new();
        for event_type in self.types().chain([&self.context]) {
            for schema in event_type.versions() {
                hash.update(event_type.name.as_bytes());
                hash.update([0]);
                hash.update(schema.version.as_bytes());
                hash.update(schema.digest);
            }
        }
        let digest: [u8; 32] = hash.finalize().into();
        u64::from_be_bytes(digest[..8].try_into().expect("eight of 32 bytes"))
    }

    fn assemble(base: Option<Catalog>, files: &[(String, String)], layer: Layer) -> Result<Catalog, Vec<CatalogError>> {
        let mut errors = Vec::new();
        let (mut types, mut context) = match base {
            Some(base) => (base.types, Some(base.context)),
            None => (BTreeMap::new(), None),
        };
        let mut seen = BTreeMap::new();
        for (file, text) in files {
            let Some(read) = document::read(file, text, layer, &mut errors) else { continue };
            if let Some(first) = seen.insert((read.name.clone(), read.version), file) {
                errors.push(place::whole_file(file, format!("the same type and version as {first}")));
                continue;
            }
            let slot = match read.name.as_str() {
                CONTEXT => context.get_or_insert_with(|| EventType::empty(&read.name)),
                _ => types.entry(read.name.clone()).or_insert_with(|| EventType::empty(&read.name)),
            };
            let mut schema = read.schema;
            if schema.names.is_none() {
                schema.names = slot.versions.get(&read.version).and_then(|replaced| replaced.names.clone());
            }
            slot.versions.insert(read.version, schema);
        }
        let by_foreign_name = names::table(&types, &mut errors);
        let context = context.filter(|context| !context.versions.is_empty());
        match context {
            Some(context) if errors.is_empty() => Ok(Catalog { types, context, by_foreign_name }),
            Some(_) => {
                errors.sort();
                Err(errors)
            }
            None => {
                errors.push(place::whole_file("context", "no context schema".to_string()));
                Err(errors)
            }
        }
    }
}

/// Every defect of a user's files, put over the built-in catalogue. Empty: they may be used.
pub fn lint(files: &[(String, String)]) -> Vec<CatalogError> {
    Catalog::builtin().overlay(files).err().unwrap_or_default()
}

impl EventType {
    fn empty(name: &str) -> EventType {
        EventType { name: name.to_string(), versions: BTreeMap::new() }
    }
    /// The newest minor of the highest major: what events are judged by that do not say their version.
    pub fn newest(&self) -> &Schema {
        self.versions.values().next_back().expect("a type enters the catalogue with a version")
    }
    pub fn version(&self, version: &str) -> Option<&Schema> {
        self.versions.get(&Version::parse(version)?)
    }
    /// Oldest first.
    pub fn versions(&self) -> impl Iterator<Item = &Schema> {
        self.versions.values()
    }
    /// How a dialect calls this type besides its own name, normalised. They come from the newest version that says
    /// them; a version that replaces another without `x-names` leaves them as they were.
    pub fn names(&self, dialect: Dialect) -> impl Iterator<Item = &str> {
        self.naming().and_then(|names| names.of.get(&dialect)).into_iter().flatten().map(String::as_str)
    }
    fn naming(&self) -> Option<&Names> {
        self.versions.values().rev().find_map(|schema| schema.names.as_ref())
    }
}

impl Schema {
    /// What this type calls a property that `dialect` calls `foreign` (`x-names` of the field); otherwise the same.
    pub fn own_name<'a>(&'a self, dialect: Dialect, foreign: &'a str) -> &'a str {
        self.own_names.get(&dialect).and_then(|names| names.get(foreign)).map_or(foreign, String::as_str)
    }
}

impl Field {
    /// The member's classification, if the schema names it.
    pub fn member(&self, key: &str) -> Option<&Field> {
        match &self.shape {
            Shape::Object(members) => members.get(key),
            Shape::Array(_) | Shape::Scalar => None,
        }
    }
}

impl Privacy {
    pub const ALL: [Privacy; 7] =
        [Privacy::Keep, Privacy::Drop, Privacy::Redact, Privacy::Tokenize, Privacy::Hash, Privacy::TruncateIp, Privacy::Scan];
    pub fn name(self) -> &'static str {
        match self {
            Privacy::Keep => "keep",
            Privacy::Drop => "drop",
            Privacy::Redact => "redact",
            Privacy::Tokenize => "tokenize",
            Privacy::Hash => "hash",
            Privacy::TruncateIp => "truncate-ip",
            Privacy::Scan => "scan",
        }
    }
    pub fn from_name(name: &str) -> Option<Privacy> {
        Privacy::ALL.into_iter().find(|p| p.name() == name)
    }
}

#[cfg(test)]
mod tests;
