//! The native dialect (interfaces: the native event).
//!
//! Owns: where it keeps what. Members that nobody knows are extras: they are counted and go no further.

use super::{Draft, Leaf, Members, beside, id, integer, into_members, object, text, time};
use crate::pipeline::Reject;
use forebay_schemas::wire::harvested::Harvested;

pub(super) fn read<'a>(members: Members<'a>, event: &'a Harvested) -> Result<Draft<'a>, Reject> {
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
            "event_id" | "page_id" | "boot_id" | "write_key" | "sent_mono_ms" | "client_report" => {}
            _ => draft.extras.push(key.into_owned()),
        }
    }
    // The monotonic clock at sending stands beside the batch.
    let sent_mono = mono.and_then(|_| time::millis(&beside(event, "sent_mono_ms")?));
    draft.told.age_micros = sent_mono.zip(mono).map(|(sent, at)| sent.saturating_sub(at));
    Ok(draft)
}
