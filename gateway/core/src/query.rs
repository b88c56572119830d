//! Queries and forms: pairs, percent-decoding. `+` is a space, as browsers write it.
//!
//! Owns: reading `application/x-www-form-urlencoded` text. Does not own: what the names mean.
//! Invariant: of repeated names the last counts, as in JSON; text that does not decode is passed on as bytes.

use std::borrow::Cow;

/// Path and query of a request target; the query is empty when there is none.
pub fn split(target: &str) -> (&str, &str) {
    target.split_once('?').unwrap_or((target, ""))
}

/// Raw names and raw values, in order. A pair without `=` has an empty value; empty pairs are skipped.
pub fn pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    query.split(|b| *b == b'&').filter(|pair| !pair.is_empty()).map(|pair| match memchr::memchr(b'=', pair) {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        None => (pair, &pair[pair.len()..]),
    })
}

/// Percent-decoded bytes; `+` becomes a space. An escape that is none stays as it is.
pub fn bytes(raw: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', b'+', raw).is_none() {
        return Cow::Borrowed(raw);
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        out.push(match (byte, after) {
            (b'+', _) => b' ',
            (b'%', [high, low, tail @ ..]) => match (char::from(*high).to_digit(16), char::from(*low).to_digit(16)) {
                (Some(high), Some(low)) => {
                    rest = tail;
                    (high << 4 | low) as u8
                }
                _ => b'%',
            },
            _ => byte,
        });
    }
    Cow::Owned(out)
}

/// Percent-decoded text; bytes that are no UTF-8 become U+FFFD.
pub fn decode(raw: &str) -> String {
    String::from_utf8_lossy(&bytes(raw.as_bytes())).into_owned()
}

/// The raw value of the last pair of this name.
pub fn raw<'a>(query: &'a str, name: &str) -> Option<&'a [u8]> {
    pairs(query.as_bytes()).filter(|(key, _)| &*bytes(key) == name.as_bytes()).last().map(|(_, value)| value)
}

pub fn has(query: &str, name: &str) -> bool {
    raw(query, name).is_some()
}

/// The decoded value of the last pair of this name.
pub fn param(query: &str, name: &str) -> Option<String> {
    raw(query, name).map(|value| String::from_utf8_lossy(&bytes(value)).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_decode() {
        for (query, name, expected) in [
            ("a=1&b=2&a=3", "a", Some("3")),
            ("a=x%20y+z%2B", "a", Some("x y z+")),
            ("a=%C3%BC%e6%97%a5", "a", Some("ü日")),
            ("a=%zz%4", "a", Some("%zz%4")),
            ("%61=1", "a", Some("1")),
            ("a", "a", Some("")),
            ("a=b=c&&", "a", Some("b=c")),
            ("", "a", None),
            ("b=%ff", "b", Some("\u{fffd}")),
        ] {
            assert_eq!(param(query, name).as_deref(), expected, "{query}");
        }
    }
}
