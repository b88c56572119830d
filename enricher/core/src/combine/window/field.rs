//! A field of a masked event, by the path that a declaration gives it.
//!
//! Owns: which paths there are, whether the catalogue lets their values pass, reading them. Does not own: what is asked of
//! a value (`condition`, `measure`). Invariant: only what stands in a trusted event can be read.

use super::number::Decimal;
use crate::admit::mask::Masked;
use core::cell::OnceCell;
use forebay_schemas::catalog::{Catalog, EventType, Field as Classified, Privacy, Shape};
use forebay_schemas::json::{self, Json};
use forebay_schemas::limit;
use forebay_schemas::wire::trusted::Trusted;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

const PROPERTIES: &str = "properties";

/// A value as it can be asked for: there is one, and it is neither an object nor a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scalar<'a> {
    Text(Cow<'a, str>),
    /// As JSON writes it.
    Number(Cow<'a, str>),
    Bool(bool),
}

impl Scalar<'_> {
    pub fn number(&self) -> Option<Decimal> {
        match self {
            Scalar::Number(text) => Decimal::parse(text),
            Scalar::Text(_) | Scalar::Bool(_) => None,
        }
    }

    /// As text that is the same for the same value. A long text becomes its hash.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Scalar::Text(text) | Scalar::Number(text) if text.len() > limit::WINDOW_KEY_BYTES => Cow::Owned(hashed(text)),
            Scalar::Text(text) => Cow::Borrowed(text),
            Scalar::Number(text) => Decimal::parse(text).map_or(Cow::Borrowed(text), |number| Cow::Owned(number.to_string())),
            Scalar::Bool(true) => Cow::Borrowed("true"),
            Scalar::Bool(false) => Cow::Borrowed("false"),
        }
    }

    /// As JSON that is the same for the same value.
    pub fn write(&self, out: &mut String) {
        let text = self.text();
        match self {
            Scalar::Number(number) if number.len() <= limit::WINDOW_KEY_BYTES => out.push_str(&text),
            Scalar::Bool(_) => out.push_str(&text),
            Scalar::Text(_) | Scalar::Number(_) => json::write_string(&text, out),
        }
    }
}

fn hashed(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().fold("sha256:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// A masked event with its properties read once, if anybody asks.
pub struct View<'a> {
    event: &'a Trusted<'a>,
    properties: OnceCell<Json<'a>>,
}

impl<'a> View<'a> {
    pub fn of(masked: &'a Masked<'_>) -> View<'a> {
        View::of_trusted(masked.trusted())
    }
    /// Of one that was published.
    pub fn of_trusted(event: &'a Trusted<'a>) -> View<'a> {
        View { event, properties: OnceCell::new() }
    }

    pub fn event(&self) -> &'a Trusted<'a> {
        self.event
    }

    fn property(&self, path: &[String]) -> Option<Scalar<'_>> {
        // Masked properties are JSON of our own.
        let read = || json::parse(self.event.properties.as_bytes(), limit::JSON_DEPTH).unwrap_or(Json::Null);
        let found = path.iter().try_fold(self.properties.get_or_init(read), |value, name| value.get(name))?;
        match found {
            Json::String(text) => Some(Scalar::Text(Cow::Borrowed(text))),
            Json::Number(text) => Some(Scalar::Number(Cow::Borrowed(text))),
            Json::Bool(truth) => Some(Scalar::Bool(*truth)),
            Json::Null | Json::Array(_) | Json::Object(_) => None,
        }
    }
}

/// Reads one field out of a trusted event.
type Read = for<'v> fn(&'v Trusted<'v>) -> Option<Scalar<'v>>;

#[derive(Clone, Debug)]
pub struct Field {
    /// As declared.
    pub path: String,
    place: Place,
    /// Whether its values can be numbers.
    is_open: bool,
}

#[derive(Clone, Debug)]
enum Place {
    Beside(Read),
    Property(Vec<String>),
}

/// Why a field cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FieldError {
    #[error(
        "there is no field {0}: name one of event_type, schema_version, source, time_origin, user_id, anonymous_id, session_id, seq, session_index, page.…, device.…, campaign.… or properties.…"
    )]
    Unknown(String),
    #[error("properties.{path} is not classified by any schema of {types}: what nobody classified never passes")]
    Unclassified { path: String, types: String },
    #[error("{path} is classified as {privacy}: its values never pass")]
    Hidden { path: String, privacy: &'static str },
    #[error("{0} is an object or a list: name a value in it")]
    NoScalar(String),
}

