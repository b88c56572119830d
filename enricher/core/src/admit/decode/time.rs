//! When an event happened, from what its client says.
//!
//! Owns: every way in which SDKs write an instant, and the rule of `event_time` (design §6.6).
//! Does not own: which member holds the time (each dialect's file), the watermark.
//! Invariants: `received_at - max_age <= event_time <= received_at`; the origin says what it stands on.

use chrono::{DateTime, NaiveDate};
use forebay_schemas::json::Json;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::trusted::TimeOrigin;

/// What a client says about time, as far as it could be read.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Told {
    /// When it happened, by the client's clock.
    pub at: Option<Micros>,
    /// When it was sent, by the client's clock.
    pub sent_at: Option<Micros>,
    /// How long before sending it happened; used when `at` is missing.
    pub age_micros: Option<i64>,
}

/// The event time and its origin. Without a readable time it is the receiving time.
pub(crate) fn event_time(told: Told, received_at: Micros, max_age_micros: i64) -> (Micros, TimeOrigin) {
    let (at, origin) = match (told.at, told.sent_at, told.age_micros) {
        (Some(at), Some(sent_at), _) => (at.0.saturating_add(received_at.0.saturating_sub(sent_at.0)), TimeOrigin::Corrected),
        (Some(at), None, _) => (at.0, TimeOrigin::Client),
        (None, _, Some(age)) if age >= 0 => (received_at.0.saturating_sub(age), TimeOrigin::Corrected),
        (None, _, _) => return (received_at, TimeOrigin::Received),
    };
    let earliest = received_at.0.saturating_sub(max_age_micros.max(0));
    match at.clamp(earliest, received_at.0) {
        within if within == at => (Micros(at), origin),
        bound => (Micros(bound), TimeOrigin::Clamped),
    }
}

/// An instant as text or number; `None` when it is neither a date nor an epoch.
pub(crate) fn read(value: &Json<'_>) -> Option<Micros> {
    match value {
        Json::Number(text) => epoch(text),
        Json::String(text) => read_text(text),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

pub(crate) fn read_text(text: &str) -> Option<Micros> {
    let text = text.trim();
    if text.len() > 64 {
        return None;
    }
    calendar(text).or_else(|| epoch(text)).or_else(|| DateTime::parse_from_rfc2822(text).ok().map(|t| Micros(t.timestamp_micros())))
}

/// A count of milliseconds, as text or number, whole or not.
pub(crate) fn millis(value: &Json<'_>) -> Option<i64> {
    let number: f64 = value.as_text()?.trim().parse().ok()?;
    let micros = number * 1_000.0;
    (micros.abs() < 9.0e15).then_some(micros as i64)
}

/// Milliseconds since the epoch.
pub(crate) fn epoch_millis(value: &Json<'_>) -> Option<Micros> {
    millis(value).map(Micros)
}

/// Seconds, milliseconds, microseconds or nanoseconds since the epoch: the magnitude tells which.
fn epoch(text: &str) -> Option<Micros> {
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
            assert_eq!(read_text(text).map(Micros::to_rfc3339).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn the_clients_clock_is_corrected_and_bounded() {
        const AGE: i64 = 1_000;
        let told = |at: i64, sent: Option<i64>| Told { at: Some(Micros(at)), sent_at: sent.map(Micros), age_micros: None };
        for (told, expected) in [
            (told(90, Some(95)), (95, TimeOrigin::Corrected)),
            // A clock that is years off, but steady.
            (told(-1_000_000, Some(-999_990)), (90, TimeOrigin::Corrected)),
            (told(90, None), (90, TimeOrigin::Client)),
            (told(100, None), (100, TimeOrigin::Client)),
            (told(101, None), (100, TimeOrigin::Clamped)),
            (told(96, Some(95)), (100, TimeOrigin::Clamped)),
            (told(-5_000, None), (-900, TimeOrigin::Clamped)),
            (told(i64::MIN, Some(i64::MAX)), (-900, TimeOrigin::Clamped)),
            (Told { age_micros: Some(7), ..Told::default() }, (93, TimeOrigin::Corrected)),
            (Told { age_micros: Some(-7), ..Told::default() }, (100, TimeOrigin::Received)),
            (Told { sent_at: Some(Micros(1)), ..Told::default() }, (100, TimeOrigin::Received)),
        ] {
            assert_eq!(event_time(told, Micros(100), AGE), (Micros(expected.0), expected.1), "{told:?}");
        }
    }
}
