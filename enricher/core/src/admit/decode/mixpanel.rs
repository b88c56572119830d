//! Mixpanel.
//!
//! Owns: where its SDKs keep what. An event is a name and properties; an update of a profile is named by its operation.

use super::{Draft, Leaf, Members, id, integer, object, text, time};
use crate::pipeline::Reject;
use std::borrow::Cow;

/// In a `distinct_id`, before the id of a device.
const DEVICE: &str = "$device:";

pub(super) fn read<'a>(members: Members<'a>) -> Result<Draft<'a>, Reject> {
    let mut draft = Draft { ambient: of_the_sdk, ..Draft::default() };
    let mut who = Who::default();
    let mut operation = None;
    for (key, value) in members {
        match &*key {
            "event" => draft.name = text(&value),
            "properties" => draft.properties = object(value)?,
            "$time" => draft.told.at = time::read(&value),
            "$distinct_id" | "$device_id" | "$user_id" => who.take(&key, &value),
            "$token" | "$ip" | "$ignore_time" | "$ignore_alias" | "$group_key" | "$group_id" => {}
            _ if key.starts_with('$') => operation = Some((key, value)),
            _ => draft.extras.push(key.into_owned()),
        }
    }
    if let Some((name, value)) = operation.filter(|_| draft.name.is_none()) {
        draft.name = Some(name);
        draft.properties = object(value).unwrap_or_default();
    }
    let (mut library, mut version) = (None, None);
    let context = &mut draft.context;
    for (key, value) in &draft.properties {
        match &**key {
            "time" => draft.told.at = time::read(value),
            "distinct_id" | "$device_id" | "$user_id" | "$identified_id" => who.take(key, value),
            "$current_url" => context.set(Leaf::Url, text(value)),
            "current_url_path" => context.set(Leaf::Path, text(value)),
            "current_page_title" => context.set(Leaf::Title, text(value)),
            "$referrer" => context.take_page("referrer", value),
            "$screen_width" => context.screen[0] = integer(value),
            "$screen_height" => context.screen[1] = integer(value),
            "$os" => context.set_word(Leaf::Os, value),
            "$browser" => context.set_word(Leaf::Browser, value),
            "$device" => context.set_word(Leaf::Kind, value),
            "mp_lib" => library = Some(value),
            "$lib_version" => version = Some(value),
            other if other.starts_with("utm_") => context.take_campaign(other, value),
            _ => {}
        }
    }
    if let Some(library) = library {
        context.set_library(library, version);
    }
    let Who { user, device, distinct } = who;
    let of_a_device = distinct.as_deref().is_some_and(|distinct| distinct.starts_with(DEVICE));
    let without_prefix = |distinct: Cow<'a, str>| match distinct {
        Cow::Borrowed(text) => Cow::Borrowed(text.strip_prefix(DEVICE).unwrap_or(text)),
        Cow::Owned(text) => Cow::Owned(text.strip_prefix(DEVICE).unwrap_or(&text).to_owned()),
    };
    let (named, device_of_distinct) = if of_a_device { (None, distinct.map(without_prefix)) } else { (distinct, None) };
    // Old SDKs give a device no prefix: who was never identified has one id, which is both.
    let same = user.is_none() && named.is_some() && named == device;
    draft.context.set(Leaf::AnonymousId, device.or(device_of_distinct));
    draft.context.set(Leaf::UserId, user.or(named.filter(|_| !same)));
    Ok(draft)
}

#[derive(Default)]
struct Who<'a> {
    user: Option<Cow<'a, str>>,
    device: Option<Cow<'a, str>>,
    distinct: Option<Cow<'a, str>>,
}

impl<'a> Who<'a> {
    fn take(&mut self, key: &str, value: &forebay_schemas::json::Json<'a>) {
        let place = match key {
            "$device_id" => &mut self.device,
            "$user_id" | "$identified_id" => &mut self.user,
            _ => &mut self.distinct,
        };
        *place = id(value).or(place.take());
    }
}

/// What the SDKs add to events of their own accord.
fn of_the_sdk(key: &str) -> bool {
    key.starts_with('$')
        || key.starts_with("mp_")
        || key.starts_with("utm_")
        || matches!(
            key,
            "token"
                | "time"
                | "distinct_id"
                | "current_domain"
                | "current_page_title"
                | "current_url_path"
                | "current_url_protocol"
                | "current_url_search"
        )
}
