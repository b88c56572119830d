//! What of a request's head is landed (design §4.1), and what of it goes on with each event.
//!
//! Owns: the closed lists. Does not own: write keys in bodies, which are public identifiers and stay.
//! Invariants: a header on no list is landed by name and length alone, but for the attributes of a CloudEvent, which are the
//! event; a secret becomes `*` of equal length, so that lengths and offsets stand; after `SP-Anonymous` no address and no
//! cookie is landed.

use crate::dialect::{cloudevents, snowplow};
use crate::query;
use bytes::Bytes;
use forebay_schemas::wire::raw_request::Header;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;

/// Whether headers that hold addresses (`X-Forwarded-For` …) are landed with their values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressHeaders {
    Land,
    Hide,
}

/// Landed with their values.
const LANDED: [&str; 41] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "anonymousid",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "dnt",
    "host",
    "idempotency-key",
    "origin",
    "posthog-attempt",
    "posthog-request-id",
    "posthog-request-timestamp",
    "posthog-sdk-info",
    "referer",
    "sec-ch-ua",
    "sec-ch-ua-arch",
    "sec-ch-ua-bitness",
    "sec-ch-ua-full-version-list",
    "sec-ch-ua-mobile",
    "sec-ch-ua-model",
    "sec-ch-ua-platform",
    "sec-ch-ua-platform-version",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-fetch-user",
    "sec-gpc",
    "sentat",
    "sp-anonymous",
    "traceparent",
    "transfer-encoding",
    "user-agent",
    "via",
    "x-amzn-trace-id",
    "x-ip-policy",
    "x-request-id",
    "x-requested-with",
    "x-retry-count",
];
/// Landed unless addresses are hidden.
const ADDRESSES: [&str; 8] = [
    "cf-connecting-ip",
    "fastly-client-ip",
    "forwarded",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-forwarded-for",
    "x-real-ip",
];
/// Landed as a marker.
const SECRETS: [&str; 8] =
    ["authorization", "cookie", "proxy-authorization", "x-api-key", "x-auth-token", "x-csrf-token", "x-write-key", "x-xsrf-token"];
/// Query names whose values are landed as a marker; compared without case.
const QUERY_SECRETS: [&str; 13] = [
    "access_token",
    "api_key",
    "api_secret",
    "apikey",
    "auth_token",
    "client_secret",
    "password",
    "secret",
    "sentry_key",
    "signature",
    "token",
    "write_key",
    "writekey",
];
/// What goes on with each event, for enrichment.
const HARVESTED: [&str; 8] =
    ["accept-language", "dnt", "origin", "referer", "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform", "sec-gpc"];

/// The headers of a request, as they came or as they were landed: what is read of both must be landed.
#[derive(Clone, Copy)]
pub(crate) enum Head<'a> {
    Sent(&'a HeaderMap),
    Landed(&'a [Header]),
}

impl<'a> Head<'a> {
    /// Visits names and values, the values of one name in their order.
    pub(crate) fn visit(self, mut visit: impl FnMut(&'a str, &'a [u8])) {
        match self {
            Head::Sent(headers) => headers.iter().for_each(|(name, value)| visit(name.as_str(), value.as_bytes())),
            Head::Landed(headers) => {
                headers
                    .iter()
                    .filter_map(|header| Some((&*header.name, header.value.as_deref()?)))
                    .for_each(|(name, value)| visit(name, value));
            }
        }
    }

    /// `Content-Encoding`, as one line.
    pub(crate) fn encoding(self) -> Cow<'a, [u8]> {
        let mut lines = Vec::new();
        self.visit(|name, value| {
            if name == http::header::CONTENT_ENCODING.as_str() {
                lines.push(value);
            }
        });
        list(lines.into_iter())
    }
}

/// Snowplow's `SP-Anonymous`: the sender wants no address and no cookie kept. Acts before the spool.
pub fn anonymous(headers: &HeaderMap) -> bool {
    headers.contains_key("sp-anonymous")
}

/// The headers as they are landed, in the order in which they came.
pub fn landed(headers: &HeaderMap, addresses: AddressHeaders) -> Vec<Header> {
    let hidden = anonymous(headers) || addresses == AddressHeaders::Hide;
    headers.iter().map(|(name, value)| header(name, value, hidden, anonymous(headers))).collect()
}

fn header(name: &HeaderName, value: &HeaderValue, hide_addresses: bool, hide_cookies: bool) -> Header {
    let bytes = value.as_bytes();
    let is_in = |list: &[&str]| list.binary_search(&name.as_str()).is_ok();
    let kept = if is_in(&SECRETS) {
        Some(if name == http::header::COOKIE && !hide_cookies { cookies(bytes) } else { vec![b'*'; bytes.len()].into() })
    } else if is_in(&LANDED) || is_attribute(name) || (is_in(&ADDRESSES) && !hide_addresses) {
        Some(Bytes::copy_from_slice(bytes))
    } else {
        None
    };
    Header { name: name.as_str().to_owned(), value: kept, length: u32::try_from(bytes.len()).unwrap_or(u32::MAX) }
}

/// CloudEvents' attributes are the event itself, which could not be made again without them. They hold no credentials: the
/// specification keeps those out, since attributes are there to be read by every router on the way. They are bounded as all
/// headers are.
fn is_attribute(name: &HeaderName) -> bool {
    name.as_str().starts_with(cloudevents::PREFIX)
}

