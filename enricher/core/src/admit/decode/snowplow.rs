//! Snowplow: the tracker protocol, by POST (`tp2`) or GET. All values are texts.
//!
//! Owns: where trackers keep what, and opening the self-describing JSON inside (`ue_pr`, `ue_px`, `co`, `cx`).
//! A self-describing event is named `<vendor>/<name>`; its data are the properties. Any other event's properties
//! are its own parameters under their protocol names (`se_ca`, `tr_tt` …), which a schema names in `x-names`.

use super::{Draft, Leaf, Members, id, integer, kind, object, text, time, unreadable_json};
use crate::pipeline::Reject;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use forebay_schemas::json::{self, Json};
use forebay_schemas::limit;
use forebay_schemas::reason::Reason;
use std::borrow::Cow;

pub(super) fn read<'a>(members: Members<'a>) -> Result<Draft<'a>, Reject> {
    let mut draft = Draft { texts: true, transport: of_the_protocol, ..Draft::default() };
    let (mut event, mut contexts) = (None, None);
    let (mut device_time, mut true_time) = (None, None);
    for (key, value) in &members {
        let context = &mut draft.context;
        match &**key {
            "e" => draft.name = text(value),
            "url" => context.set(Leaf::Url, text(value)),
            "page" => context.set(Leaf::Title, text(value)),
            "refr" => context.set(Leaf::Referrer, text(value)),
            "res" => context.take_screen(value),
            "lang" => context.set_word(Leaf::Locale, value),
            "tz" => context.set_word(Leaf::Timezone, value),
            "tv" => context.set_word(Leaf::Library, value),
            "ua" => context.user_agent = text(value),
            "uid" => context.set(Leaf::UserId, id(value)),
            "duid" => context.set(Leaf::AnonymousId, id(value)),
            "sid" => context.set(Leaf::SessionId, id(value)),
            "vid" => draft.session_index = integer(value),
            "dtm" => device_time = time::epoch_millis(value),
            "ttm" => true_time = time::epoch_millis(value),
            "stm" => draft.told.sent_at = time::epoch_millis(value),
            "ue_pr" => event = Some(open("ue_pr", value, false)?),
            "ue_px" => event = Some(open("ue_px", value, true)?),
            "co" => contexts = Some(open("co", value, false)?),
            "cx" => contexts = Some(open("cx", value, true)?),
            _ => {}
        }
    }
    draft.told.at = true_time.or(device_time);
    if let Some(contexts) = contexts {
        read_contexts(&mut draft, &contexts);
    }
    if draft.name.as_deref() == Some("ue") {
        (draft.name, draft.properties) = self_describing(event)?;
        draft.texts = false;
        draft.transport = |_| false;
    } else {
        draft.properties = members;
    }
    Ok(draft)
}

/// The JSON inside a parameter, as text or as base64url.
fn open(parameter: &str, value: &Json<'_>, encoded: bool) -> Result<Json<'static>, Reject> {
    // Whoever sends the JSON itself instead of its text means the same.
    let Json::String(text) = value else { return Ok(value.clone().into_owned()) };
    let parse = |bytes: &[u8]| json::parse(bytes, limit::JSON_DEPTH).map(Json::into_owned).map_err(|e| unreadable_json(parameter, e));
    if !encoded {
        return parse(text.as_bytes());
    }
    let plain = text.trim_end_matches('=');
    let bytes = URL_SAFE_NO_PAD
        .decode(plain)
        .or_else(|_| STANDARD_NO_PAD.decode(plain))
        .map_err(|_| Reject::new(Reason::Malformed, format!("{parameter}: not base64url")))?;
    parse(&bytes)
}

/// The event inside `unstruct_event`: its name and its data.
fn self_describing<'a>(event: Option<Json<'static>>) -> Result<(Option<Cow<'a, str>>, Members<'a>), Reject> {
    let Some(Json::Object(outer)) = event else {
        return Err(Reject::new(Reason::MissingEventType, "ue_pr: a self-describing event is missing"));
    };
    let inner = outer.into_iter().rev().find(|(key, _)| key == "data").map_or(Json::Null, |(_, data)| data);
    let name = inner.get("schema").and_then(Json::as_str).and_then(schema_name).map(Cow::Owned);
    let Json::Object(members) = inner else {
        return Err(Reject::new(Reason::MissingEventType, format!("ue_pr, data: expected an object, got {}", kind(&inner))));
    };
    let data = members.into_iter().rev().find(|(key, _)| key == "data").map_or(Json::Null, |(_, data)| data);
    Ok((name, object(data)?))
}

/// `iglu:com.acme/link_click/jsonschema/1-0-0` → `com.acme/link_click`.
fn schema_name(uri: &str) -> Option<String> {
    let mut parts = uri.strip_prefix("iglu:").unwrap_or(uri).split('/');
    let (vendor, name) = (parts.next()?, parts.next()?);
    (!vendor.is_empty() && !name.is_empty()).then(|| format!("{vendor}/{name}"))
}

/// What the known contexts say; the others are extras.
fn read_contexts(draft: &mut Draft<'_>, contexts: &Json<'static>) {
    for context in contexts.get("data").and_then(Json::as_array).unwrap_or_default() {
        let Some(name) = context.get("schema").and_then(Json::as_str).and_then(schema_name) else { continue };
        match &*name {
            "com.snowplowanalytics.snowplow/client_session" => {
                let Some(data) = context.get("data") else { continue };
                draft.seq = data.get("eventIndex").and_then(integer);
                draft.session_index = draft.session_index.or_else(|| data.get("sessionIndex").and_then(integer));
                draft.context.fill(Leaf::SessionId, data.get("sessionId").and_then(id));
                draft.context.fill(Leaf::AnonymousId, data.get("userId").and_then(id));
            }
            "com.snowplowanalytics.snowplow/mobile_context" => {
                if let Some(system) = context.at(&["data", "osType"]) {
                    draft.context.set_word(Leaf::Os, &system.clone().into_owned());
                }
            }
            known if ours(known) => {}
            _ => draft.extras.push(name),
        }
    }
}

/// Contexts that the trackers add themselves and that say nothing that we keep.
fn ours(name: &str) -> bool {
    let Some(name) = name.split_once('/').filter(|(vendor, _)| vendor.starts_with("com.snowplowanalytics.")).map(|(_, name)| name) else {
        return name.starts_with("org.w3/") || name.starts_with("org.ietf/");
    };
    matches!(
        name,
        "web_page"
            | "browser_context"
            | "browser"
            | "performance_timing"
            | "application"
            | "application_context"
            | "screen"
            | "client_session"
    )
}

/// The parameters of the protocol that are no event's own.
fn of_the_protocol(key: &str) -> bool {
    const NAMES: [&str; 47] = [
        "e", "eid", "aid", "p", "tv", "tna", "url", "page", "refr", "res", "vp", "ds", "lang", "tz", "cs", "cd", "cookie", "ua", "ip",
        "uid", "duid", "nuid", "tnuid", "sid", "vid", "fp", "dtm", "ttm", "stm", "co", "cx", "ue_pr", "ue_px", "mac", "evn", "fl", "pv",
        "pid", "f_pdf", "f_qt", "f_realp", "f_wma", "f_dir", "f_fla", "f_java", "f_gears", "f_ag",
    ];
    NAMES.contains(&key)
}
