//! Secrets and opaque ids: JSON web tokens, keys with known prefixes, UUIDs, long hex and random-looking runs, and
//! what follows `password=` or `Bearer`.

use super::{Hits, Mark, runs};
use std::ops::Range;

/// Prefixes that issuers give to their secrets; what follows is long and random.
const PREFIXES: [&str; 23] = [
    "AIza",
    "AKIA",
    "ASIA",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "pk_live_",
    "pk_test_",
    "rk_live_",
    "rk_test_",
    "sk_live_",
    "sk_test_",
    "whsec_",
    "xoxa-",
    "xoxb-",
    "xoxp-",
    "xoxs-",
    "ya29.",
];
/// Words that people and programs put before a secret, joined by `_` or `-`.
const WORDS: [&str; 18] = [
    "tok", "token", "key", "secret", "sess", "session", "auth", "api", "apikey", "pat", "sk", "pk", "rk", "access", "refresh", "bearer",
    "jwt", "otp",
];
/// Names of values that are secrets, in lower case without separators.
const NAMES: [&str; 20] = [
    "password",
    "passwd",
    "pwd",
    "pass",
    "secret",
    "token",
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "authtoken",
    "apikey",
    "auth",
    "authorization",
    "session",
    "sessionid",
    "sid",
    "signature",
    "sig",
    "clientsecret",
    "privatekey",
];

pub(super) fn find(text: &str, hits: &mut Hits) {
    for run in runs(text, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'/' | b'=' | b'.' | b'~')) {
        if run.len() >= 8 {
            in_run(&text[run.clone()], run.start, hits);
        }
    }
    named(text, hits);
    if text.as_bytes().contains(&b' ') {
        schemes(text, hits);
    }
}

fn in_run(run: &str, start: usize, hits: &mut Hits) {
    let mut hit = |range: Range<usize>| hits.push((start + range.start..start + range.end, Mark::Token));
    // Letters and digits, joined by what stands inside of tokens but not inside of paths.
    for part in runs(run, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        let text = &run[part.clone()];
        if prefixed(&run[part.start..]) {
            hit(part.start..run.len());
            return;
        }
        let digits = text.bytes().any(|b| b.is_ascii_digit());
        if text.len() < 8 || text.len() < 12 && !digits {
            continue;
        }
        if digits && worded(text) || text.len() >= 20 && random(text.as_bytes()) {
            hit(part.clone());
            continue;
        }
        if text.len() >= 36 && digits {
            uuids(text, part.start, &mut hit);
        }
        for piece in runs(text, |byte| byte.is_ascii_alphanumeric()) {
            if opaque(text[piece.clone()].as_bytes()) {
                hit(part.start + piece.start..part.start + piece.end);
            }
        }
    }
}

/// Begins with an issuer's prefix, and enough follows.
fn prefixed(rest: &str) -> bool {
    if !matches!(rest.as_bytes().first(), Some(b'A' | b'e' | b'g' | b'p' | b'r' | b's' | b'w' | b'x' | b'y')) {
        return false;
    }
    PREFIXES.iter().any(|prefix| rest.len() >= prefix.len() + 8 && rest.starts_with(prefix) && (*prefix != "eyJ" || rest.contains('.')))
}

/// `tok_9f8e7d6c5b`: a secret's word and then a piece of letters and digits mixed.
fn worded(text: &str) -> bool {
    let mut pieces = text.split(['_', '-']);
    let word = pieces.next().unwrap_or_default();
    let mixed =
        |piece: &str| piece.len() >= 8 && piece.bytes().any(|b| b.is_ascii_digit()) && piece.bytes().any(|b| b.is_ascii_alphabetic());
    word.len() < text.len() && WORDS.iter().any(|known| known.eq_ignore_ascii_case(word)) && pieces.any(mixed)
}

