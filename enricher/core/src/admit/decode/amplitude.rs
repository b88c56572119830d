//! Amplitude.
//!
//! Owns: where its SDKs keep what, HTTP V2 and the old browser SDK alike.

use super::{Draft, Leaf, Members, id, integer, into_members, object, text, time};
use crate::pipeline::Reject;
use forebay_schemas::json::Json;

/// Events whose properties are the user's, or the group's: what they set, by operation.
const IDENTIFY: &str = "$identify";
const GROUP_IDENTIFY: &str = "$groupidentify";
/// Operations whose members are properties.
const SETS: [&str; 2] = ["$setOnce", "$set"];
/// There is no session.
const NO_SESSION: &str = "-1";

pub(super) fn read<'a>(members: Members<'a>) -> Result<Draft<'a>, Reject> {
    let mut draft = Draft { ambient: of_the_sdk, ..Draft::default() };
    let (mut user, mut group, mut groups) = (None, None, None);
    for (key, value) in members {
        match &*key {
            "event_type" => draft.name = text(&value),
            "time" | "timestamp" => draft.told.at = time::epoch_millis(&value).or_else(|| time::read(&value)),
            "client_upload_time" | "upload_time" => draft.told.sent_at = time::read(&value),
            "user_id" => draft.context.set(Leaf::UserId, id(&value)),
            "device_id" => draft.context.set(Leaf::AnonymousId, id(&value)),
            "session_id" => draft.context.set(Leaf::SessionId, id(&value).filter(|session| session != NO_SESSION)),
            "event_id" => draft.seq = integer(&value),
            "event_properties" => draft.properties = object(value)?,
            "user_properties" => user = Some(value),
            "group_properties" => group = Some(value),
            "groups" => groups = Some(value),
            "os_name" => draft.context.set_word(Leaf::Os, &value),
            "language" => draft.context.set_word(Leaf::Locale, &value),
            "platform" => draft.context.set_word(Leaf::Kind, &value),
            "library" => match value.get("name") {
                Some(name) => draft.context.set_library(name, value.get("version")),
                None => draft.context.set_word(Leaf::Library, &value),
            },
            "user_agent" => draft.context.user_agent = text(&value),
            "insert_id"
            | "uuid"
            | "sequence_number"
            | "version_name"
            | "app_version"
            | "os_version"
            | "device_model"
            | "device_brand"
            | "device_manufacturer"
            | "carrier"
            | "country"
            | "region"
            | "city"
            | "dma"
            | "ip"
            | "idfa"
            | "idfv"
            | "adid"
            | "android_id"
            | "location_lat"
            | "location_lng"
            | "partner_id"
            | "plan"
            | "ingestion_metadata"
            | "api_properties"
            | "global_user_properties"
            | "timezone"
            | "uploaded_at" => {}
            _ => draft.extras.push(key.into_owned()),
        }
    }
    for (key, value) in &draft.properties {
        match &**key {
            "[Amplitude] Page URL" | "[Amplitude] Page Location" => draft.context.set(Leaf::Url, text(value)),
            "[Amplitude] Page Path" => draft.context.set(Leaf::Path, text(value)),
            "[Amplitude] Page Title" => draft.context.set(Leaf::Title, text(value)),
            "referrer" => draft.context.take_page("referrer", value),
            other if other.starts_with("utm_") => draft.context.take_campaign(other, value),
            _ => {}
        }
    }
    let set = match draft.name.as_deref() {
        Some(IDENTIFY) => user,
        Some(GROUP_IDENTIFY) => {
            if let Some((kind, name)) = groups.map(into_members).unwrap_or_default().into_iter().next() {
                draft.properties.push(("group_type".into(), Json::String(kind)));
                draft.properties.push(("group_id".into(), name));
            }
            group
        }
        _ => None,
    };
    let operations = set.map(into_members).unwrap_or_default();
    for (_, value) in operations.into_iter().filter(|(operation, _)| SETS.contains(&&**operation)) {
        draft.properties.extend(into_members(value));
    }
    Ok(draft)
}

/// What the SDKs add to events of their own accord.
fn of_the_sdk(key: &str) -> bool {
    key.starts_with("[Amplitude]")
        || key.starts_with("initial_")
        || key.starts_with("utm_")
        || matches!(key, "referrer" | "referring_domain")
}
