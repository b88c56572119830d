//! Names: what SDKs call an event type, and which type it is.
//!
//! Owns: `normalise` (design §4.4) and the look-up table. Does not own: where names stand in a file (`document`).
//! Invariant: within one layer no name means two types. A user's name wins over a built-in one.

use super::{CatalogError, EventType, place};
use crate::dialect::Dialect;
use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// Trimmed, lower-cased, each run of other characters than a–z and 0–9 made `_`.
pub fn normalise(foreign_name: &str) -> String {
    let name = foreign_name.trim();
    let mut out = String::with_capacity(name.len());
    let mut push = |c: char| match c {
        'a'..='z' | '0'..='9' => out.push(c),
        _ if !out.ends_with('_') => out.push('_'),
        _ => {}
    };
    if name.is_ascii() {
        name.bytes().for_each(|byte| push(char::from(byte.to_ascii_lowercase())));
    } else {
        name.chars().flat_map(char::to_lowercase).for_each(push);
    }
    out
}

/// A type's own name: normalised already, and fit for a folder and a column.
pub(super) fn is_type_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.starts_with(|c: char| c.is_ascii_lowercase()) && normalise(name) == name
}

/// For each dialect: normalised name → type name.
pub(super) fn table(types: &BTreeMap<String, EventType>, errors: &mut Vec<CatalogError>) -> [HashMap<String, String>; Dialect::ALL.len()] {
    Dialect::ALL.map(|dialect| {
        let mut claims: BTreeMap<&str, &EventType> = BTreeMap::new();
        for event_type in types.values() {
            for name in event_type.names(dialect) {
                match claims.entry(name) {
                    Entry::Vacant(free) => {
                        free.insert(event_type);
                    }
                    Entry::Occupied(mut taken) => match layer(event_type).cmp(&layer(taken.get())) {
                        Ordering::Greater => {
                            taken.insert(event_type);
                        }
                        Ordering::Less => {}
                        Ordering::Equal => errors.push(twice(event_type, taken.get(), dialect, name)),
                    },
                }
            }
        }
        for event_type in types.values() {
            let taken = claims.get(event_type.name.as_str()).filter(|other| other.name != event_type.name);
            match taken.map(|other| (layer(other).cmp(&event_type.newest().layer), *other)) {
                None | Some((Ordering::Less, _)) => {
                    claims.insert(&event_type.name, event_type);
                }
                Some((Ordering::Greater, _)) => {}
                Some((Ordering::Equal, other)) => errors.push(twice(other, event_type, dialect, &event_type.name)),
            }
        }
        claims.into_iter().map(|(name, event_type)| (name.to_string(), event_type.name.clone())).collect()
    })
}

/// Who wrote the names of a type.
fn layer(event_type: &EventType) -> super::Layer {
    event_type.naming().map_or(event_type.newest().layer, |names| names.layer)
}

fn twice(event_type: &EventType, other: &EventType, dialect: Dialect, name: &str) -> CatalogError {
    let file = event_type.naming().map_or(&event_type.newest().file, |names| &names.file);
    CatalogError {
        pointer: format!("/x-names/{}", dialect.name()),
        ..place::whole_file(file, format!("`{name}` is claimed by `{}` and by `{}`", event_type.name, other.name))
    }
}