/// One piece without separators.
fn opaque(piece: &[u8]) -> bool {
    if piece.len() < 12 {
        return false;
    }
    let digits = piece.iter().filter(|b| b.is_ascii_digit()).count();
    let hex = piece.iter().all(u8::is_ascii_hexdigit);
    let mixed = digits > 0 && digits < piece.len();
    match piece.len() {
        12..16 => mixed && changes(piece) * 2 >= piece.len(),
        16..20 => hex && mixed || digits == piece.len() || changes(piece) * 3 > piece.len(),
        20..32 => hex && mixed || digits == piece.len() || random(piece),
        _ => mixed || hex || random(piece),
    }
}

/// Random text changes between small letters, capitals and digits all the time.
fn random(text: &[u8]) -> bool {
    changes(text) * 4 > text.len()
}

/// How often it changes between small letters, capitals and digits; that words begin with a capital does not count.
fn changes(text: &[u8]) -> usize {
    let class = |byte: u8| match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        _ => 3,
    };
    let changes = text.windows(2).filter(|pair| match (class(pair[0]), class(pair[1])) {
        (2, 1) | (3, _) | (_, 3) => false,
        (a, b) => a != b,
    });
    changes.count()
}

/// Groups of 8, 4, 4, 4 and 12 hex digits, joined by `-`.
fn uuids(text: &str, start: usize, hit: &mut impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at + 36 <= bytes.len() {
        let begins = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        let fits = begins
            && bytes[at..at + 36]
                .iter()
                .enumerate()
                .all(|(n, b)| if matches!(n, 8 | 13 | 18 | 23) { *b == b'-' } else { b.is_ascii_hexdigit() });
        if fits {
            hit(start + at..start + at + 36);
            at += 36;
        } else {
            at += 1;
        }
    }
}

/// Bytes of a value that are looked at to say whether it is a secret.
const VALUE_BYTES: usize = 128;

/// How many bytes belong to a named or announced value that begins here. An end is ASCII, so it is a border of characters.
fn value(bytes: &[u8]) -> usize {
    let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'&' | b';' | b',' | b'"' | b'\'' | b'<' | b'>' | b')' | b'}' | b']' | b'[');
    bytes.iter().position(ends).unwrap_or(bytes.len())
}

/// `password=hunter2`, `api_key: 1234abcd`.
fn named(text: &str, hits: &mut Hits) {
    let bytes = text.as_bytes();
    let mut until = 0;
    for at in (0..bytes.len()).filter(|at| matches!(bytes[*at], b'=' | b':')) {
        let letters = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let length = bytes[..at].iter().rev().take(32).take_while(letters).count();
        if at < until || length < 3 || !is_secret_name(&bytes[at - length..at]) {
            continue;
        }
        let space = bytes[at + 1..].iter().take(8).take_while(|b| **b == b' ').count();
        let from = at + 1 + space;
        let head = &bytes[from..bytes.len().min(from + VALUE_BYTES)];
        let head = &head[..value(head)];
        let likely = head.len() >= 8 && head.iter().any(u8::is_ascii_digit);
        if head.len() >= 4 && (bytes[at] == b'=' && space == 0 || likely) {
            until = from + value(&bytes[from..]);
            hits.push((from..until, Mark::Token));
        }
    }
}

fn is_secret_name(name: &[u8]) -> bool {
    let letters = || name.iter().filter(|b| b.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase);
    NAMES.iter().any(|known| letters().eq(known.bytes()))
}

/// `Bearer abcd1234`, `Basic dTpw`.
fn schemes(text: &str, hits: &mut Hits) {
    let bytes = text.as_bytes();
    for at in (0..bytes.len()).filter(|at| matches!(bytes[*at], b'b' | b'B')) {
        let begins = |word: &&str| bytes.get(at..at + word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()));
        let Some(word) = ["bearer ", "basic "].iter().find(|word| begins(word)) else { continue };
        let from = at + word.len();
        let found = from..from + value(&bytes[from..]);
        let secret = &bytes[found.clone()];
        if secret.len() >= 8 && secret.iter().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase() || *b == b'=') {
            hits.push((found, Mark::Token));
        }
    }
}
