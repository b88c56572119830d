//! Where windows begin and end: a grid of buckets that follow one another and leave nothing out.
//!
//! Owns: buckets of elapsed time and of a zone's civil time. Does not own: which buckets make a window (`panes`).
//! Invariants: each instant is in one bucket; a bucket ends where the next begins; the same instant is in the same bucket
//! in every process, since zones come from the database that is built in, never from the machine's.

use forebay_schemas::time::Micros;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

pub const HOUR_MICROS: i64 = 3_600_000_000;
const HOUR_SECONDS: i64 = 3_600;
const DAY_HOURS: i64 = 24;
/// Civil times are known within these years; all before is one bucket, and so is all after.
const YEARS: (i16, i16) = (-9_000, 9_000);

/// `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Span {
    pub start: Micros,
    pub end: Micros,
}

impl Span {
    pub fn holds(self, at: Micros) -> bool {
        self.start <= at && at < self.end
    }
}

#[derive(Clone, Debug)]
pub enum Grid {
    /// Buckets of so many microseconds, one of which begins at the epoch.
    Elapsed(i64),
    /// Buckets of so many hours by the clocks of a zone. One begins at the first instant at which its clocks show a
    /// multiple, or more: an hour that a zone skips has no bucket, one that it repeats is one bucket of two hours, and a
    /// day is as long as it is there.
    Civil(Civil),
}

#[derive(Clone, Debug)]
pub struct Civil {
    zone: TimeZone,
    hours: i64,
    /// Where `YEARS` begin and end there.
    known: Span,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GridError {
    #[error("a window has a size")]
    Empty,
    #[error("no time zone of this name: {0}")]
    Zone(String),
    #[error("in a zone windows take whole hours that divide a day, or whole days")]
    Uneven,
}

impl Grid {
    /// In UTC where no zone is named.
    pub fn new(size_micros: i64, zone: Option<&str>) -> Result<Grid, GridError> {
        if size_micros <= 0 {
            return Err(GridError::Empty);
        }
        let Some(name) = zone else { return Ok(Grid::Elapsed(size_micros)) };
        let zone = TimeZoneDatabase::bundled().get(name).map_err(|_| GridError::Zone(name.to_owned()))?;
        let hours = size_micros / HOUR_MICROS;
        let even = size_micros % HOUR_MICROS == 0 && (DAY_HOURS % hours == 0 || hours % DAY_HOURS == 0);
        if !even {
            return Err(GridError::Uneven);
        }
        let known = Span { start: first_instant(&zone, edge(YEARS.0)), end: first_instant(&zone, edge(YEARS.1)) };
        Ok(Grid::Civil(Civil { zone, hours, known }))
    }

    /// The bucket that holds `at`.
    pub fn at(&self, at: Micros) -> Span {
        match self {
            Grid::Elapsed(size) => {
                // Of a bucket that time has no room for there is what there is.
                let offset = at.0.rem_euclid(*size);
                Span { start: Micros(at.0.saturating_sub(offset)), end: Micros(at.0.saturating_add(size - offset)) }
            }
            Grid::Civil(civil) => civil.at(at),
        }
    }

    /// The bucket before the one that begins at `start`; `None` where time begins.
    pub fn before(&self, start: Micros) -> Option<Span> {
        Some(self.at(Micros(start.0.checked_sub(1)?)))
    }

