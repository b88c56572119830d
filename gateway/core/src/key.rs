//! The partition key (design §4.2): a function of the event's, else its envelope's own bytes, never of header, cookie,
//! address, place or attempt, so that every copy of a fact meets the others in one partition.
//!
//! The first of a device id, a user id, the event id; a device id beside the list comes before a user id in the event.
//! Golden vectors: `schemas/vectors/partition_key.json`.

use crate::dialect::Spec;
use crate::split;
use crate::text::{Text, Value};
use forebay_schemas::id::EventId;
use forebay_schemas::partition::bounded_key;
use std::borrow::Cow;
use std::ops::Range;

/// Names of device ids in their order, then of user ids.
const NAMES: [&str; 10] =
    ["anonymousId", "anonymous_id", "duid", "$device_id", "device_id", "userId", "user_id", "uid", "distinct_id", "$distinct_id"];
const DEVICES: usize = 5;
/// What may stand one level deeper (`Spec::nested`): a plain `device_id` there is anybody's property.
const NESTED: [bool; 10] = [false, false, false, true, false, false, false, false, true, true];

/// Ids of one object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ids<'a> {
    device: Option<Cow<'a, str>>,
    user: Option<Cow<'a, str>>,
}

impl<'a> Ids<'a> {
    /// Of an event. `also` sees every member that is no id, so that one pass serves all.
    pub fn of(event: Text<'a>, spec: &Spec, mut also: impl FnMut(&[u8], Value<'a>)) -> Ids<'a> {
        let mut values = [None; NAMES.len()];
        let mut nested = None;
        event.visit(|key, value| match place(key) {
            Some(at) => values[at] = Some(value),
            None => {
                if spec.nested.is_some_and(|name| key == name.as_bytes()) {
                    nested = Some(value);
                }
                also(key, value);
            }
        });
        let ids = Ids::best(&values);
        match nested.and_then(Value::object) {
            Some(inner) if ids.device.is_none() => {
                let mut values = [None; NAMES.len()];
                inner.visit(|key, value| {
                    if let Some(at) = place(key).filter(|at| NESTED[*at]) {
                        values[at] = Some(value);
                    }
                });
                let inner = Ids::best(&values);
                Ids { device: inner.device, user: ids.user.or(inner.user) }
            }
            _ => ids,
        }
    }

    /// Of what stands beside the list.
    pub fn beside(decoded: &'a [u8], events: &[Range<usize>], mut also: impl FnMut(&[u8], &'a [u8])) -> Ids<'a> {
        let mut values = [None; NAMES.len()];
        split::beside(decoded, events, &mut |key, value| {
            let key = crate::text::unescape(key);
            match place(&key) {
                Some(at) => values[at] = Some(Value::Json(value)),
                None => also(&key, value),
            }
        });
        Ids::best(&values)
    }

    fn best(values: &[Option<Value<'a>>; NAMES.len()]) -> Ids<'a> {
        let first = |range: Range<usize>| values[range].iter().find_map(|value| usable((*value)?));
        Ids { device: first(0..DEVICES), user: first(DEVICES..NAMES.len()) }
    }
}

fn place(key: &[u8]) -> Option<usize> {
    NAMES.iter().position(|name| key == name.as_bytes())
}

/// An id's text, unless it is one that stands for nobody.
fn usable(value: Value<'_>) -> Option<Cow<'_, str>> {
    value.text().filter(|text| text != "00000000-0000-0000-0000-000000000000" && text != "$posthog_cookieless")
}

/// The key under which an event goes to the log.
pub fn partition_key(event: &Ids<'_>, envelope: &Ids<'_>, event_id: &EventId) -> String {
    let text = event.device.as_ref().or(envelope.device.as_ref()).or(event.user.as_ref()).or(envelope.user.as_ref());
    bounded_key(text.map_or(event_id.as_str(), |text| text))
}

#[cfg(test)]
mod tests;
