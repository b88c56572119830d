//! When a request was sent, as SDKs write it: RFC 3339 and its loose relatives, or a count since the epoch.

use forebay_schemas::time::Micros;

/// An instant from text; `None` when it is none, or absurd.
pub fn lenient(text: &str) -> Option<Micros> {
    let text = text.trim();
    if text.len() > 64 {
        return None;
    }
    calendar(text).or_else(|| epoch(text))
}

/// A date and time with `T` or a space; without a zone it is UTC; a zone may lack its colon.
fn calendar(text: &str) -> Option<Micros> {
    if let Some(time) = Micros::parse_rfc3339(text) {
        return Some(time);
    }
    let (date, time) = text.split_at_checked(10)?;
    let time = time.strip_prefix(['T', 't', ' '])?.trim_start();
    let (clock, zone) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, "Z"),
    };
    let zone = match zone.as_bytes() {
        [b'+' | b'-', hours @ ..] if hours.len() == 4 && hours.is_ascii() => format!("{}:{}", &zone[..3], &zone[3..]),
        [b'+' | b'-', hours @ ..] if hours.len() == 2 && hours.is_ascii() => format!("{zone}:00"),
        _ => zone.to_owned(),
    };
    let seconds = if clock.trim_end().len() == 5 { ":00" } else { "" };
    Micros::parse_rfc3339(&format!("{date}T{}{seconds}{zone}", clock.trim_end()))
}

/// Seconds, milliseconds, microseconds or nanoseconds since the epoch, told apart by their size.
fn epoch(text: &str) -> Option<Micros> {
    let number: f64 = text.parse().ok()?;
    let micros = match number.abs() {
        n if n < 1e6 => return None,
        n if n < 1e11 => number * 1e6,
        n if n < 1e14 => number * 1e3,
        n if n < 1e17 => number,
        n if n < 1e20 => number / 1e3,
        _ => return None,
    };
    Some(Micros(micros.round() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sdks_write_is_read() {
        for (text, expected) in [
            ("2026-11-30T06:49:42.238Z", Some("2026-11-30T06:49:42.238000Z")),
            ("2026-11-30T06:49:42.123456+01:00", Some("2026-11-30T05:49:42.123456Z")),
            ("2026-11-30 06:49:42", Some("2026-11-30T06:49:42.000000Z")),
            ("2026-11-30T06:49:42+0100", Some("2026-11-30T05:49:42.000000Z")),
            ("2026-11-30T06:49:42-03", Some("2026-11-30T09:49:42.000000Z")),
            ("2026-11-30T06:49", Some("2026-11-30T06:49:00.000000Z")),
            ("1796021398218", Some("2026-11-30T06:49:58.218000Z")),
            ("1796021398", Some("2026-11-30T06:49:58.000000Z")),
            ("1796021398.5", Some("2026-11-30T06:49:58.500000Z")),
            ("1796021398218000", Some("2026-11-30T06:49:58.218000Z")),
            ("NaN", None),
            ("inf", None),
            ("0", None),
            ("", None),
            ("yesterday", None),
            ("2026-13-30T06:49:42Z", None),
            ("2026-11-3üT", None),
            ("2026-11-30T06:49:42+üü", None),
        ] {
            assert_eq!(lenient(text).map(Micros::to_rfc3339).as_deref(), expected, "{text}");
        }
    }
}
