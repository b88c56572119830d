//! Phone and card numbers: digits in groups.
//!
//! A chain is digits with a few separators between them. A card is 13 to 19 digits whose check digit is right; a
//! phone number is a chain of 9 to 15 digits, of 7 or more behind a `+`, or `555-0123`. Dates are left alone.

use super::{Hits, Mark};
use std::ops::Range;

/// Digits that stand together: their place and how many.
type Group = Range<usize>;

pub(super) fn find(text: &str, hits: &mut Hits) {
    let mut chain: Vec<Group> = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|n| at + n) {
        let end = bytes[start..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| start + n);
        if chain.last().is_some_and(|last| !joins(&text[last.end..start])) {
            judge(text, &chain, hits);
            chain.clear();
        }
        if let Some(date) = date(bytes, start) {
            judge(text, &chain, hits);
            chain.clear();
            at = date;
            continue;
        }
        chain.push(start..end);
        at = end;
    }
    judge(text, &chain, hits);
}

/// True for what may stand between two groups of one number.
fn joins(between: &str) -> bool {
    let separator = |c: char| c.is_whitespace() || matches!(c, '-' | '.' | '(' | ')' | '_' | '\u{2010}'..='\u{2013}');
    // `0301/123456`: a slash only behind an area code, which `judge` cannot see; a path has no such zero.
    between.chars().count() <= 3 && between.chars().all(separator)
}

/// The end of a calendar date that begins here.
fn date(bytes: &[u8], start: usize) -> Option<usize> {
    let shape = |pattern: &[u8]| {
        let found = bytes.get(start..start + pattern.len())?;
        let fits = found.iter().zip(pattern).all(|(b, p)| if *p == b'9' { b.is_ascii_digit() } else { b == p });
        let ends = !bytes.get(start + pattern.len()).is_some_and(u8::is_ascii_digit);
        (fits && ends && (start == 0 || !bytes[start - 1].is_ascii_digit())).then_some(start + pattern.len())
    };
    let end = shape(b"9999-99-99").or_else(|| shape(b"9999/99/99")).or_else(|| shape(b"99.99.9999")).or_else(|| shape(b"99/99/9999"))?;
    let year = if bytes[start + 2].is_ascii_digit() { &bytes[start..start + 2] } else { &bytes[start + 6..start + 8] };
    matches!(year, b"19" | b"20").then_some(end)
}

fn judge(text: &str, chain: &[Group], hits: &mut Hits) {
    let Some((first, last)) = chain.first().zip(chain.last()) else { return };
    let bytes = text.as_bytes();
    let before = hits.len();
    for (n, group) in chain.iter().enumerate() {
        card(bytes, &chain[n..], hits);
        // A slash between an area code and the rest: 030/1234567.
        let follows = bytes.get(group.end) == Some(&b'/') && bytes.get(group.end + 1).is_some_and(u8::is_ascii_digit);
        if follows && group.len() <= 6 && bytes[group.start] == b'0' {
            let end = bytes[group.end + 1..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| group.end + 1 + n);
            if group.len() + end - group.end > 8 {
                hits.push((group.start..end, Mark::Phone));
            }
        }
    }
    if hits.len() > before {
        return;
    }
    let digits: usize = chain.iter().map(Range::len).sum();
    let plus = sign(text, first.start);
    // Milliseconds since the epoch: no phone number has 13 digits of which the first is 1.
    let epoch = chain.len() == 1 && digits == 13 && bytes[first.start] == b'1';
    let single = chain.len() > 1 && chain.iter().all(|group| group.len() == 1);
    let alone =
        !bytes[..first.start].last().is_some_and(u8::is_ascii_alphanumeric) && !bytes.get(last.end).is_some_and(u8::is_ascii_alphanumeric);
    let local = alone && chain.len() == 2 && chain[0].len() == 3 && chain[1].len() == 4 && matches!(bytes[chain[0].end], b'-' | b'.');
    let phone = match plus {
        Some(_) => digits >= 7,
        None => digits >= 9 && !epoch && !single || local,
    };
    if phone {
        let opens = bytes[..first.start].ends_with(b"(");
        let start = plus.unwrap_or(first.start - usize::from(opens));
        hits.push((start..last.end, if digits > 15 { Mark::Token } else { Mark::Phone }));
    }
}

/// The place of a `+` right before the number, a bracket between them allowed.
fn sign(text: &str, start: usize) -> Option<usize> {
    let before = text[..start].trim_end_matches(['(', ' ']);
    (before.ends_with('+') && start - before.len() <= 2).then(|| before.len() - 1)
}

/// A card number that begins with the chain's first group.
fn card(bytes: &[u8], chain: &[Group], hits: &mut Hits) {
    if chain.len() > 1 && chain[0].len() < 2 || !matches!(bytes[chain[0].start], b'2'..=b'6' | b'8' | b'9') {
        return;
    }
    let mut digits = Vec::with_capacity(19);
    for (n, group) in chain.iter().enumerate() {
        if digits.len() + group.len() > 19 || n > 0 && group.len() < 2 {
            return;
        }
        digits.extend(bytes[group.clone()].iter().map(|b| u32::from(b - b'0')));
        if digits.len() >= 13 && checks(&digits) {
            hits.push((chain[0].start..group.end, Mark::Card));
            return;
        }
    }
}

/// The Luhn check.
fn checks(digits: &[u32]) -> bool {
    let sum: u32 =
        digits.iter().rev().enumerate().map(|(n, digit)| if n % 2 == 1 { digit * 2 / 10 + digit * 2 % 10 } else { *digit }).sum();
    sum.is_multiple_of(10)
}
