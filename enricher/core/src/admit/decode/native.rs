//! The native dialect (interfaces: the native event).
//!
//! Owns: where it keeps what. Members that nobody knows are extras: they are counted and go no further.

use super::segment::into_members;
use super::{Draft, Leaf, Members, id, integer, object, text, time};
use crate::pipeline::Reject;
use forebay_schemas::json;
use forebay_schemas::limit;
use forebay_schemas::wire::harvested::Harvested;

pub(super) fn read<'a>(members: Members<'a>, event: &Harvested) -> Result<Draft<'a>, Reject> {
    let mut draft = Draft::default();
    let mut mono = None;
    for (key, value) in members {
        match &*key {
            "event_type" => draft.name = text(&value),
            "schema_version" => draft.version = text(&value),
            "event_time" => draft.told.at = time::read(&value),
            "sent_at" => draft.told.sent_at = time::read(&value),
            "mono_ms" => mono = time::millis(&value),
            "user_id" => draft.context.set(Leaf::UserId, id(&value)),
            "anonymous_id" => draft.context.set(Leaf::AnonymousId, id(&value)),
            "session_id" => draft.context.set(Leaf::SessionId, id(&value)),
            "seq" => draft.seq = integer(&value),
            "session_index" => draft.session_index = integer(&value),
            "properties" => draft.properties = object(value)?,
            "context" => draft.context.take_all(&into_members(value)),
            "event_id" | "page_id" | "boot_id" | "write_key" => {}
            _ => draft.extras.push(key.into_owned()),
        }
    }
    draft.told.age_micros = mono.and_then(|mono| Some(sent_mono(event)?.saturating_sub(mono)));
    Ok(draft)
}

/// The monotonic clock at sending, which the batch carries.
fn sent_mono(event: &Harvested) -> Option<i64> {
    let envelope = json::parse(event.envelope.as_deref()?.as_bytes(), limit::JSON_DEPTH).ok()?;
    time::millis(envelope.get("sent_mono_ms")?)
}
