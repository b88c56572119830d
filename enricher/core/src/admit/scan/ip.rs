//! IP addresses, version 4 and 6.

use super::{Hits, Mark, runs};
use core::net::{Ipv4Addr, Ipv6Addr};

pub(super) fn find(text: &str, hits: &mut Hits) {
    let bytes = text.as_bytes();
    for run in runs(text, |byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.')) {
        let piece = &text[run.clone()];
        let count = |sign| piece.bytes().filter(|byte| *byte == sign).count();
        let (dots, colons) = (count(b'.'), count(b':'));
        if dots < 3 && colons < 2 {
            continue;
        }
        // `fe80::1` inside a word is a part of the word.
        let word = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(|byte| byte.is_ascii_alphanumeric());
        let inside = word(run.start.checked_sub(1)) || word(Some(run.end));
        let trimmed = piece.trim_end_matches('.');
        let trimmed = if trimmed.ends_with("::") { trimmed } else { trimmed.trim_end_matches(':') };
        let skipped = if trimmed.starts_with("::") { 0 } else { trimmed.len() - trimmed.trim_start_matches([':', '.']).len() };
        let trimmed = &trimmed[skipped..];
        if !inside && colons >= 2 && trimmed.len() > 2 && trimmed.parse::<Ipv6Addr>().is_ok() {
            hits.push((run.start + skipped..run.start + skipped + trimmed.len(), Mark::Ip));
            continue;
        }
        version_4(run.start, piece, hits);
    }
}

/// Four numbers joined by dots, wherever they stand in the piece; a port may follow.
fn version_4(start: usize, piece: &str, hits: &mut Hits) {
    for part in runs(piece, |byte| byte.is_ascii_digit() || byte == b'.') {
        let digits = piece[part.clone()].trim_matches('.');
        let skipped = piece[part.clone()].len() - piece[part.clone()].trim_start_matches('.').len();
        // Longer chains of numbers are not addresses, but four of them may be one: mark the chain.
        let octets = digits.split('.').filter(|octet| !octet.is_empty()).count();
        if octets < 4 {
            continue;
        }
        let first_four: String = digits.split('.').filter(|octet| !octet.is_empty()).take(4).collect::<Vec<_>>().join(".");
        let plain =
            first_four.split('.').map(|octet| octet.trim_start_matches('0')).map(|octet| if octet.is_empty() { "0" } else { octet });
        if plain.collect::<Vec<_>>().join(".").parse::<Ipv4Addr>().is_ok() {
            let from = start + part.start + skipped;
            hits.push((from..from + digits.len(), Mark::Ip));
        }
    }
}
