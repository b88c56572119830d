//! E-mail addresses: what stands around an `@`, as wide as an address may be.

use super::{Hits, Mark};

pub(super) fn find(text: &str, hits: &mut Hits) {
    for (at, sign) in text.char_indices().filter(|(_, c)| *c == '@') {
        let local = local(&text[..at]);
        let domain = domain(&text[at + sign.len_utf8()..]);
        if local > 0 && domain > 0 {
            hits.push((at - local..at + sign.len_utf8() + domain, Mark::Email));
        }
    }
}

/// Bytes before the `@` that belong to the address.
fn local(before: &str) -> usize {
    if let Some(quoted) = before.strip_suffix('"') {
        return quoted.rfind('"').map_or(0, |open| before.len() - open);
    }
    let part = |c: char| {
        c.is_alphanumeric() || matches!(c, '.' | '!' | '#' | '$' | '%' | '\'' | '*' | '+' | '^' | '_' | '`' | '{' | '|' | '}' | '~' | '-')
    };
    before.len() - before.trim_end_matches(part).len()
}

/// Bytes after the `@` that belong to the address; 0 when they are no domain (`logo@2x.png`, `react@18.2.0`).
fn domain(after: &str) -> usize {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-');
    let domain = after[..after.len() - after.trim_start_matches(part).len()].trim_end_matches(['.', '-']);
    let last = domain.rsplit('.').next().unwrap_or_default();
    let scaled = domain.split_once('.').is_some_and(|(factor, kind)| {
        factor.len() == 2
            && factor.starts_with(|c: char| c.is_ascii_digit())
            && factor.ends_with('x')
            && matches!(kind, "png" | "jpg" | "jpeg" | "webp" | "gif" | "svg")
    });
    if scaled || !last.contains(char::is_alphabetic) { 0 } else { domain.len() }
}
