//! What is told of an event, as one text: easy to read in a table of expectations.

use crate::fixtures::pipeline;
use forebay_enricher_core::{Pipeline, deliver};
use forebay_schemas::wire::harvested::Harvested;
use forebay_schemas::wire::trusted::{self, Provenance, Trusted};
use std::borrow::Cow;

/// The event as it stands on the topic of trusted events, or why it does not.
pub fn admit(pipeline: &Pipeline, event: &Harvested) -> Result<Trusted<'static>, String> {
    let admitted = pipeline.admit(event).map_err(|reject| {
        assert_eq!(reject.stage, reject.reason.stage());
        format!("{}: {}", reject.reason.name(), reject.detail)
    })?;
    let provenance = Provenance { request_id: event.request_id, partition: 0, offset: 0, pipeline: pipeline.fingerprint().to_owned() };
    let value: &'static [u8] = deliver::trusted(admitted.masked, provenance).leak();
    Ok(trusted::decode(value).expect("what is delivered can be read"))
}

/// `type | time, origin | ids | page | device | campaign | properties`, what is absent left out. Tokens as `u`, `a`, `s`.
pub fn told(event: &Harvested) -> String {
    match admit(&pipeline(), event) {
        Ok(trusted) => line(&trusted),
        Err(reject) => reject,
    }
}

pub fn line(event: &Trusted) -> String {
    let some = |name: &str, value: &Option<Cow<'_, str>>| value.as_ref().map(|value| format!("{name}={value}"));
    let number = |name: &str, value: Option<i64>| value.map(|value| format!("{name}={value}"));
    let id = |name: &str, value: &Option<Cow<'_, str>>| {
        value.as_ref().map(|token| {
            assert!(token.starts_with("k1.") && token.len() == 25, "{token} is no token");
            name.to_owned()
        })
    };
    let (page, device, campaign) =
        (event.page.clone().unwrap_or_default(), event.device.clone().unwrap_or_default(), event.campaign.clone().unwrap_or_default());
    let groups = [
        vec![Some(format!("{} {}", event.event_type, event.schema_version))],
        vec![Some(format!("{} {}", event.event_time, event.time_origin.name()))],
        vec![
            id("user", &event.user_id),
            id("anonymous", &event.anonymous_id),
            id("session", &event.session_id),
            number("seq", event.seq),
            number("visit", event.session_index),
        ],
        vec![some("url", &page.url), some("path", &page.path), some("title", &page.title), some("referrer", &page.referrer)],
        vec![
            some("type", &device.kind),
            some("os", &device.os),
            some("browser", &device.browser),
            some("locale", &device.locale),
            some("timezone", &device.timezone),
            number("width", device.screen_width),
            number("height", device.screen_height),
            some("library", &device.library),
        ],
        vec![
            some("source", &campaign.source),
            some("medium", &campaign.medium),
            some("name", &campaign.name),
            some("term", &campaign.term),
            some("content", &campaign.content),
        ],
        vec![Some(event.properties.to_string())],
    ];
    let words = groups.into_iter().map(|group| group.into_iter().flatten().collect::<Vec<_>>().join(" "));
    words.filter(|group| !group.is_empty()).collect::<Vec<_>>().join(" | ")
}
