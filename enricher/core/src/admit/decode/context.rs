//! What stands beside the properties: ids, page, device, campaign. Borrowed from the event, not judged yet.
//!
//! Owns: the leaves and their places in the context schema; how the native and the Segment family's `context` fill
//! them. Does not own: which of it may pass (`plan`, `mask`).

use super::{Members, device, integer, text};
use crate::admit::percent;
use forebay_schemas::json::Json;
use std::borrow::Cow;

type Text<'a> = Option<Cow<'a, str>>;

/// A text beside the properties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaf {
    UserId,
    AnonymousId,
    SessionId,
    Url,
    Path,
    Title,
    Referrer,
    /// What the SDK itself says of its device, in known words; told only where the user agent says nothing.
    Kind,
    Os,
    Browser,
    Locale,
    Timezone,
    Library,
    Source,
    Medium,
    Name,
    Term,
    Content,
}

impl Leaf {
    pub const ALL: [Leaf; 18] = [
        Leaf::UserId,
        Leaf::AnonymousId,
        Leaf::SessionId,
        Leaf::Url,
        Leaf::Path,
        Leaf::Title,
        Leaf::Referrer,
        Leaf::Kind,
        Leaf::Os,
        Leaf::Browser,
        Leaf::Locale,
        Leaf::Timezone,
        Leaf::Library,
        Leaf::Source,
        Leaf::Medium,
        Leaf::Name,
        Leaf::Term,
        Leaf::Content,
    ];
    /// Its place in the context schema.
    pub fn path(self) -> &'static [&'static str] {
        match self {
            Leaf::UserId => &["user_id"],
            Leaf::AnonymousId => &["anonymous_id"],
            Leaf::SessionId => &["session_id"],
            Leaf::Url => &["page", "url"],
            Leaf::Path => &["page", "path"],
            Leaf::Title => &["page", "title"],
            Leaf::Referrer => &["page", "referrer"],
            Leaf::Kind => &["device", "type"],
            Leaf::Os => &["device", "os"],
            Leaf::Browser => &["device", "browser"],
            Leaf::Locale => &["device", "locale"],
            Leaf::Timezone => &["device", "timezone"],
            Leaf::Library => &["device", "library"],
            Leaf::Source => &["campaign", "source"],
            Leaf::Medium => &["campaign", "medium"],
            Leaf::Name => &["campaign", "name"],
            Leaf::Term => &["campaign", "term"],
            Leaf::Content => &["campaign", "content"],
        }
    }
}

/// Places of the two numbers beside the properties.
pub(crate) const SCREEN: [&[&str]; 2] = [&["device", "screen_width"], &["device", "screen_height"]];

#[derive(Default)]
pub(crate) struct Context<'a> {
    pub texts: [Text<'a>; Leaf::ALL.len()],
    /// Width and height.
    pub screen: [Option<i64>; 2],
    /// Never told; it yields the kind of device, its system and browser.
    pub user_agent: Text<'a>,
}

impl<'a> Context<'a> {
    pub fn get(&self, leaf: Leaf) -> Option<&str> {
        self.texts[leaf as usize].as_deref()
    }
    pub fn set(&mut self, leaf: Leaf, text: Text<'a>) {
        self.texts[leaf as usize] = text;
    }
    /// Sets it as far as it is a known word or a code.
    pub fn set_word(&mut self, leaf: Leaf, value: &Json<'a>) {
        let Some(text) = text(value) else { return };
        let word = match leaf {
            Leaf::Kind => device::kind(&text),
            Leaf::Os => device::system(&text),
            Leaf::Browser => device::browser(&text),
            Leaf::Library => device::library(&text, None),
            Leaf::Locale => Some(text).filter(|text| device::is_locale(text)),
            Leaf::Timezone => Some(text).filter(|text| device::is_timezone(text)),
            _ => None,
        };
        self.set(leaf, word);
    }
    /// A library by its name and version.
    pub fn set_library(&mut self, name: &Json<'_>, version: Option<&Json<'_>>) {
        self.set(Leaf::Library, name.as_str().and_then(|name| device::library(name, version.and_then(Json::as_text))));
    }
    /// Sets it where nothing stands yet.
    pub fn fill(&mut self, leaf: Leaf, text: Text<'a>) {
        if self.get(leaf).is_none() {
            self.set(leaf, text);
        }
    }