    /// The bucket behind the one that ends at `end`; `None` where time ends.
    pub fn after(&self, end: Micros) -> Option<Span> {
        (end.0 < i64::MAX).then(|| self.at(end))
    }
}

impl Civil {
    fn at(&self, at: Micros) -> Span {
        let Civil { zone, hours, known } = self;
        let Some(instant) = Timestamp::from_microsecond(at.0).ok().filter(|_| known.holds(at)) else {
            let (before, after) = (Span { start: Micros(i64::MIN), end: known.start }, Span { start: known.end, end: Micros(i64::MAX) });
            return if at < known.start { before } else { after };
        };
        let step = hours * HOUR_SECONDS;
        let mut bucket = seconds(zone.to_datetime(instant)).div_euclid(step);
        let begins =
            |bucket: i64| datetime(bucket * step).map_or(known.end, |shown| first_instant(zone, shown).clamp(known.start, known.end));
        // Clocks that were set back show times of buckets before.
        let mut start = begins(bucket);
        loop {
            let end = begins(bucket + 1);
            if at < end {
                return Span { start, end };
            }
            (start, bucket) = (end, bucket + 1);
        }
    }
}

fn edge(year: i16) -> DateTime {
    DateTime::constant(year, 1, 1, 0, 0, 0, 0)
}

/// When the clocks of `zone` first show `shown`, or later.
fn first_instant(zone: &TimeZone, shown: DateTime) -> Micros {
    let by = |offset: Offset| offset.to_timestamp(shown).ok();
    let instant = match zone.to_ambiguous_timestamp(shown).offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => by(offset),
        // They jumped over it: at the jump.
        AmbiguousOffset::Gap { before, .. } => by(before).and_then(|past| {
            let after_jump = past.checked_add(jiff::SignedDuration::from_nanos(1)).ok()?;
            zone.preceding(after_jump).next().map(|jump| jump.timestamp())
        }),
    };
    instant.map_or(Micros(i64::MAX), |instant| Micros(instant.as_microsecond()))
}

/// A civil time as seconds since the civil epoch.
fn seconds(shown: DateTime) -> i64 {
    Offset::UTC.to_timestamp(shown).map_or(0, |at| at.as_second() - i64::from(at.subsec_nanosecond() < 0))
}

