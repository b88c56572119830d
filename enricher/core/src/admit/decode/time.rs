//! When an event happened, from what its client says.
//!
//! Owns: the rule of `event_time` (design §6.6). Does not own: how an instant is written (`schemas::instant`), which
//! member holds the time (each dialect's file), the watermark.
//! Invariants: `received_at - max_age <= event_time <= received_at`; the origin says what it stands on.

use forebay_schemas::instant;
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
        Json::Number(text) => instant::epoch(text),
        Json::String(text) => instant::read(text),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
