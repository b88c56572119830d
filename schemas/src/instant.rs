//! Instants as clients write them: RFC 3339 and its loose relatives, RFC 2822, counts since the epoch.
//!
//! Owns: every form that SDKs send (design §6.6). Does not own: which member holds a time, what is made of it.
//! Invariant: one reader for gateway and enricher, so that no two parts read a time differently.

use crate::limit::INSTANT_BYTES;
use crate::time::Micros;
use chrono::{DateTime, NaiveDate};

/// An instant from text; `None` when it is neither a date nor a count since the epoch.
pub fn read(text: &str) -> Option<Micros> {
    let text = text.trim();
    if text.len() > INSTANT_BYTES {
        return None;
    }
    calendar(text).or_else(|| epoch(text)).or_else(|| DateTime::parse_from_rfc2822(text).ok().map(|t| Micros(t.timestamp_micros())))
}

/// Seconds, milliseconds, microseconds or nanoseconds since the epoch: the magnitude tells which.
pub fn epoch(text: &str) -> Option<Micros> {
    if !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E')) {
        return None;
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Micros(match whole.unsigned_abs() {
            0..100_000_000_000 => whole * 1_000_000,
            100_000_000_000..100_000_000_000_000 => whole * 1_000,
            100_000_000_000_000..100_000_000_000_000_000 => whole,
            _ => whole / 1_000,
        }));
    }
    let number: f64 = text.parse().ok()?;
    let micros = match number.abs() {
        n if n < 1.0e11 => number * 1.0e6,
        n if n < 1.0e14 => number * 1.0e3,
        n if n < 1.0e17 => number,
        _ => number / 1.0e3,
    };
    (micros.abs() < 9.0e18).then_some(Micros(micros as i64))
}

/// `YYYY-MM-DD`, then optionally `T` or a space, `HH:MM`, `:SS`, a fraction by `.` or `,`, and `Z`, `+HH`, `+HHMM` or
/// `+HH:MM`. Without a zone it is UTC.
fn calendar(text: &str) -> Option<Micros> {
    let mut rest = text.as_bytes();
    let year = digits(&mut rest, 4)?;
    expect(&mut rest, b"-")?;
    let month = digits(&mut rest, 2)?;
    expect(&mut rest, b"-")?;
    let day = digits(&mut rest, 2)?;
    let days = i64::from(NaiveDate::from_ymd_opt(year as i32, month, day)?.to_epoch_days());
    let (mut seconds, mut micros, mut offset) = (0, 0, 0);
    if !rest.is_empty() {
        expect(&mut rest, b"Tt ")?;
        seconds = clock(&mut rest)?;
        micros = fraction(&mut rest)?;
        offset = zone(&mut rest)?;
    }
    rest.is_empty().then(|| Micros((days * 86_400 + seconds - offset) * 1_000_000 + micros))
}

fn clock(rest: &mut &[u8]) -> Option<i64> {
    let hour = digits(rest, 2)?;
    expect(rest, b":")?;
    let minute = digits(rest, 2)?;
    // A leap second is the next minute's first.
    let second = if expect(rest, b":").is_some() { digits(rest, 2)? } else { 0 };
    (hour < 24 && minute < 60 && second <= 60).then_some(i64::from(hour * 3_600 + minute * 60 + second))
}

fn fraction(rest: &mut &[u8]) -> Option<i64> {
    if expect(rest, b".,").is_none() {
        return Some(0);
    }
    let len = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    if len == 0 {
        return None;
    }
    let micros = rest[..len].iter().chain(std::iter::repeat(&b'0')).take(6).fold(0, |n, b| n * 10 + i64::from(b - b'0'));
    *rest = &rest[len..];
    Some(micros)
}

fn zone(rest: &mut &[u8]) -> Option<i64> {
    if rest.is_empty() || expect(rest, b"Zz").is_some() {
        return Some(0);
    }
    expect(rest, b" ");
    let sign = if expect(rest, b"+").is_some() {
        1
    } else {
        expect(rest, b"-")?;
        -1
    };
    let hours = digits(rest, 2)?;
    expect(rest, b":");
    let minutes = if rest.is_empty() { 0 } else { digits(rest, 2)? };
    (hours < 24 && minutes < 60).then_some(sign * i64::from(hours * 3_600 + minutes * 60))
}

fn digits(rest: &mut &[u8], count: usize) -> Option<u32> {
    let found = rest.get(..count)?;
    if !found.iter().all(u8::is_ascii_digit) {
        return None;
    }
    *rest = &rest[count..];
    Some(found.iter().fold(0, |n, b| n * 10 + u32::from(b - b'0')))
}

/// Takes the next byte if it is one of `bytes`.
fn expect(rest: &mut &[u8], bytes: &[u8]) -> Option<()> {
    let (first, after) = rest.split_first()?;
    if !bytes.contains(first) {
        return None;
    }
    *rest = after;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_an_instant() {
        for (text, expected) in [
            ("2026-11-30T10:00:00.123Z", Some("2026-11-30T10:00:00.123000Z")),
            ("2026-11-30t10:00:00z", Some("2026-11-30T10:00:00.000000Z")),
            ("2026-11-30T10:00:00.123456789+00:00", Some("2026-11-30T10:00:00.123456Z")),
            ("2026-11-30T10:00:00,5+03", Some("2026-11-30T07:00:00.500000Z")),
            ("2026-11-30T10:00:00-0330", Some("2026-11-30T13:30:00.000000Z")),
            ("2026-11-30 10:00:00 +0100", Some("2026-11-30T09:00:00.000000Z")),
            ("2026-11-30T10:00", Some("2026-11-30T10:00:00.000000Z")),
            ("2026-11-30", Some("2026-11-30T00:00:00.000000Z")),
            ("2016-12-31T23:59:60Z", Some("2017-01-01T00:00:00.000000Z")),
            ("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00.000000Z")),
            ("Mon, 30 Nov 2026 10:00:00 GMT", Some("2026-11-30T10:00:00.000000Z")),
            ("1796021312", Some("2026-11-30T06:48:32.000000Z")),
            ("1796021312.5", Some("2026-11-30T06:48:32.500000Z")),
            ("1796021312504", Some("2026-11-30T06:48:32.504000Z")),
            (" 1796021312504.25 ", Some("2026-11-30T06:48:32.504250Z")),
            ("1796021312504000", Some("2026-11-30T06:48:32.504000Z")),
            ("1796021312504000000", Some("2026-11-30T06:48:32.504000Z")),
            ("1.796021312e9", Some("2026-11-30T06:48:32.000000Z")),
            ("-86400", Some("1969-12-31T00:00:00.000000Z")),
            ("", None),
            ("yesterday", None),
            ("2026-02-30", None),
            ("2026-11-30T25:00:00Z", None),
            ("2026-11-30T10:00:00Zulu", None),
            ("12026-11-30T10:00:00Z", None),
            ("-", None),
            ("1e400", None),
        ] {
            assert_eq!(read(text).map(Micros::to_rfc3339).as_deref(), expected, "{text:?}");
        }
    }
}
