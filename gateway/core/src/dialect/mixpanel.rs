//! Mixpanel's dialect: events by `/track` and `/import`, updates of profiles by `/engage` and `/groups`; an object, an array, or
//! one a line.

use super::{Envelope, Spec};
use crate::query;
use crate::route::Reply;
use crate::split;
use crate::text::{Text, Value};

pub const SPEC: Spec = Spec {
    list: None,
    lines: true,
    id: None,
    other_id: Some("$insert_id"),
    times: &["$time"],
    nested_times: &["time"],
    sent_at: &[],
    transport: &["$token"],
    keys: &["token", "$token"],
    app_id: None,
    nested: Some("properties"),
    envelope: Envelope::Of(&[]),
};

/// Whether events are Mixpanel's, and not PostHog's, whose old routes have the same names: each carries its token, and no
/// `api_key` stands beside them.
pub fn looks_like(decoded: &[u8]) -> bool {
    let Ok(events) = split::events(decoded, &SPEC, usize::MAX) else { return false };
    let Some(first) = events.first().map(|place| Text::Json(&decoded[place.clone()])) else { return false };
    let token = |event: Text<'_>, name| event.get(name).and_then(Value::text).is_some();
    let inner = first.get("properties").and_then(Value::object);
    first.get("api_key").is_none() && (token(first, "$token") || inner.is_some_and(|inner| token(inner, "token")))
}

/// The answer that the query asks for.
pub fn reply(target: &str) -> Reply {
    let (_, query) = query::split(target);
    let asks = |name| query::param(query, name).is_some_and(|value| value == "1");
    match (asks("img"), asks("verbose")) {
        (true, _) => Reply::Pixel,
        (false, true) => Reply::MixpanelVerbose,
        (false, false) => Reply::Mixpanel,
    }
}
