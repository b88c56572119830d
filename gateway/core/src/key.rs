//! The partition key (design §4.2): a function of the event's, else its envelope's own bytes, never of header, cookie,
//! address, place or attempt, so that every copy of a fact meets the others in one partition.
//!
//! The first of a device id, a user id, the event id; a device id beside the list comes before a user id in the event.
//! A few names are one dialect's alone (`dialect::Own`).
//! Golden vectors: `schemas/vectors/partition_key.json`.

use crate::dialect::{Own, Spec};
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
/// How many names a dialect may have besides (`Own`): its device ids, then its user ids.
const OWN_NAMES: usize = 4;
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
    pub fn of(event: Text<'a>, spec: &Spec, own: &Own, mut also: impl FnMut(&[u8], Value<'a>)) -> Ids<'a> {
        let mut values = Values::default();
        let mut nested = None;
        event.visit(|key, value| match place(key, own) {
            Some(at) => values[at] = Some(value),
            None => {
                if spec.nested.is_some_and(|name| key == name.as_bytes()) {
                    nested = Some(value);
                }
                also(key, value);
            }
        });
        let ids = Ids::best(&values, own);
        match nested.and_then(Value::object) {
            Some(inner) if ids.device.is_none() => {
                let mut values = Values::default();
                inner.visit(|key, value| {
                    if let Some(at) = place(key, own).filter(|at| NESTED.get(*at) == Some(&true)) {
                        values[at] = Some(value);
                    }
                });
                let inner = Ids::best(&values, own);
                Ids { device: inner.device, user: ids.user.or(inner.user) }
            }
            _ => ids,
        }
    }

    /// Of what stands beside the list. `also` sees every member: an id may go on with each event, too.
    pub fn beside(decoded: &'a [u8], events: &[Range<usize>], own: &Own, mut also: impl FnMut(&[u8], &'a [u8])) -> Ids<'a> {
        let mut values = Values::default();
        split::beside(decoded, events, &mut |key, value| {
            let key = crate::text::unescape(key);
            if let Some(at) = place(&key, own) {
                values[at] = Some(Value::Json(value));
            }
            also(&key, value);
        });
        Ids::best(&values, own)
    }

    fn best(values: &Values<'a>, own: &Own) -> Ids<'a> {
        let first = |range: Range<usize>| values[range].iter().find_map(|value| usable((*value)?));
        let own_users = NAMES.len() + own.devices.len();
        Ids {
            device: first(0..DEVICES).or_else(|| first(NAMES.len()..own_users)),
            user: first(DEVICES..NAMES.len()).or_else(|| first(own_users..values.len())),
        }
    }
}

/// The value of each name, in the order of `place`.
type Values<'a> = [Option<Value<'a>>; NAMES.len() + OWN_NAMES];

/// Everybody's names, then the dialect's own devices and users.
fn place(key: &[u8], own: &Own) -> Option<usize> {
    let mut names = NAMES.iter().chain(own.devices).chain(own.users);
    names.position(|name| key == name.as_bytes())
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
