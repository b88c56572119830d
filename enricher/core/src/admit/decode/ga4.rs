//! GA4 Measurement Protocol.
//!
//! Owns: where it keeps what. Who and when stand beside the list of events, the rest among an event's parameters. Products are
//! a list, `items`, whatever the event; of the types that tell of one product, the one item is the event's own.

use super::{Draft, Leaf, Members, envelope, id, integer, into_members, object, text, time};
use crate::pipeline::Reject;
use forebay_schemas::json::Json;
use forebay_schemas::wire::harvested::Harvested;
use std::borrow::Cow;

const ITEMS: &str = "items";
/// Events of which our types tell one product, in their properties.
const OF_ONE_PRODUCT: [&str; 5] = ["add_to_cart", "remove_from_cart", "view_item", "select_item", "add_to_wishlist"];
/// What an item calls otherwise than our products do. Here, for a schema gives names to the properties of an event alone.
const ITEM_NAMES: [(&str, &str); 6] = [
    ("item_id", "product_id"),
    ("item_name", "name"),
    ("item_brand", "brand"),
    ("item_category", "category"),
    ("item_variant", "variant"),
    ("index", "position"),
];

pub(super) fn read<'a>(members: Members<'a>, event: &'a Harvested) -> Result<Draft<'a>, Reject> {
    let mut draft = Draft { ambient: of_the_protocol, ..Draft::default() };
    let (mut client, mut app) = (None, None);
    for (key, value) in envelope(event) {
        match &*key {
            "client_id" => client = id(&value),
            "app_instance_id" => app = id(&value),
            "user_id" => draft.context.set(Leaf::UserId, id(&value)),
            "timestamp_micros" => draft.told.at = time::read(&value),
            "user_agent" => draft.context.user_agent = text(&value),
            "device" => take_device(&mut draft, &value),
            _ => {}
        }
    }
    draft.context.set(Leaf::AnonymousId, client.or(app));
    for (key, value) in members {
        match &*key {
            "name" => draft.name = text(&value),
            "params" => draft.properties = object(value)?,
            // The event's own comes before the one beside the list.
            "timestamp_micros" => draft.told.at = time::read(&value).or(draft.told.at),
            _ => draft.extras.push(key.into_owned()),
        }
    }
    let context = &mut draft.context;
    for (key, value) in &draft.properties {
        match &**key {
            "session_id" => context.set(Leaf::SessionId, id(value)),
            "session_number" => draft.session_index = integer(value),
            "page_location" => context.set(Leaf::Url, text(value)),
            "page_title" => context.set(Leaf::Title, text(value)),
            "page_referrer" => context.set(Leaf::Referrer, text(value)),
            "language" => context.set_word(Leaf::Locale, value),
            "screen_resolution" => context.take_screen(value),
            _ => {}
        }
    }
    take_items(&mut draft);
    Ok(draft)
}

fn take_device<'a>(draft: &mut Draft<'a>, device: &Json<'a>) {
    for (key, value) in device.as_object().unwrap_or_default() {
        match &**key {
            "category" => draft.context.set_word(Leaf::Kind, value),
            "operating_system" => draft.context.set_word(Leaf::Os, value),
            "browser" => draft.context.set_word(Leaf::Browser, value),
            "language" => draft.context.set_word(Leaf::Locale, value),
            "screen_resolution" => draft.context.take_screen(value),
            _ => {}
        }
    }
}

/// Gives the items the names of our products, and lifts the only one where the type tells of one.
fn take_items(draft: &mut Draft<'_>) {
    let of_one = draft.name.as_deref().is_some_and(|name| OF_ONE_PRODUCT.contains(&name));
    let Some(at) = draft.properties.iter().rposition(|(key, _)| key == ITEMS) else { return };
    let Json::Array(items) = &mut draft.properties[at].1 else { return };
    items.iter_mut().for_each(|item| {
        if let Json::Object(members) = item {
            own_names(members);
        }
    });
    if of_one && matches!(&items[..], [Json::Object(_)]) {
        let mut lifted: Members<'_> = std::mem::take(items).into_iter().flat_map(into_members).collect();
        draft.properties.retain(|(key, _)| key != ITEMS);
        // Of repeated names the last stands: the event's own parameter.
        lifted.append(&mut draft.properties);
        draft.properties = lifted;
    }
}

/// If both names are there, our own wins.
fn own_names(members: &mut Members<'_>) {
    for (foreign, own) in ITEM_NAMES {
        if !members.iter().any(|(key, _)| key == own) {
            members.iter_mut().filter(|(key, _)| key == foreign).for_each(|(key, _)| *key = Cow::Borrowed(own));
        }
    }
}

/// What Google's libraries send along with any event, or what went into the context.
fn of_the_protocol(key: &str) -> bool {
    key.starts_with("page_")
        || matches!(key, "engagement_time_msec" | "session_id" | "session_number" | "debug_mode" | "language" | "screen_resolution")
}
