//! When a request was sent, as SDKs write it.

use forebay_schemas::instant;
use forebay_schemas::time::Micros;

/// Within this of the epoch a clock was never set: no sending time, rather than an absurd one.
const UNSET_MICROS: i64 = 1_000_000_000_000;

/// The sending time from text; `None` when it is none, or absurd.
pub fn lenient(text: &str) -> Option<Micros> {
    instant::read(text).filter(|time| time.0.unsigned_abs() >= UNSET_MICROS.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unset_clock_tells_no_sending_time() {
        for (text, expected) in [
            ("2026-11-30T06:49:42+0100", Some("2026-11-30T05:49:42.000000Z")),
            ("1796021398218", Some("2026-11-30T06:49:58.218000Z")),
            ("0", None),
            ("1970-01-01T00:00:00Z", None),
            ("NaN", None),
            ("", None),
        ] {
            assert_eq!(lenient(text).map(Micros::to_rfc3339).as_deref(), expected, "{text}");
        }
    }
}
