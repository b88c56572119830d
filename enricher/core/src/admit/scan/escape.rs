//! Ways of writing a character that are no encoding of the whole: `%40`, `\u0040`, `&#64;`, full-width `＠`.
//!
//! Owns: undoing one layer of them. Does not own: what is found afterwards. Invariants: linear; never longer than before.

use crate::admit::percent;
use std::borrow::Cow;

/// The text with one layer undone; `None` when there is none.
pub(super) fn undo(text: &str) -> Option<String> {
    let mut out = Cow::Borrowed(text);
    if text.contains('%') {
        let decoded = percent::decode(text.as_bytes(), false);
        if decoded.len() < text.len() {
            out = Cow::Owned(String::from_utf8_lossy(&decoded).into_owned());
        }
    }
    for (start, end) in [("\\u", ""), ("&#", ";")] {
        if out.contains(start) {
            out = Cow::Owned(references(&out, start, end));
        }
    }
    if out.contains(is_wide) || out.contains(is_invisible) {
        out = Cow::Owned(out.chars().filter(|c| !is_invisible(*c)).map(narrow).collect());
    }
    match out {
        Cow::Owned(out) if out != text => Some(out),
        _ => None,
    }
}

/// Replaces `\u0040`, or `&#64;` and `&#x40;`.
fn references(text: &str, start: &str, end: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(start) {
        out.push_str(&rest[..at]);
        let after = &rest[at + start.len()..];
        match if end.is_empty() { four_digits(after) } else { entity(after) } {
            Some((c, length)) => {
                out.push(c);
                rest = &after[length..];
            }
            None => {
                out.push_str(start);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn four_digits(text: &str) -> Option<(char, usize)> {
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, 4))
}

fn entity(text: &str) -> Option<(char, usize)> {
    let length = text.as_bytes().iter().take(8).position(|b| *b == b';')?;
    let digits = &text[..length];
    let code = match digits.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    Some((char::from_u32(code.ok()?)?, length + 1))
}

fn is_wide(c: char) -> bool {
    matches!(c, '\u{ff01}'..='\u{ff5e}')
}

/// Full-width signs are ASCII shifted.
fn narrow(c: char) -> char {
    if is_wide(c) { char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c) } else { c }
}

/// Takes no room: soft hyphens, zero-width spaces and joiners.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
}