fn datetime(seconds: i64) -> Option<DateTime> {
    Timestamp::from_second(seconds).ok().map(|at| Offset::UTC.to_datetime(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> Micros {
        Micros::parse_rfc3339(text).expect("a time")
    }
    fn grid(hours: i64, zone: &str) -> Grid {
        Grid::new(hours * HOUR_MICROS, Some(zone)).expect("a grid")
    }
    /// Bounds of the buckets from the one that holds `from`, in hours from the first.
    fn bounds(grid: &Grid, from: &str, count: usize) -> (String, Vec<f64>) {
        let mut span = grid.at(at(from));
        let first = span.start;
        let ends = (0..count).map(|_| {
            let end = span.end;
            span = grid.after(end).expect("there is more");
            assert_eq!(span.start, end);
            (end.0 - first.0) as f64 / HOUR_MICROS as f64
        });
        let ends = ends.collect();
        (first.to_string(), ends)
    }
    fn expect(grid: &Grid, from: &str, first: &str, ends: &[f64]) {
        let (start, found) = bounds(grid, from, ends.len());
        assert_eq!((start.replace(".000000Z", "Z"), found), (first.to_owned(), ends.to_vec()));
    }

    #[test]
    fn days_are_as_long_as_they_are_there() {
        // 23 hours from 2026-03-29, 25 from 2026-10-25.
        expect(&grid(24, "Europe/Berlin"), "2026-03-28T12:00:00Z", "2026-03-27T23:00:00Z", &[24.0, 47.0, 71.0]);
        expect(&grid(24, "Europe/Berlin"), "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", &[25.0, 49.0]);
        // Half an hour, in the other hemisphere.
        expect(&grid(24, "Australia/Lord_Howe"), "2026-04-04T20:00:00Z", "2026-04-04T13:00:00Z", &[24.5, 48.5]);
        expect(&grid(24, "Asia/Kathmandu"), "2026-01-01T00:00:00Z", "2025-12-31T18:15:00Z", &[24.0, 48.0]);
    }

    #[test]
    fn a_midnight_that_is_skipped_or_shown_twice_begins_one_day() {
        // Clocks in Beirut went from 00:00 to 01:00 on 2022-03-27, and from 24:00 to 23:00 on 2021-10-30.
        expect(&grid(24, "Asia/Beirut"), "2022-03-27T12:00:00Z", "2022-03-26T22:00:00Z", &[23.0, 47.0]);
        expect(&grid(24, "Asia/Beirut"), "2021-10-30T12:00:00Z", "2021-10-29T21:00:00Z", &[25.0, 49.0]);
        // St. John's went from 00:01 back to 23:01: the day had begun.
        expect(&grid(24, "America/St_Johns"), "2010-11-06T12:00:00Z", "2010-11-06T02:30:00Z", &[24.0, 49.0]);
        // Samoa left out a whole day.
        expect(&grid(24, "Pacific/Apia"), "2011-12-29T12:00:00Z", "2011-12-29T10:00:00Z", &[24.0, 48.0]);
    }

    #[test]
    fn hours_go_by_the_clocks_too() {
        // 01:00, then 03:00.
        expect(&grid(1, "Europe/Berlin"), "2026-03-29T00:30:00Z", "2026-03-29T00:00:00Z", &[1.0, 2.0]);
        // 02:00 is shown twice.
        expect(&grid(1, "Europe/Berlin"), "2026-10-25T01:30:00Z", "2026-10-25T00:00:00Z", &[2.0, 3.0]);
        expect(&grid(6, "Europe/Berlin"), "2026-10-25T01:30:00Z", "2026-10-24T22:00:00Z", &[7.0, 13.0, 19.0, 25.0]);
        expect(&grid(1, "Australia/Lord_Howe"), "2026-04-04T14:30:00Z", "2026-04-04T14:00:00Z", &[1.5, 2.5]);
        expect(&grid(1, "Asia/Kathmandu"), "2026-01-01T00:00:00Z", "2025-12-31T23:15:00Z", &[1.0, 2.0]);
    }

    #[test]
    fn time_before_the_epoch_is_time() {
        expect(&Grid::Elapsed(24 * HOUR_MICROS), "1969-12-31T23:59:59Z", "1969-12-31T00:00:00Z", &[24.0, 48.0]);
        expect(&grid(24, "America/New_York"), "1967-04-30T12:00:00Z", "1967-04-30T05:00:00Z", &[23.0, 47.0]);
        expect(&grid(48, "UTC"), "1969-12-31T12:00:00Z", "1969-12-30T00:00:00Z", &[48.0]);
    }

    #[test]
    fn days_of_a_zone_are_not_those_of_utc() {
        let (tokyo, utc) = (grid(24, "Asia/Tokyo").at(at("2026-05-01T20:00:00Z")), grid(24, "UTC").at(at("2026-05-01T20:00:00Z")));
        assert_eq!((tokyo.start, utc.start), (at("2026-05-01T15:00:00Z"), at("2026-05-01T00:00:00Z")));
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        let error = |size: i64, zone: Option<&str>| Grid::new(size, zone).expect_err("no grid");
        assert_eq!(error(0, None), GridError::Empty);
        assert_eq!(error(-1, Some("UTC")), GridError::Empty);
        assert_eq!(error(HOUR_MICROS, Some("Mars/Olympus")), GridError::Zone("Mars/Olympus".to_owned()));
        for size in [1, HOUR_MICROS / 2, 5 * HOUR_MICROS, 36 * HOUR_MICROS] {
            assert_eq!(error(size, Some("UTC")), GridError::Uneven, "{size}");
        }
    }

    proptest! {
        /// Every instant there is, in zones of all kinds.
        #[test]
        fn buckets_follow_one_another(
            at in prop_oneof![any::<i64>(), -4_000_000_000_000_000..4_000_000_000_000_000_i64],
            hours in prop::sample::select(vec![1, 2, 3, 6, 8, 12, 24, 48, 168]),
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns",
                "Asia/Beirut", "Pacific/Apia", "America/Sao_Paulo", "Africa/Monrovia", "Europe/Dublin", "Antarctica/Troll"]),
            elapsed in 1..i64::MAX,
        ) {
            for grid in [grid(hours, zone), Grid::Elapsed(elapsed)] {
                let at = Micros(at);
                let span = grid.at(at);
                prop_assert!(span.holds(at) || (at.0 == i64::MAX && span.start <= at), "{span:?}");
                prop_assert_eq!(grid.at(span.start), span);
                prop_assert_eq!(grid.at(Micros(span.end.0 - 1)), span);
                if let Some(after) = grid.after(span.end) {
                    prop_assert_eq!(after.start, span.end);
                }
                if let Some(before) = grid.before(span.start) {
                    prop_assert_eq!(before.end, span.start);
                }
            }
        }
    }
}
