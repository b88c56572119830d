//! A task's place in time: its clock, what each gateway has published, the watermark, the generations of its dedup state.
//!
//! Owns: how records and ticks move time (design §6.6), and the value under `Uid::Progress`. Does not own: dedup keys
//! (`seen`), windows. Invariants: E6, log time only; clock and watermark never go back; the clock never stands more than
//! `limit::CLOCK_AHEAD_MS` after the newest time that a gateway told, however wrong the log's clock is.

use crate::format::Format;
use crate::state::key::{self, Uid};
use crate::state::{Backend, StateError};
use forebay_schemas::limit;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::avro::{self, DecodeError, Reader};
use std::collections::BTreeMap;

/// What moves time, as the configuration has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    pub watermark_delay_micros: i64,
    pub gateway_retire_after_micros: i64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Log time: the newest append time, held near the gateways'. `NEVER` before the first record.
    pub clock: Micros,
    /// `None` until a gateway has ticked.
    pub watermark: Option<Micros>,
    /// The newest receiving time or `published_through` of any gateway.
    newest_told: Micros,
    gateways: BTreeMap<String, Gateway>,
    /// Records whose append time was further ahead than the clock may go.
    pub held: u64,
    /// Gateways that fell silent.
    pub retired: u64,
    /// Generations of dedup state that exist: start → end.
    pub generations: BTreeMap<i64, i64>,
    /// When state without TTL was last put as a whole.
    pub refreshed_at: Micros,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Gateway {
    published_through: Micros,
    heard_at: Micros,
}

/// Before all time.
pub const NEVER: Micros = Micros(i64::MIN);

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            clock: NEVER,
            watermark: None,
            newest_told: NEVER,
            gateways: BTreeMap::new(),
            held: 0,
            retired: 0,
            generations: BTreeMap::new(),
            refreshed_at: NEVER,
        }
    }
}

impl Progress {
    /// As the backend holds it.
    pub fn load(backend: &dyn Backend, format: Format) -> Result<Option<Progress>, StateError> {
        let value = backend.get(&key::plain(Uid::Progress, b""))?;
        let decoded = value.map(|value| Progress::decode(&value, format)).transpose();
        decoded.map_err(|error| StateError::Corrupt(format!("progress: {error}")))
    }

    /// A record was appended at `timestamp`; `told` is the time that its gateway put on it, if it is readable.
    pub fn advance(&mut self, timestamp: Micros, told: Option<Micros>) {
        self.newest_told = told.map_or(self.newest_told, |told| told.max(self.newest_told));
        let latest = self.newest_told.saturating_add_micros(limit::CLOCK_AHEAD_MS * 1_000);
        if timestamp > latest {
            self.held += 1;
        }
        self.clock = self.clock.max(timestamp.min(latest));
    }

    /// A gateway said that all it received before `published_through` stands before this place.
    pub fn tick(&mut self, gateway: &str, published_through: Micros, rules: Rules) {
        let clock = self.clock;
        let is_full = self.gateways.len() >= limit::GATEWAYS;
        match self.gateways.get_mut(gateway) {
            Some(known) => {
                known.published_through = known.published_through.max(published_through);
                known.heard_at = clock;
            }
            // Somebody else's ticks: no site has so many gateways, nor such names.
            None if is_full || gateway.len() > limit::NAME_BYTES => {}
            None => {
                self.gateways.insert(gateway.to_owned(), Gateway { published_through, heard_at: clock });
            }
        }
        let silent_since = clock.saturating_add_micros(-rules.gateway_retire_after_micros);
        let before = self.gateways.len();
        self.gateways.retain(|_, gateway| gateway.heard_at >= silent_since);
        self.retired += (before - self.gateways.len()) as u64;
        if let Some(slowest) = self.gateways.values().map(|gateway| gateway.published_through).min() {
            let reached = slowest.saturating_add_micros(-rules.watermark_delay_micros);
            self.watermark = Some(self.watermark.map_or(reached, |watermark| watermark.max(reached)));
        }
    }

