//! Scan: what in free text must not be told: e-mail addresses, phone and card numbers, IP addresses, secrets.
//!
//! Owns: finding and marking, also inside percent- and base64-encoded parts. Does not own: which fields are scanned.
//! Invariants: time is linear in the text (no pattern backtracks); the marks themselves hold nothing to find.
//! When in doubt it marks: an order number that looks like a phone number is lost, a phone number is not told.

mod email;
mod escape;
mod ip;
mod number;
mod token;

use super::memo::{self, Rule};
use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::ops::Range;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    Email,
    Phone,
    Card,
    Ip,
    Token,
}

impl Mark {
    pub fn text(self) -> &'static str {
        match self {
            Mark::Email => "[email]",
            Mark::Phone => "[phone]",
            Mark::Card => "[card]",
            Mark::Ip => "[ip]",
            Mark::Token => "[token]",
        }
    }
}

type Hits = Vec<(Range<usize>, Mark)>;

const SCAN: Rule = Rule(0);
/// Bytes of a short text.
const SHORT: usize = 32;
/// Encodings inside of each other that are looked through.
const LAYERS: usize = 3;
/// Shorter runs of base64 characters are not looked into: nothing to be marked is that short.
const BASE64_RUN: usize = 12;

/// The text with everything marked; `None` when there is nothing.
pub(crate) fn redact(text: &str) -> Option<String> {
    // Of most short texts one look says that there is nothing, which is cheaper than to remember them.
    if text.len() <= SHORT && !Traits::of(text).worth_a_look() {
        return None;
    }
    memo::of(SCAN, text, search)
}

/// As `redact`, without a memory.
pub(crate) fn search(text: &str) -> Option<String> {
    redact_layer(text, LAYERS)
}

fn redact_layer(text: &str, layers: usize) -> Option<String> {
    let traits = Traits::of(text);
    if !traits.worth_a_look() {
        return None;
    }
    // What is found in the decoded text is also found if it stood there plainly, so the decoded text is the one to tell.
    if traits.escapes
        && layers > 0
        && let Some(redacted) = escape::undo(text).and_then(|plain| redact_layer(&plain, layers - 1))
    {
        return Some(redacted);
    }
    let mut hits = Hits::new();
    if traits.at {
        email::find(text, &mut hits);
    }
    if traits.digits >= 4 || traits.colons >= 2 {
        ip::find(text, &mut hits);
    }
    if traits.digits >= 7 {
        number::find(text, &mut hits);
    }
    if traits.longest_run >= 8 {
        token::find(text, &mut hits);
    }
    if traits.longest_run >= BASE64_RUN && layers > 0 {
        encoded(text, layers - 1, &mut hits);
    }
    (!hits.is_empty()).then(|| mark(text, hits))
}

/// What one cheap look at the bytes says.
#[derive(Default)]
struct Traits {
    at: bool,
    /// Something that may be a character in another spelling.
    escapes: bool,
    digits: usize,
    colons: usize,
    /// Of letters, digits and what stands in tokens beside them.
    longest_run: usize,
}

/// Classes of bytes, one bit each.
const RUN: u8 = 1;
const DIGIT: u8 = 2;
const AT: u8 = 4;
const ESCAPE: u8 = 8;
const COLON: u8 = 16;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' => RUN | DIGIT,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'-' | b'+' | b'/' | b'=' | b'.' => RUN,
            b'@' => AT,
            // The first bytes of full-width signs and of characters that take no room, among many others.
            b'%' | b'\\' | b'&' | 0xc2 | 0xe2 | 0xef => ESCAPE,
            b':' => COLON,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

impl Traits {
    fn of(text: &str) -> Traits {
        let mut traits = Traits::default();
        let (mut run, mut seen) = (0, 0);
        for byte in text.bytes() {
            let class = CLASSES[usize::from(byte)];
            seen |= class;
            traits.digits += usize::from(class & DIGIT != 0);
            traits.colons += usize::from(class & COLON != 0);
            run = if class & RUN != 0 { run + 1 } else { 0 };
            traits.longest_run = traits.longest_run.max(run);
        }
        traits.at = seen & AT != 0;
        traits.escapes = seen & ESCAPE != 0;
        traits
    }
    fn worth_a_look(&self) -> bool {
        self.at || self.escapes || self.digits >= 4 || self.colons >= 2 || self.longest_run >= BASE64_RUN
    }
}

/// Runs of base64 that say something readable in which there is something to mark.
fn encoded(text: &str, layers: usize, hits: &mut Hits) {
    for run in runs(text, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')) {
        let piece = &text.as_bytes()[run.clone()];
        let mixed = piece.iter().any(u8::is_ascii_uppercase) && piece.iter().any(u8::is_ascii_lowercase);
        if piece.len() < BASE64_RUN || !mixed {
            continue;
        }
        // Where the encoding begins is not known: letters that belong to the text may stand before it.
        let found = (0..4).filter_map(|skip| readable(&piece[skip..])).find_map(|plain| first_mark(&plain, layers));
        if let Some(mark) = found {
            hits.push((run, mark));
        }
    }
}

fn first_mark(plain: &str, layers: usize) -> Option<Mark> {
    let redacted = redact_layer(plain, layers)?;
    let marks = [Mark::Email, Mark::Phone, Mark::Card, Mark::Ip, Mark::Token];
    marks.into_iter().find(|mark| redacted.contains(mark.text()))
}

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// The text that a piece encodes, if it is text.
fn readable(piece: &[u8]) -> Option<String> {
    let is_text = |bytes: &[u8]| bytes.iter().all(|byte| *byte >= 0x20 && *byte != 0x7f || matches!(byte, b'\t' | b'\n' | b'\r'));
    let engine = if piece.iter().any(|byte| matches!(byte, b'-' | b'_')) { &URL } else { &PLAIN };
    // Most runs are no base64 at all, which their first bytes tell.
    let head = engine.decode(piece.get(..8)?).ok()?;
    if !is_text(&head) {
        return None;
    }
    let whole = piece.len() - usize::from(piece.len() % 4 == 1);
    String::from_utf8(engine.decode(&piece[..whole]).ok()?).ok().filter(|plain| is_text(plain.as_bytes()))
}

/// The maximal runs of bytes that `part` accepts. `part` must accept ASCII only.
fn runs(text: &str, part: impl Fn(u8) -> bool) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + bytes[at..].iter().position(|byte| part(*byte))?;
        let end = bytes[start..].iter().position(|byte| !part(*byte)).map_or(bytes.len(), |len| start + len);
        at = end;
        Some(start..end)
    })
}

/// Puts the marks in place of the hits. Of hits that overlap, one mark stands for all.
fn mark(text: &str, mut hits: Hits) -> String {
    hits.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    let mut out = String::with_capacity(text.len());
    let (mut from, mut open) = (0, hits[0].clone());
    for (range, mark) in hits.into_iter().skip(1) {
        if range.start < open.0.end {
            open.0.end = open.0.end.max(range.end);
            continue;
        }
        push(text, &mut from, &open, &mut out);
        open = (range, mark);
    }
    push(text, &mut from, &open, &mut out);
    out.push_str(&text[from..]);
    out
}

fn push(text: &str, from: &mut usize, (range, mark): &(Range<usize>, Mark), out: &mut String) {
    out.push_str(&text[*from..range.start]);
    out.push_str(mark.text());
    *from = range.end;
}

#[cfg(test)]
mod tests;