    /// Takes the member if it belongs to a page.
    pub fn take_page(&mut self, key: &str, value: &Json<'a>) {
        match key {
            "url" => self.set(Leaf::Url, text(value)),
            "path" => self.set(Leaf::Path, text(value)),
            "title" => self.set(Leaf::Title, text(value)),
            "referrer" => self.set(Leaf::Referrer, text(value).filter(|referrer| referrer != "$direct")),
            _ => {}
        }
    }

    /// Takes the member if it belongs to a campaign, by its plain or its `utm_` name.
    pub fn take_campaign(&mut self, key: &str, value: &Json<'a>) {
        match key {
            "source" | "utm_source" => self.set(Leaf::Source, text(value)),
            "medium" | "utm_medium" => self.set(Leaf::Medium, text(value)),
            "name" | "campaign" | "utm_campaign" => self.set(Leaf::Name, text(value)),
            "term" | "utm_term" => self.set(Leaf::Term, text(value)),
            "content" | "utm_content" => self.set(Leaf::Content, text(value)),
            _ => {}
        }
    }

    /// The `context` object of the Segment family, and of the native dialect, which knows both spellings.
    pub fn take_all(&mut self, members: &Members<'a>) {
        for (key, value) in members {
            match &**key {
                "page" => each(value, |key, value| self.take_page(key, value)),
                "campaign" => each(value, |key, value| self.take_campaign(key, value)),
                "locale" => self.set_word(Leaf::Locale, value),
                "timezone" => self.set_word(Leaf::Timezone, value),
                "userAgent" | "user_agent" => self.user_agent = text(value),
                "library" => self.take_library(value),
                "screen" => each(value, |key, value| match key {
                    "width" => self.screen[0] = integer(value),
                    "height" => self.screen[1] = integer(value),
                    _ => {}
                }),
                "os" => self.set_word(Leaf::Os, value.get("name").unwrap_or(value)),
                "device" => each(value, |key, value| self.take_device(key, value)),
                _ => {}
            }
        }
    }

    fn take_device(&mut self, key: &str, value: &Json<'a>) {
        match key {
            "type" | "kind" => self.set_word(Leaf::Kind, value),
            "os" => self.set_word(Leaf::Os, value),
            "browser" => self.set_word(Leaf::Browser, value),
            "locale" => self.set_word(Leaf::Locale, value),
            "timezone" => self.set_word(Leaf::Timezone, value),
            "library" => self.take_library(value),
            "screen_width" => self.screen[0] = integer(value),
            "screen_height" => self.screen[1] = integer(value),
            _ => {}
        }
    }

    fn take_library(&mut self, value: &Json<'a>) {
        match value.get("name") {
            Some(name) => self.set_library(name, value.get("version")),
            None => self.set_word(Leaf::Library, value),
        }
    }

    /// `1280x720`
    pub fn take_screen(&mut self, value: &Json<'_>) {
        if let Some((width, height)) = value.as_str().and_then(|text| text.split_once('x')) {
            self.screen = [width.parse().ok(), height.parse().ok()];
        }
    }

    /// What follows from the URL where the SDK did not say it: the path, and the campaign of `utm_` parameters.
    pub fn complete(&mut self) {
        let Some(url) = &self.texts[Leaf::Url as usize] else { return };
        let path = match url {
            Cow::Borrowed(url) => path_of(url).map(Cow::Borrowed),
            Cow::Owned(url) => path_of(url).map(|path| Cow::Owned(path.to_owned())),
        };
        let named = [Leaf::Source, Leaf::Medium, Leaf::Name, Leaf::Term, Leaf::Content].iter().any(|leaf| self.get(*leaf).is_some());
        let campaign = if !named && url.contains("utm_") { campaign_of(url) } else { Vec::new() };
        self.fill(Leaf::Path, path);
        campaign.into_iter().for_each(|(key, value)| self.take_campaign(&key, &Json::String(Cow::Owned(value))));
    }
}

fn path_of(url: &str) -> Option<&str> {
    let url = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map(|at| &rest[at..]),
        None => url.starts_with('/').then_some(url),
    }
}

fn campaign_of(url: &str) -> Vec<(String, String)> {
    let query = url.split('#').next().and_then(|url| url.split_once('?')).map_or("", |(_, query)| query);
    let utm = query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(key, value)| key.starts_with("utm_") && !value.is_empty());
    utm.filter_map(|(key, value)| Some((key.to_owned(), String::from_utf8(percent::decode(value.as_bytes(), true)).ok()?))).collect()
}

fn each<'a>(value: &Json<'a>, mut take: impl FnMut(&str, &Json<'a>)) {
    for (key, value) in value.as_object().unwrap_or_default() {
        take(key, value);
    }
}