    pub fn encode(&self, format: Format) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        avro::long(i64::from(format.writes()), &mut out);
        avro::long(self.clock.0, &mut out);
        avro::optional_long(self.watermark.map(|at| at.0), &mut out);
        avro::long(self.newest_told.0, &mut out);
        avro::long(self.held as i64, &mut out);
        avro::long(self.retired as i64, &mut out);
        avro::long(self.refreshed_at.0, &mut out);
        let gateways: Vec<_> = self.gateways.iter().collect();
        avro::array(
            &gateways,
            |(name, gateway), out| {
                avro::string(name, out);
                avro::long(gateway.published_through.0, out);
                avro::long(gateway.heard_at.0, out);
            },
            &mut out,
        );
        let generations: Vec<_> = self.generations.iter().collect();
        avro::array(
            &generations,
            |(from, to), out| {
                avro::long(**from, out);
                avro::long(**to, out);
            },
            &mut out,
        );
        out
    }

    pub fn decode(value: &[u8], format: Format) -> Result<Progress, DecodeError> {
        let mut r = Reader::new(value);
        let found = r.int()?;
        if !format.reads(found) {
            return Err(DecodeError("progress of another format"));
        }
        let progress = Progress {
            clock: r.micros()?,
            watermark: r.optional(Reader::micros)?,
            newest_told: r.micros()?,
            held: r.long()? as u64,
            retired: r.long()? as u64,
            refreshed_at: r.micros()?,
            gateways: r
                .array(|r| Ok((r.string()?, Gateway { published_through: r.micros()?, heard_at: r.micros()? })))?
                .into_iter()
                .collect(),
            generations: r.array(|r| Ok((r.long()?, r.long()?)))?.into_iter().collect(),
        };
        if !format.is_newer(found) {
            r.end()?;
        }
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;
    const RULES: Rules = Rules { watermark_delay_micros: 10, gateway_retire_after_micros: 2 * MINUTE };

    #[test]
    fn h41_the_clock_follows_the_log_but_not_away_from_the_gateways() {
        let mut progress = Progress::default();
        for (timestamp, told, clock, held) in [
            (100, Some(90), 100, 0),
            (90, Some(80), 100, 0),
            (86_400_000_000, Some(100), 100 + 5 * MINUTE, 1),
            (86_400_000_000, None, 100 + 5 * MINUTE, 2),
            (7 * MINUTE, Some(7 * MINUTE - 1), 7 * MINUTE, 2),
            // Kafka's append time is in whole milliseconds: a record may be appended "before" it was received.
            (8 * MINUTE, Some(8 * MINUTE + 999), 8 * MINUTE, 2),
            (7 * MINUTE, Some(8 * MINUTE + 999), 8 * MINUTE, 2),
        ] {
            progress.advance(Micros(timestamp), told.map(Micros));
            assert_eq!((progress.clock.0, progress.held), (clock, held), "at {timestamp}");
        }
    }

    /// An outage's backlog is appended long after it was received: the watermark follows what the gateway has published.
    #[test]
    fn h42_a_backlog_is_not_late() {
        let mut progress = Progress::default();
        let ready_at = 60 * MINUTE;
        for received in 0..60 {
            // Drained at ten minutes a second; the ticks say how far it came.
            let (received_at, appended_at) = (received * MINUTE, ready_at + received * MINUTE / 600);
            progress.advance(Micros(appended_at), Some(Micros(received_at)));
            assert!(progress.watermark.is_none_or(|watermark| watermark.0 < received_at), "minute {received} is not late");
            progress.tick("g", Micros(received_at), RULES);
            assert_eq!(progress.watermark, Some(Micros(received_at - 10)));
        }
    }

    #[test]
    fn h4_the_watermark_waits_for_the_slowest_living_gateway() {
        let mut progress = Progress::default();
        assert_eq!(progress.watermark, None);
        for (now, gateway, through, watermark, retired) in [
            (1_000, "a", 900, 890, 0),
            (1_100, "b", 500, 890, 0),
            (1_200, "a", 1_150, 890, 0),
            (1_300, "b", 1_250, 1_140, 0),
            (2 * MINUTE, "a", 2 * MINUTE - 50, 1_240, 0),
            (2 * MINUTE + 1_301, "a", 2 * MINUTE + 1_300, 2 * MINUTE + 1_290, 1),
            (2 * MINUTE + 1_400, "b", 1_300, 2 * MINUTE + 1_290, 1),
        ] {
            progress.advance(Micros(now), Some(Micros(now)));
            progress.tick(gateway, Micros(through), RULES);
            assert_eq!((progress.watermark, progress.retired), (Some(Micros(watermark)), retired), "{gateway} at {now}");
        }
        progress.generations.insert(-5, 7);
        let format = Format::writing(Format::DEFAULT);
        assert_eq!(Progress::decode(&progress.encode(format), format), Ok(progress));
    }
}
