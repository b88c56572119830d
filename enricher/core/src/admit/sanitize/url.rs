//! URLs: what may stand in one without saying who somebody is.
//!
//! User info, fragment and every query parameter that is not on the allow-list go. Host, path segments and the
//! values that stay are scanned, decoded first. Schemes without a host (`mailto:`, `data:`) keep their name alone.

use crate::admit::memo::{self, Rule};
use crate::admit::{percent, scan};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The query parameters that may stay in a URL.
pub(crate) struct Allowed {
    names: BTreeSet<String>,
    rule: Rule,
}

impl Allowed {
    pub fn new(names: BTreeSet<String>) -> Allowed {
        let mut hash = Sha256::new_with_prefix("url");
        for name in &names {
            hash.update([0]);
            hash.update(name);
        }
        let rule = Rule(u64::from_be_bytes(*hash.finalize().first_chunk().expect("SHA-256 has 32 bytes")));
        Allowed { names, rule }
    }
}

/// The clean URL; `None` when it is clean as it is. A text that is no URL is taken as a relative one.
pub(super) fn sanitize(text: &str, allowed: &Allowed) -> Option<String> {
    memo::of(allowed.rule, text, |text| clean(text, &allowed.names))
}

fn clean(text: &str, allowed: &BTreeSet<String>) -> Option<String> {
    let (rest, _) = text.split_once('#').unwrap_or((text, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut out = String::with_capacity(text.len());
    let path = match scheme(rest) {
        Some((scheme, rest)) => {
            out.push_str(scheme);
            match rest.strip_prefix("//") {
                Some(rest) => authority(rest, &mut out),
                None if rest == "blank" => rest,
                None => return (out != text).then_some(out),
            }
        }
        None => match rest.strip_prefix("//") {
            Some(rest) => authority(rest, &mut out),
            None => rest,
        },
    };
    for (n, segment) in path.split('/').enumerate() {
        if n > 0 {
            out.push('/');
        }
        // What stands behind a semicolon is a parameter, often a session.
        component(segment.split(';').next().unwrap_or_default(), false, &mut out);
    }
    let mut sign = '?';
    for (name, value) in query.split(['&', ';']).map(|pair| pair.split_once('=').unwrap_or((pair, ""))) {
        if allowed.contains(name) {
            out.push(sign);
            out.push_str(name);
            out.push('=');
            component(value, true, &mut out);
            sign = '&';
        }
    }
    (out != text).then_some(out)
}

/// `https:` and what follows.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(':')?;
    let (scheme, rest) = (&text[..end], &text[end + 1..]);
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.len() <= 32
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    // `localhost:8080/a` has a port, no scheme.
    (valid && !rest.starts_with(|c: char| c.is_ascii_digit())).then(|| (&text[..end + 1], rest))
}

/// Writes `//host:port` and yields the path.
fn authority<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let end = rest.find('/').unwrap_or(rest.len());
    // A backslash is a slash to browsers; everything up to the last `@` is user info.
    let host = rest[..end].rsplit('@').next().unwrap_or_default().split('\\').next().unwrap_or_default();
    out.push_str("//");
    match scan::search(host) {
        Some(redacted) => out.push_str(&redacted),
        None if host.contains('%') => out.push_str("[token]"),
        None => out.push_str(host),
    }
    &rest[end..]
}

/// A path segment or a query value, as it is when there is nothing to mark in it.
fn component(text: &str, plus: bool, out: &mut String) {
    if text.is_empty() {
        return;
    }
    let encoded = text.bytes().any(|byte| byte == b'%' || byte == b'+' && plus);
    let decoded = encoded.then(|| percent::decode(text.as_bytes(), plus));
    let decoded = decoded.as_deref().map_or(Cow::Borrowed(text), String::from_utf8_lossy);
    match scan::search(&decoded) {
        Some(redacted) => percent::encode(&redacted, out),
        None => out.push_str(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_nothing_of_a_person_stays() {
        let allowed = Allowed::new(BTreeSet::from(["utm_source".to_owned(), "q".to_owned()]));
        for (text, expected) in [
            ("https://shop.example/a/b", "https://shop.example/a/b"),
            ("https://shop.example", "https://shop.example"),
            (
                "https://pat:pw@shop.example/reset/pat%40example.com/550e8400-e29b-41d4-a716-446655440000?token=1&utm_source=news#top",
                "https://shop.example/reset/[email]/[token]?utm_source=news",
            ),
            ("https://pat:pw@shop.example:8443/a?x=1&utm_source=news#frag", "https://shop.example:8443/a?utm_source=news"),
            ("http://localhost:18901/page/p.html#127.0.0.1:18900", "http://localhost:18901/page/p.html"),
            ("https://shop.example/u/pat@example.com/x", "https://shop.example/u/[email]/x"),
            ("https://shop.example/u/pat%40example.com", "https://shop.example/u/[email]"),
            ("https://shop.example/to+49%20170%205550123/%20", "https://shop.example/to[phone]/%20"),
            ("https://shop.example/r/550e8400-e29b-41d4-a716-446655440000", "https://shop.example/r/[token]"),
            ("https://shop.example/ü/%C3%BC", "https://shop.example/ü/%C3%BC"),
            ("https://shop.example/a;jsessionid=1A2B/b", "https://shop.example/a/b"),
            ("https://shop.example/?q=pat%40example.com&q=a+b;utm_source", "https://shop.example/?q=[email]&q=a+b&utm_source="),
            ("https://203.0.113.7/a", "https://[ip]/a"),
            ("//shop.example/a?b", "//shop.example/a"),
            ("/a?token=1#x", "/a"),
            ("mailto:pat@example.com", "mailto:"),
            ("data:text/html,pat", "data:"),
            ("about:blank", "about:blank"),
            ("$direct", "$direct"),
            ("pat@example.com", "[email]"),
            ("localhost:8080/a", "localhost:8080/a"),
            ("", ""),
        ] {
            assert_eq!(sanitize(text, &allowed).as_deref().unwrap_or(text), expected, "{text}");
        }
        // What one list lets pass is not remembered for another.
        let (text, none) = ("https://shop.example/a?utm_source=news", Allowed::new(BTreeSet::new()));
        assert_eq!((sanitize(text, &allowed), sanitize(text, &none).as_deref()), (None, Some("https://shop.example/a")));
    }
}
