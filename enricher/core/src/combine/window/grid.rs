//! Where windows begin and end: a grid of buckets that follow one another and leave nothing out.
//!
//! Owns: buckets of elapsed time and of a zone's civil time. Does not own: which buckets make a window (`panes`).
//! Invariants: each instant is in one bucket; a bucket ends where the next begins; a grid that succeeds another has its buckets
//! as far as they had begun.

use super::zone::{Era, Zone, first_instant};
use forebay_schemas::time::Micros;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

pub const HOUR_MICROS: i64 = 3_600_000_000;
const HOUR_SECONDS: i64 = 3_600;
const DAY_HOURS: i64 = 24;

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
    pub zone: Zone,
    hours: i64,
}

/// A bucket that had begun has other bounds by the rules that are built in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    pub was: Span,
    /// From when on no bucket had begun.
    pub free: Micros,
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
        let zone = Zone::built_in(name)?;
        let hours = size_micros / HOUR_MICROS;
        let even = size_micros % HOUR_MICROS == 0 && (DAY_HOURS % hours == 0 || hours % DAY_HOURS == 0);
        if !even {
            return Err(GridError::Uneven);
        }
        Ok(Grid::Civil(Civil { zone, hours }))
    }

    /// The zone whose clocks bound it; `None`: none does.
    pub fn zone(&self) -> Option<&Zone> {
        match self {
            Grid::Elapsed(_) => None,
            Grid::Civil(civil) => Some(&civil.zone),
        }
    }

    /// This grid in the place of one that went by the rules of `known`. The buckets that it had from `begun.start` to `begun.end`,
    /// and `around` more before and after, keep their bounds: where the rules of this one do not leave them alone, these hold
    /// only from the first bound at or behind `since` on.
    pub fn succeed(&self, known: &Zone, since: Option<Micros>, begun: Span, around: usize) -> Result<Grid, Moved> {
        let Grid::Civil(Civil { zone, hours }) = self else { return Ok(self.clone()) };
        let was = Grid::Civil(Civil { zone: known.clone(), hours: *hours });
        if known.ends_as(zone) {
            return Ok(was);
        }
        let next = match since.and_then(|since| was.before(since)) {
            None => self.clone(),
            Some(last) => Grid::Civil(Civil { zone: known.until(last.end, zone), hours: *hours }),
        };
        let (mut bucket, mut last) = (was.at(begun.start), was.at(begun.end));
        for _ in 0..around {
            bucket = was.before(bucket.start).unwrap_or(bucket);
            last = was.after(last.end).unwrap_or(last);
        }
        while next.at(bucket.start) == bucket {
            match was.after(bucket.end).filter(|after| after.start <= last.start) {
                Some(after) => bucket = after,
                None => return Ok(next),
            }
        }
        Err(Moved { was: bucket, free: last.end })
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
        let (since, era) = self.zone.at(at);
        let bucket = self.by(era, at);
        Span { start: bucket.start.max(since), end: bucket.end }
    }

    fn by(&self, Era { clocks, known, .. }: &Era, at: Micros) -> Span {
        let Some(instant) = Timestamp::from_microsecond(at.0).ok().filter(|_| known.holds(at)) else {
            let (before, after) = (Span { start: Micros(i64::MIN), end: known.start }, Span { start: known.end, end: Micros(i64::MAX) });
            return if at < known.start { before } else { after };
        };
        let step = self.hours * HOUR_SECONDS;
        let mut bucket = seconds(clocks.to_datetime(instant)).div_euclid(step);
        let begins =
            |bucket: i64| datetime(bucket * step).map_or(known.end, |shown| first_instant(clocks, shown).clamp(known.start, known.end));
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

    /// Cairo's clocks went as Tripoli's until Egypt took summer time up again, on 2023-04-28: as who had not heard of it in time.
    #[test]
    fn buckets_that_had_begun_keep_their_bounds_when_the_rules_change() {
        let (cairo, tripoli) = (grid(24, "Africa/Cairo"), grid(24, "Africa/Tripoli"));
        let zone = tripoli.zone().expect("a zone");
        let span = |from: &str, to: &str| Span { start: at(from), end: at(to) };
        // Nothing that had begun is touched.
        let quiet = cairo.succeed(zone, None, span("2023-04-01T00:00:00Z", "2023-04-20T00:00:00Z"), 1).expect("succeeds");
        expect(&quiet, "2023-04-27T12:00:00Z", "2023-04-26T22:00:00Z", &[24.0, 47.0, 71.0]);
        // The day whose end moves is the last of a window that had begun.
        let begun = |to: &str, around| cairo.succeed(zone, None, span("2023-04-01T00:00:00Z", to), around).map(drop);
        assert_eq!(begun("2023-04-25T12:00:00Z", 1), Ok(()));
        let moved = Moved { was: span("2023-04-27T22:00:00Z", "2023-04-28T22:00:00Z"), free: at("2023-04-28T22:00:00Z") };
        assert_eq!(begun("2023-04-27T12:00:00Z", 1), Err(moved));
        assert_eq!(begun("2023-04-25T12:00:00Z", 3), Err(moved));
        // From a time on that leaves what had begun alone; the day in which the rules change is what is left of it.
        let open = span("2023-05-01T00:00:00Z", "2023-05-03T12:00:00Z");
        assert!(cairo.succeed(zone, Some(at("2023-05-03T00:00:00Z")), open, 1).is_err());
        let next = cairo.succeed(zone, Some(at("2023-05-06T09:00:00Z")), open, 1).expect("succeeds");
        expect(&next, "2023-05-05T12:00:00Z", "2023-05-04T22:00:00Z", &[24.0, 48.0, 71.0, 95.0]);
        // It comes back from state as it was, and a later version of the same rules changes nothing.
        let kept = Zone::decode(&next.zone().expect("a zone").encode()).expect("decodes");
        let again = cairo.succeed(&kept, None, open, 1).expect("succeeds");
        expect(&again, "2023-05-05T12:00:00Z", "2023-05-04T22:00:00Z", &[24.0, 48.0, 71.0, 95.0]);
        assert_eq!(kept.versions().count(), 2);
        // Rules of today and of before, and those of before them.
        let third = grid(24, "Asia/Kathmandu").succeed(&kept, Some(at("2023-06-01T00:00:00Z")), open, 1).expect("succeeds");
        expect(&third, "2023-05-05T12:00:00Z", "2023-05-04T22:00:00Z", &[24.0, 48.0, 71.0, 95.0]);
        expect(&third, "2023-06-01T12:00:00Z", "2023-05-31T21:00:00Z", &[24.0, 45.25]);
        assert_eq!(third.zone().expect("a zone").versions().count(), 3);
    }

    #[test]
    fn rules_that_cannot_be_read_are_refused() {
        let zone = grid(24, "Africa/Cairo").zone().expect("a zone").clone();
        let bytes = zone.encode();
        assert_eq!(Zone::decode(&bytes).expect("decodes").encode(), bytes);
        for broken in [&bytes[..bytes.len() - 9], b"", b"\0"] {
            assert!(Zone::decode(broken).is_err());
        }
        // The last rules end, and rules that end before those before them.
        let (one, two) = (at("2023-06-01T00:00:00Z"), at("2024-06-01T00:00:00Z"));
        let follow = |until: &[Micros]| until.iter().fold(zone.clone(), |zone, until| zone.until(*until, &zone)).encode();
        assert!(Zone::decode(&follow(&[one, two])).is_ok());
        let swap = |bytes: Vec<u8>, from: Micros, to: Micros| {
            let long = |value: Micros| {
                let mut out = Vec::new();
                forebay_schemas::wire::avro::long(value.0, &mut out);
                out
            };
            let place = bytes.windows(long(from).len()).position(|window| window == long(from)).expect("is there");
            [&bytes[..place], &long(to), &bytes[place + long(from).len()..]].concat()
        };
        assert!(Zone::decode(&swap(follow(&[two]), Micros(i64::MAX), two)).is_err());
        assert!(Zone::decode(&swap(follow(&[one, two]), one, Micros(two.0 + 1))).is_err());
    }

    proptest! {
        /// Rules that change at any time leave each instant in one bucket, and those before as they were.
        #[test]
        fn buckets_follow_one_another_under_rules_that_change(
            since in 0..4_000_000_000_000_000_i64,
            after in 0..400_i64,
            hours in prop::sample::select(vec![1, 3, 24, 168]),
            zones in prop::sample::subsequence(vec!["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Cairo"], 2),
        ) {
            let (was, built_in) = (grid(hours, zones[0]), grid(hours, zones[1]));
            let known = was.zone().expect("a zone");
            let span = was.at(Micros(since - 1));
            let next = Grid::Civil(Civil { zone: known.until(span.end, built_in.zone().expect("a zone")), hours });
            prop_assert_eq!(next.at(span.start), span);
            prop_assert_eq!(next.at(span.end).start, span.end);
            let at = Micros(since + after * HOUR_MICROS);
            let bucket = next.at(at);
            prop_assert!(bucket.holds(at));
            prop_assert_eq!(next.at(bucket.start), bucket);
            prop_assert_eq!(next.at(Micros(bucket.end.0 - 1)), bucket);
            prop_assert!(bucket == was.at(at) || bucket.end == built_in.at(at).end);
        }

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
