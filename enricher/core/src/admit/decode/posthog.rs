//! PostHog.
//!
//! Owns: where its SDKs keep what. All of it is among the properties, most of it under names that begin with `$`.

use super::{Draft, Leaf, Members, id, integer, into_members, object, text, time};
use crate::pipeline::Reject;
use std::borrow::Cow;

pub(super) fn read<'a>(members: Members<'a>) -> Result<Draft<'a>, Reject> {
    let mut draft = Draft { ambient: of_the_sdk, ..Draft::default() };
    let (mut distinct, mut set) = (None, None);
    for (key, value) in members {
        match &*key {
            "event" => draft.name = text(&value),
            "properties" => draft.properties = object(value)?,
            "timestamp" => draft.told.at = time::read(&value),
            "sent_at" => draft.told.sent_at = time::read(&value),
            "offset" => draft.told.age_micros = time::millis(&value),
            "distinct_id" | "$distinct_id" => distinct = id(&value),
            "$set" => set = Some(value),
            _ => {}
        }
    }
    let found = read_properties(&mut draft);
    who(&mut draft, &found, found.distinct.clone().or(distinct));
    if matches!(draft.name.as_deref(), Some("$identify" | "$set")) {
        let set = set.or_else(|| draft.properties.iter().rev().find(|(key, _)| key == "$set").map(|(_, value)| value.clone()));
        draft.properties.extend(set.map(into_members).unwrap_or_default());
    }
    if draft.name.as_deref() == Some("$groupidentify") {
        let set = draft.properties.iter().rev().find(|(key, _)| key == "$group_set").map(|(_, value)| value.clone());
        draft.properties.extend(set.map(into_members).unwrap_or_default());
    }
    Ok(draft)
}

/// What of the properties says who it was.
#[derive(Default)]
struct Who<'a> {
    distinct: Option<Cow<'a, str>>,
    device: Option<Cow<'a, str>>,
    user: Option<Cow<'a, str>>,
    anonymous: Option<Cow<'a, str>>,
    identified: Option<bool>,
}

fn read_properties<'a>(draft: &mut Draft<'a>) -> Who<'a> {
    let mut who = Who::default();
    let (mut lib, mut lib_version) = (None, None);
    let context = &mut draft.context;
    for (key, value) in &draft.properties {
        let Some(name) = key.strip_prefix('$') else {
            match &**key {
                "distinct_id" => who.distinct = id(value),
                "title" => context.set(Leaf::Title, text(value)),
                other if other.starts_with("utm_") => context.take_campaign(other, value),
                _ => {}
            }
            continue;
        };
        match name {
            "current_url" => context.set(Leaf::Url, text(value)),
            "pathname" => context.set(Leaf::Path, text(value)),
            "title" => context.set(Leaf::Title, text(value)),
            "referrer" => context.take_page("referrer", value),
            "screen_width" => context.screen[0] = integer(value),
            "screen_height" => context.screen[1] = integer(value),
            "timezone" => context.set_word(Leaf::Timezone, value),
            "browser_language" | "locale" => context.set_word(Leaf::Locale, value),
            "raw_user_agent" | "user_agent" => context.user_agent = text(value),
            "os" | "os_name" => context.set_word(Leaf::Os, value),
            "browser" => context.set_word(Leaf::Browser, value),
            "device_type" => context.set_word(Leaf::Kind, value),
            "lib" => lib = Some(value),
            "lib_version" => lib_version = Some(value),
            "session_id" => context.set(Leaf::SessionId, id(value)),
            "device_id" => who.device = id(value),
            "user_id" => who.user = id(value),
            "anon_distinct_id" => who.anonymous = id(value),
            "is_identified" => who.identified = value.as_bool(),
            "distinct_id" => who.distinct = id(value),
            _ => {}
        }
    }
    if let Some(lib) = lib {
        context.set_library(lib, lib_version);
    }
    who
}

/// A distinct id is the device's until somebody is identified, and the user's from then on.
fn who<'a>(draft: &mut Draft<'a>, found: &Who<'a>, distinct: Option<Cow<'a, str>>) {
    let of_device = found.identified == Some(false) || distinct.is_some() && (distinct == found.device || distinct == found.anonymous);
    let user = found.user.clone().or_else(|| distinct.clone().filter(|_| !of_device));
    let anonymous = found.device.clone().or_else(|| found.anonymous.clone()).or_else(|| distinct.filter(|_| of_device));
    draft.context.set(Leaf::UserId, user);
    draft.context.set(Leaf::AnonymousId, anonymous);
}

/// What the SDKs add to every event of their own accord. A schema may still classify it; otherwise it goes silently.
fn of_the_sdk(key: &str) -> bool {
    const PREFIXES: [&str; 21] = [
        "sdk_",
        "lib",
        "browser",
        "device",
        "os",
        "screen_",
        "viewport_",
        "session_",
        "user_agent",
        "raw_user_agent",
        "timezone",
        "feature",
        "active_feature",
        "geoip_",
        "initial_",
        "client_session_",
        "replay_",
        "recording_",
        "config",
        "prev_pageview_",
        "process_person",
    ];
    const NAMES: [&str; 27] = [
        "current_url",
        "host",
        "pathname",
        "referrer",
        "referring_domain",
        "title",
        "insert_id",
        "time",
        "initialization_time",
        "window_id",
        "pageview_id",
        "is_identified",
        "user_id",
        "anon_distinct_id",
        "distinct_id",
        "set",
        "set_once",
        "unset",
        "ip",
        "is_server",
        "ce_version",
        "locale",
        "app_build",
        "app_name",
        "app_namespace",
        "app_version",
        "network_wifi",
    ];
    match key.strip_prefix('$') {
        Some(name) => NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)),
        None => matches!(key, "distinct_id" | "token" | "title") || key.starts_with("utm_"),
    }
}
