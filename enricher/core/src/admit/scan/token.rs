//! Secrets and opaque ids: JSON web tokens, keys with known prefixes, UUIDs, long hex and random-looking runs, and
//! what follows `password=` or `Bearer`.

use super::{Hits, Mark, runs};
use std::ops::Range;

/// Prefixes that issuers give to their secrets; what follows is long and random.
const PREFIXES: [&str; 22] = [
    "sk_live_",
    "sk_test_",
    "pk_live_",
    "pk_test_",
    "rk_live_",
    "rk_test_",
    "whsec_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxs-",
    "AKIA",
    "ASIA",
    "AIza",
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
        let piece = &text[run.clone()];
        if piece.len() >= 8 {
            in_run(piece, run.start, hits);
        }
    }
    named(text, hits);
}

fn in_run(run: &str, start: usize, hits: &mut Hits) {
    let mut hit = |range: Range<usize>| hits.push((start + range.start..start + range.end, Mark::Token));
    if let Some(at) = run.find("eyJ").filter(|at| run.len() - at >= 20 && run[*at..].contains('.')) {
        hit(at..run.len());
    }
    for prefix in PREFIXES {
        if let Some(at) = run.find(prefix).filter(|at| run.len() - at >= prefix.len() + 8) {
            hit(at..run.len());
        }
    }
    // Letters and digits, joined by what stands inside of tokens but not inside of paths.
    for part in runs(run, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        let text = &run[part.clone()];
        if worded(text) || text.len() >= 20 && random(text.as_bytes()) {
            hit(part.clone());
            continue;
        }
        uuids(text, part.start, &mut hit);
        for piece in runs(text, |byte| byte.is_ascii_alphanumeric()) {
            if opaque(text[piece.clone()].as_bytes()) {
                hit(part.start + piece.start..part.start + piece.end);
            }
        }
    }
}

/// `tok_9f8e7d6c5b`: a secret's word and then a piece of letters and digits mixed.
fn worded(text: &str) -> bool {
    let mut pieces = text.split(['_', '-']);
    let word = pieces.next().unwrap_or_default();
    let mixed =
        |piece: &str| piece.len() >= 8 && piece.bytes().any(|b| b.is_ascii_digit()) && piece.bytes().any(|b| b.is_ascii_alphabetic());
    WORDS.iter().any(|known| known.eq_ignore_ascii_case(word)) && pieces.any(mixed)
}

/// One piece without separators.
fn opaque(piece: &[u8]) -> bool {
    let digits = piece.iter().filter(|b| b.is_ascii_digit()).count();
    let hex = piece.iter().all(u8::is_ascii_hexdigit);
    let mixed = digits > 0 && digits < piece.len();
    match piece.len() {
        0..16 => false,
        16..20 => hex && mixed || digits == piece.len(),
        20..32 => hex && mixed || digits == piece.len() || random(piece),
        _ => mixed || hex || random(piece),
    }
}

/// Random text changes between small letters, capitals and digits all the time; words do so where they begin.
fn random(text: &[u8]) -> bool {
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
    changes.count() * 4 > text.len()
}

/// Groups of 8, 4, 4, 4 and 12 hex digits.
fn uuids(text: &str, start: usize, hit: &mut impl FnMut(Range<usize>)) {
    let groups: Vec<Range<usize>> = runs(text, |byte| byte.is_ascii_alphanumeric()).collect();
    let hex = |range: &Range<usize>| text.as_bytes()[range.clone()].iter().all(u8::is_ascii_hexdigit);
    for five in groups.windows(5) {
        let lengths: Vec<usize> = five.iter().map(Range::len).collect();
        if lengths == [8, 4, 4, 4, 12] && five.iter().all(hex) && five[4].end - five[0].start == 36 {
            hit(start + five[0].start..start + five[4].end);
        }
    }
}

/// `password=hunter2`, `api_key: 1234abcd`, `Bearer abcd1234`.
fn named(text: &str, hits: &mut Hits) {
    let ends = |c: char| c.is_whitespace() || matches!(c, '&' | ';' | ',' | '"' | '\'' | '<' | '>' | ')' | '}' | ']' | '[');
    let value = |from: usize| from..from + text[from..].find(ends).unwrap_or(text.len() - from);
    for (at, sign) in text.char_indices().filter(|(_, c)| matches!(c, '=' | ':')) {
        let name = &text[..at];
        let name = &name[name.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).len()..];
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).take(32).collect();
        if !NAMES.contains(&name.as_str()) {
            continue;
        }
        let after = at + 1;
        let space = text[after..].len() - text[after..].trim_start_matches(' ').len();
        let found = value(after + space);
        let secret = &text[found.clone()];
        let likely = secret.len() >= 8 && secret.bytes().any(|b| b.is_ascii_digit());
        if secret.len() >= 4 && (sign == '=' && space == 0 || likely) {
            hits.push((found, Mark::Token));
        }
    }
    let mut from = 0;
    while let Some((at, word)) = scheme(text, from) {
        let found = value(at + word);
        let secret = text[found.clone()].as_bytes();
        if secret.len() >= 8 && secret.iter().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase() || *b == b'=') {
            hits.push((found, Mark::Token));
        }
        from = at + word;
    }
}

/// The next `Bearer ` or `Basic `: its place and length.
fn scheme(text: &str, from: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let starts = (from..bytes.len()).filter(|at| matches!(bytes[*at], b'b' | b'B'));
    starts
        .filter_map(|at| {
            ["bearer ", "basic "]
                .iter()
                .find(|word| bytes.get(at..at + word.len()).is_some_and(|b| b.eq_ignore_ascii_case(word.as_bytes())))
                .map(|word| (at, word.len()))
        })
        .next()
}