/// Every cookie by its name; only the named one with its value. A broken pair does not spoil its neighbours.
fn cookies(line: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(line.len());
    for (n, pair) in line.split(|b| *b == b';').enumerate() {
        if n > 0 {
            out.push(b';');
        }
        let name = memchr::memchr(b'=', pair).map_or(0, |at| at + 1);
        if pair[..name].trim_ascii() == format!("{}=", snowplow::COOKIE).as_bytes() {
            out.extend_from_slice(pair);
        } else {
            out.extend_from_slice(&pair[..name]);
            out.resize(out.len() + pair.len() - name, b'*');
        }
    }
    out.into()
}

/// The target with secrets in its query replaced by a marker of equal length.
pub fn landed_target(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
    let mut out = String::with_capacity(target.len());
    out.push_str(path);
    out.push('?');
    for (n, pair) in query.split('&').enumerate() {
        if n > 0 {
            out.push('&');
        }
        match pair.split_once('=') {
            Some((name, value)) if QUERY_SECRETS.contains(&query::decode(name).to_ascii_lowercase().as_str()) => {
                out.push_str(name);
                out.push('=');
                out.extend(std::iter::repeat_n('*', value.len()));
            }
            _ => out.push_str(pair),
        }
    }
    out
}

/// The user agent and the headers for enrichment, of a landed record.
pub(crate) fn harvested(landed: &[Header]) -> (Option<String>, Vec<(String, String)>) {
    let text = |header: &Header| header.value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
    let user_agent = landed.iter().find(|header| header.name == "user-agent").and_then(text);
    let mut headers: Vec<(String, String)> = Vec::new();
    for header in landed.iter().filter(|header| HARVESTED.contains(&header.name.as_str())) {
        if let Some(value) = text(header)
            && !headers.iter().any(|(name, _)| *name == header.name)
        {
            headers.push((header.name.clone(), value));
        }
    }
    (user_agent, headers)
}

/// The lines of a header that is a list, as the one line that they mean (RFC 9110, 5.3).
fn list<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> Cow<'a, [u8]> {
    let first = Cow::Borrowed(lines.next().unwrap_or_default());
    lines.fold(first, |line, next| Cow::Owned([&line, next].join(&b',')))
}

/// The value of a landed header.
pub(crate) fn value<'a>(landed: &'a [Header], name: &str) -> Option<&'a [u8]> {
    landed.iter().find(|header| header.name == name).and_then(|header| header.value.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse::<HeaderValue>().expect("a value"))).collect()
    }
    fn shown(pairs: &[(&'static str, &str)], addresses: AddressHeaders) -> Vec<String> {
        let value = |h: &Header| h.value.as_ref().map_or("-".to_owned(), |v| String::from_utf8_lossy(v).into_owned());
        landed(&map(pairs), addresses).iter().map(|h| format!("{} {} {}", h.name, value(h), h.length)).collect()
    }

    #[test]
    fn lists_are_sorted_for_the_search() {
        assert!(LANDED.is_sorted() && ADDRESSES.is_sorted() && SECRETS.is_sorted());
    }

    #[test]
    fn secrets_become_markers_and_unknown_headers_their_length() {
        assert_eq!(
            shown(
                &[
                    ("user-agent", "UA"),
                    ("authorization", "Basic d2s6"),
                    ("cookie", "a=1; sp=abc;AS_JSON={\\\"k\\\":\\\"v\\\"}; x"),
                    ("x-custom", "secret"),
                    ("ce-source", "/shop"),
                    ("x-forwarded-for", "192.0.2.1"),
                ],
                AddressHeaders::Land
            ),
            [
                "user-agent UA 2",
                "authorization ********** 10",
                "cookie a=*; sp=abc;AS_JSON=*************;** 36",
                "x-custom - 6",
                "ce-source /shop 5",
                "x-forwarded-for 192.0.2.1 9"
            ]
        );
    }

    #[test]
    fn anonymous_requests_leave_no_address_and_no_cookie() {
        let pairs = [("sp-anonymous", "*"), ("cookie", "sp=abc"), ("x-forwarded-for", "192.0.2.1")];
        assert_eq!(shown(&pairs, AddressHeaders::Land), ["sp-anonymous * 1", "cookie ****** 6", "x-forwarded-for - 9"]);
        assert_eq!(shown(&pairs[2..], AddressHeaders::Hide), ["x-forwarded-for - 9"]);
    }

    #[test]
    fn secrets_in_the_query_become_markers() {
        for (target, expected) in [
            ("/mp/collect?api_secret=abc&x=1", "/mp/collect?api_secret=***&x=1"),
            ("/b?writeKey=wk&WRITE_KEY=k&api%5fkey=%20", "/b?writeKey=**&WRITE_KEY=*&api%5fkey=***"),
            ("/i?e=pv&aid=shop&token", "/i?e=pv&aid=shop&token"),
            ("/i?token=ü&&", "/i?token=**&&"),
            ("/i", "/i"),
        ] {
            assert_eq!(landed_target(target), expected);
            assert_eq!(landed_target(target).len(), target.len());
        }
    }
}