impl Field {
    /// `types`: whose events are asked for; none: of every type.
    pub fn new(path: &str, types: &[&str], catalog: &Catalog) -> Result<Field, FieldError> {
        let names: Vec<String> = path.split('.').map(str::to_owned).collect();
        match names.split_first() {
            Some((first, rest)) if first == PROPERTIES && !rest.is_empty() => {
                let of_types = || catalog.types().filter(|event_type| types.is_empty() || types.contains(&&*event_type.name));
                let is_open = property(path, rest, of_types(), types)?;
                Ok(Field { path: path.to_owned(), place: Place::Property(rest.to_vec()), is_open })
            }
            _ => {
                let read = beside(path).ok_or_else(|| FieldError::Unknown(path.to_owned()))?;
                let classified = names.iter().try_fold(&catalog.context().fields, |field, name| field.member(name));
                let is_open = match classified {
                    Some(classified) => passes(path, classified)?,
                    None => true,
                };
                Ok(Field { path: path.to_owned(), place: Place::Beside(read), is_open })
            }
        }
    }

    pub fn read<'v>(&self, view: &'v View<'_>) -> Option<Scalar<'v>> {
        match &self.place {
            Place::Beside(read) => read(view.event),
            Place::Property(path) => view.property(path),
        }
    }

    pub fn can_be_a_number(&self) -> bool {
        self.is_open
    }
}

/// Whether values of the property pass as they are.
fn property<'c>(path: &str, names: &[String], of: impl Iterator<Item = &'c EventType>, types: &[&str]) -> Result<bool, FieldError> {
    let mut seen: Option<Result<bool, FieldError>> = None;
    for schema in of.flat_map(EventType::versions) {
        let Some(found) = names.iter().try_fold(&schema.fields, |field, name| field.member(name)) else { continue };
        let found = passes(path, found);
        seen = match (seen, found) {
            (Some(Ok(one)), Ok(other)) => Some(Ok(one || other)),
            (Some(Ok(one)), Err(_)) => Some(Ok(one)),
            (None | Some(Err(_)), found) => Some(found),
        };
    }
    let types = if types.is_empty() { "any type".to_owned() } else { types.join(", ") };
    seen.unwrap_or(Err(FieldError::Unclassified { path: names.join("."), types }))
}

fn passes(path: &str, field: &Classified) -> Result<bool, FieldError> {
    match (&field.shape, field.privacy) {
        (_, Some(privacy @ (Privacy::Drop | Privacy::Redact))) => {
            Err(FieldError::Hidden { path: path.to_owned(), privacy: privacy.name() })
        }
        (Shape::Scalar, Some(privacy)) => Ok(matches!(privacy, Privacy::Keep | Privacy::Scan)),
        (Shape::Scalar | Shape::Object(_) | Shape::Array(_), _) => Err(FieldError::NoScalar(path.to_owned())),
    }
}

fn text<'v>(text: &'v Option<Cow<'_, str>>) -> Option<Scalar<'v>> {
    text.as_deref().map(|text| Scalar::Text(Cow::Borrowed(text)))
}
fn number<'v>(number: Option<i64>) -> Option<Scalar<'v>> {
    number.map(|number| Scalar::Number(Cow::Owned(number.to_string())))
}

/// What stands beside the properties.
fn beside(path: &str) -> Option<Read> {
    Some(match path {
        "event_type" => |event| Some(Scalar::Text(Cow::Borrowed(&event.event_type))),
        "schema_version" => |event| Some(Scalar::Text(Cow::Borrowed(&event.schema_version))),
        "source" => |event| Some(Scalar::Text(Cow::Borrowed(&event.source))),
        "time_origin" => |event| Some(Scalar::Text(Cow::Borrowed(event.time_origin.name()))),
        "user_id" => |event| text(&event.user_id),
        "anonymous_id" => |event| text(&event.anonymous_id),
        "session_id" => |event| text(&event.session_id),
        "seq" => |event| number(event.seq),
        "session_index" => |event| number(event.session_index),
        "page.url" => |event| text(&event.page.as_ref()?.url),
        "page.path" => |event| text(&event.page.as_ref()?.path),
        "page.title" => |event| text(&event.page.as_ref()?.title),
        "page.referrer" => |event| text(&event.page.as_ref()?.referrer),
        "device.type" => |event| text(&event.device.as_ref()?.kind),
        "device.os" => |event| text(&event.device.as_ref()?.os),
        "device.browser" => |event| text(&event.device.as_ref()?.browser),
        "device.locale" => |event| text(&event.device.as_ref()?.locale),
        "device.timezone" => |event| text(&event.device.as_ref()?.timezone),
        "device.library" => |event| text(&event.device.as_ref()?.library),
        "device.screen_width" => |event| number(event.device.as_ref()?.screen_width),
        "device.screen_height" => |event| number(event.device.as_ref()?.screen_height),
        "campaign.source" => |event| text(&event.campaign.as_ref()?.source),
        "campaign.medium" => |event| text(&event.campaign.as_ref()?.medium),
        "campaign.name" => |event| text(&event.campaign.as_ref()?.name),
        "campaign.term" => |event| text(&event.campaign.as_ref()?.term),
        "campaign.content" => |event| text(&event.campaign.as_ref()?.content),
        _ => return None,
    })
}
