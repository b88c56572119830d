//! Words about a device: what SDKs say of system, browser, locale and library, as far as it is a known word.
//!
//! Owns: the closed lists. A device is described by categories; whoever sends another text there sends free text, which
//! has no business in them. Does not own: what follows from the user agent (`agent`).
//! Invariant: what is yielded is one of our words, digits and dots, or a code whose form leaves no room for a text.

use std::borrow::Cow;

/// What SDKs call it, in lower case → our word.
type Words = &'static [(&'static str, &'static str)];

const KINDS: Words = &[
    ("desktop", "desktop"),
    ("pc", "desktop"),
    ("mobile", "mobile"),
    ("phone", "mobile"),
    ("smartphone", "mobile"),
    ("android", "mobile"),
    ("ios", "mobile"),
    ("tablet", "tablet"),
    ("ipad", "tablet"),
    ("tv", "tv"),
    ("smarttv", "tv"),
    ("console", "console"),
    ("wearable", "wearable"),
    ("watch", "wearable"),
    ("bot", "bot"),
    ("server", "server"),
];
const SYSTEMS: Words = &[
    ("android", "Android"),
    ("ios", "iOS"),
    ("iphone os", "iOS"),
    ("ipados", "iOS"),
    ("mac os x", "macOS"),
    ("macos", "macOS"),
    ("darwin", "macOS"),
    ("windows", "Windows"),
    ("win32", "Windows"),
    ("linux", "Linux"),
    ("ubuntu", "Linux"),
    ("chrome os", "ChromeOS"),
    ("chromeos", "ChromeOS"),
    ("tvos", "tvOS"),
    ("watchos", "watchOS"),
    ("visionos", "visionOS"),
    ("harmonyos", "HarmonyOS"),
];
const BROWSERS: Words = &[
    ("chrome", "Chrome"),
    ("chrome ios", "Chrome"),
    ("chromium", "Chrome"),
    ("headlesschrome", "Chrome"),
    ("safari", "Safari"),
    ("mobile safari", "Safari"),
    ("firefox", "Firefox"),
    ("firefox ios", "Firefox"),
    ("edge", "Edge"),
    ("microsoft edge", "Edge"),
    ("opera", "Opera"),
    ("samsung internet", "SamsungBrowser"),
    ("internet explorer", "Internet Explorer"),
];
/// Without a scope's `@segment/`, and without what follows the name.
const LIBRARIES: &[&str] = &[
    "forebay-js",
    "forebay-android",
    "forebay-ios",
    "analytics.js",
    "analytics-node",
    "analytics-python",
    "analytics-ruby",
    "analytics-go",
    "analytics-java",
    "analytics-php",
    "analytics-kotlin",
    "analytics-swift",
    "analytics-android",
    "analytics-ios",
    "analytics-react-native",
    "analytics-flutter",
    "RudderLabs JavaScript SDK",
    "rudder-sdk-js",
    "rudder-sdk-node",
    "@rudderstack/rudder-sdk-node",
    "com.rudderstack.android.sdk.core",
    "rudder-ios-library",
    "jitsu/js",
    "web",
    "posthog-js",
    "posthog-node",
    "posthog-python",
    "posthog-ruby",
    "posthog-go",
    "posthog-php",
    "posthog-java",
    "posthog-android",
    "posthog-ios",
    "posthog-react-native",
    "posthog-flutter",
    "amplitude-ts",
    "amplitude-node-ts",
    "amplitude-react-native-ts",
    "amplitude-js",
    "amplitude-android",
    "amplitude-analytics-android",
    "amplitude-kotlin",
    "amplitude-ios",
    "amplitude-swift",
    "amplitude-python",
    "amplitude-flutter",
    "mixpanel",
    "swift",
    "js",
    "node",
    "py",
    "rb",
    "java",
    "golang",
    "php",
    "andr",
    "ios",
    "tvos",
    "rn",
    "flutter",
    "cpp",
    "net",
    "unity",
    "roku",
    "scala",
    "lua",
    "rust",
];
const AREAS: &[&str] =
    &["Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Etc", "Europe", "Indian", "Pacific", "US", "Canada"];

pub(super) fn kind(text: &str) -> Option<Cow<'static, str>> {
    word(KINDS, text)
}
pub(super) fn system(text: &str) -> Option<Cow<'static, str>> {
    word(SYSTEMS, text)
}
pub(super) fn browser(text: &str) -> Option<Cow<'static, str>> {
    word(BROWSERS, text)
}

