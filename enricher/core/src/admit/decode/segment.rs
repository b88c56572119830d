//! The Segment family: Segment, RudderStack, Jitsu.
//!
//! Owns: where these SDKs keep what. A `track` is named by its event, any other call by its type.

use super::{Draft, Leaf, Members, id, integer, into_members, object, text, time};
use crate::pipeline::Reject;
use forebay_schemas::wire::harvested::Harvested;

pub(super) fn read<'a>(members: Members<'a>, harvested: &'a Harvested) -> Result<Draft<'a>, Reject> {
    let mut draft = Draft::default();
    let (mut kind, mut event, mut original_time, mut context) = (None, None, None, Vec::new());
    let (mut properties, mut traits) = (None, None);
    // Members of the call itself that are properties in our shape.
    let mut beside: Members<'a> = Vec::new();
    for (key, value) in members {
        match &*key {
            "type" => kind = text(&value),
            "event" => event = text(&value),
            "properties" => properties = Some(object(value)?),
            "traits" => traits = Some(object(value)?),
            "context" => context = into_members(value),
            "userId" | "user_id" => draft.context.set(Leaf::UserId, id(&value)),
            "anonymousId" | "anonymous_id" => draft.context.set(Leaf::AnonymousId, id(&value)),
            "timestamp" => draft.told.at = time::read(&value),
            "originalTimestamp" => original_time = time::read(&value),
            "sentAt" => draft.told.sent_at = time::read(&value),
            "name" | "category" | "groupId" | "previousId" if !value.is_null() => beside.push((key, value)),
            _ => {}
        }
    }
    draft.told.at = draft.told.at.or(original_time);
    // Where the event does not say it, the path of the request has named the call.
    let kind = kind.or_else(|| super::beside(harvested, "type").as_ref().and_then(text));
    let call = Call::of(kind.as_deref());
    let (is_page, has_traits) = (call == Call::Page, matches!(call, Call::Identify | Call::Group));
    draft.name = if call == Call::Track { event } else { kind };
    read_context(&mut draft, context, has_traits.then_some(&mut traits))?;
    let mut members = if has_traits { traits } else { properties }.unwrap_or_default();
    if is_page {
        members.iter().for_each(|(key, value)| draft.context.take_page(key, value));
        draft.ambient = of_a_page;
    }
    for (key, value) in beside {
        let known = match &*key {
            "name" | "category" => is_page && !members.iter().any(|(other, _)| *other == key),
            "groupId" => call == Call::Group,
            _ => call == Call::Alias,
        };
        if known {
            members.push((key, value));
        }
    }
    draft.properties = members;
    Ok(draft)
}

/// The calls that keep something in a place of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Track,
    /// Also a screen.
    Page,
    Identify,
    Group,
    Alias,
    Other,
}

impl Call {
    fn of(kind: Option<&str>) -> Call {
        match kind {
            None | Some("track") => Call::Track,
            Some("page" | "screen") => Call::Page,
            Some("identify") => Call::Identify,
            Some("group") => Call::Group,
            Some("alias") => Call::Alias,
            Some(_) => Call::Other,
        }
    }
}

/// `context`; RudderStack keeps the traits of an identify there.
fn read_context<'a>(draft: &mut Draft<'a>, context: Members<'a>, traits: Option<&mut Option<Members<'a>>>) -> Result<(), Reject> {
    draft.context.take_all(&context);
    let mut found = None;
    for (key, value) in context {
        match &*key {
            "sessionId" | "session_id" => draft.context.set(Leaf::SessionId, id(&value)),
            "sessionIndex" | "session_index" => draft.session_index = integer(&value),
            "traits" => found = Some(value),
            _ => {}
        }
    }
    if let (Some(traits @ None), Some(found)) = (traits, found) {
        *traits = Some(object(found)?);
    }
    Ok(())
}

/// What the page call of a browser SDK puts among the properties, and what stands in `page` already.
fn of_a_page(key: &str) -> bool {
    matches!(
        key,
        "url"
            | "path"
            | "title"
            | "referrer"
            | "search"
            | "hash"
            | "width"
            | "height"
            | "initial_referrer"
            | "initial_referring_domain"
            | "referring_domain"
            | "tab_url"
    )
}