fn word(words: Words, text: &str) -> Option<Cow<'static, str>> {
    let text = text.trim();
    words.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(text)).map(|(_, word)| Cow::Borrowed(*word))
}

/// A library's known name and the number of its version: `analytics.js/1.84.3`. The version may stand at the name's end.
pub(super) fn library(name: &str, version: Option<&str>) -> Option<Cow<'static, str>> {
    let bare = name.trim().trim_start_matches('@');
    let bare = bare.strip_prefix("segment/").unwrap_or(bare);
    // `js-4.10.1`, `analytics.js/1.84.3`
    let (stem, behind) = match bare.char_indices().rev().find(|(_, c)| !(c.is_ascii_digit() || *c == '.')) {
        Some((at, '-' | '/')) if at + 1 < bare.len() => (&bare[..at], Some(&bare[at + 1..])),
        _ => (bare, None),
    };
    let known = LIBRARIES.iter().find(|known| known.strip_prefix('@').unwrap_or(known).eq_ignore_ascii_case(stem))?;
    Some(match version.or(behind).and_then(number) {
        Some(number) => Cow::Owned(format!("{known}/{number}")),
        None => Cow::Borrowed(*known),
    })
}

/// `npm:next-1.84.3` → `1.84.3`
fn number(version: &str) -> Option<&str> {
    let start = version.find(|c: char| c.is_ascii_digit())?;
    let rest = &version[start..];
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    let number = rest[..end].trim_end_matches('.');
    (number.len() <= 16).then_some(number)
}

/// A BCP 47 tag such as `en-US`, `zh-Hant-TW`, `pt_BR`.
pub(super) fn is_locale(text: &str) -> bool {
    let mut parts = text.split(['-', '_']);
    let letters = |part: &str| part.bytes().all(|b| b.is_ascii_alphabetic());
    let language = parts.next().is_some_and(|part| matches!(part.len(), 2 | 3) && letters(part));
    language
        && text.len() <= 12
        && parts.all(|part| match part.len() {
            2 | 4 => letters(part),
            3 => part.bytes().all(|b| b.is_ascii_digit()),
            _ => false,
        })
}

/// An IANA name such as `Europe/Berlin`, or an offset such as `UTC`, `GMT+0100`, `+01:00`.
pub(super) fn is_timezone(text: &str) -> bool {
    if text.len() > 40 {
        return false;
    }
    if let Some((area, place)) = text.split_once('/') {
        return AREAS.contains(&area) && place.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'+'));
    }
    let offset = text.strip_prefix("UTC").or_else(|| text.strip_prefix("GMT")).unwrap_or(text);
    text == "Z"
        || offset.len() < text.len() && offset.is_empty()
        || !offset.is_empty() && offset.len() <= 6 && {
            let (sign, digits) = offset.split_at(offset.len().min(1));
            matches!(sign, "+" | "-") && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b':')
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_words_and_nothing_else() {
        for (name, version, expected) in [
            ("analytics.js", Some("npm:next-1.84.3"), Some("analytics.js/1.84.3")),
            ("@segment/analytics-node", Some("3.1.0"), Some("analytics-node/3.1.0")),
            ("RudderLabs JavaScript SDK", Some("3.34.1"), Some("RudderLabs JavaScript SDK/3.34.1")),
            ("@jitsu/js", Some("1.11.0"), Some("jitsu/js/1.11.0")),
            ("js-4.10.1", None, Some("js/4.10.1")),
            ("web", Some("1.449.2"), Some("web/1.449.2")),
            ("web", Some("pat@example.com"), Some("web")),
            ("pat", Some("1.0"), None),
            ("", None, None),
        ] {
            assert_eq!(library(name, version).as_deref(), expected, "{name}");
        }
        assert_eq!((system(" iPhone OS "), browser("Pat"), kind("Desktop")), (Some("iOS".into()), None, Some("desktop".into())));
    }

    #[test]
    fn codes_leave_no_room_for_a_text() {
        for (text, locale, timezone) in [
            ("en", true, false),
            ("en-US", true, false),
            ("zh-Hant-TW", true, false),
            ("pt_BR", true, false),
            ("es-419", true, false),
            ("en-patsmith", false, false),
            ("Europe/Berlin", false, true),
            ("America/Argentina/Buenos_Aires", false, true),
            ("Home/pat", false, false),
            ("UTC", true, true),
            ("GMT+0000", false, true),
            ("+01:00", false, true),
            ("pat@example.com", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_locale(text), is_timezone(text)), (locale, timezone), "{text:?}");
        }
    }
}
