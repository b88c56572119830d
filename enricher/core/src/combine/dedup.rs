//! Dedup: the first copy of an event passes, later copies are told apart from other facts under the same id.
//!
//! Owns: the key and value in state, the verdict, the generations that expiry works on, the id of a re-keyed event.
//! Does not own: storage, offsets, totals. All times are log time (law E6).
//! Invariant E3: within its TTL an id is `New` once; the first sight sets the TTL and a duplicate writes nothing.
//!
//! How a task uses it: look up `key` in the generations `probe(now)`, ask `verdict`; on `New` put the value at
//! `generation(now)`. On `Collision` with `rekey`, do the same once more with the id that `rekey` gives.

use forebay_schemas::id::{self, EventId};
use forebay_schemas::time::Micros;
use sha2::{Digest, Sha256};
use std::cmp::Ordering;
use std::ops::RangeInclusive;

/// What an id is looked up by: the first 16 bytes of SHA-256 over the length-prefixed source and event id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key(pub [u8; 16]);

/// As its bytes, which a number of 128 bits compares at once.
impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Key) -> Ordering {
        u128::from_be_bytes(self.0).cmp(&u128::from_be_bytes(other.0))
    }
}
impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Key {
    pub fn of(source: &str, event_id: &EventId) -> Key {
        let mut hash = Sha256::new();
        for part in [source, event_id.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Key(*hash.finalize().first_chunk().expect("SHA-256 has 32 bytes"))
    }
}

/// What is remembered of the first sight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    pub fingerprint: u64,
    pub at: Micros,
}

impl Seen {
    /// Fingerprint, then time, both big-endian.
    pub fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.fingerprint.to_be_bytes());
        bytes[8..].copy_from_slice(&self.at.0.to_be_bytes());
        bytes
    }
    pub fn decode(bytes: &[u8]) -> Option<Seen> {
        let (fingerprint, at) = bytes.split_first_chunk::<8>()?;
        Some(Seen { fingerprint: u64::from_be_bytes(*fingerprint), at: Micros(i64::from_be_bytes(at.try_into().ok()?)) })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    New,
    Duplicate,
    Collision,
}

/// The TTL cut into four generations: an entry lives in the generation of its first sight, and whole generations go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Horizon {
    ttl_micros: i64,
}

impl Horizon {
    /// A TTL below four microseconds counts as four.
    pub fn new(ttl_micros: i64) -> Horizon {
        Horizon { ttl_micros: ttl_micros.max(4) }
    }
    /// How long a generation is, in microseconds.
    pub fn span(self) -> i64 {
        self.ttl_micros.div_euclid(4)
    }
    /// The generation in which an entry first seen at `time` is stored.
    pub fn generation(self, time: Micros) -> i64 {
        time.0.div_euclid(self.span())
    }
    /// The generations that may hold a living entry at `now`, oldest first. The TTL need not be a multiple of four.
    pub fn probe(self, now: Micros) -> RangeInclusive<i64> {
        self.generation(now.saturating_add_micros(-self.ttl_micros))..=self.generation(now)
    }
    /// Generations below this one hold nothing alive at `now` and may be dropped.
    pub fn oldest_alive(self, now: Micros) -> i64 {
        *self.probe(now).start()
    }
    /// True while an entry first seen at `at` counts.
    pub fn alive(self, at: Micros, now: Micros) -> bool {
        now.0.saturating_sub(at.0) < self.ttl_micros
    }
}

/// The verdict on an event, given what all probed generations hold for its key, in any order.
pub fn verdict(fingerprint: u64, held: impl IntoIterator<Item = Seen>, horizon: Horizon, now: Micros) -> Verdict {
    let living = held.into_iter().filter(|seen| horizon.alive(seen.at, now)).max_by_key(|seen| seen.at);
    match living {
        None => Verdict::New,
        Some(seen) if seen.fingerprint == fingerprint => Verdict::Duplicate,
        Some(_) => Verdict::Collision,
    }
}

/// The id of an event whose own id is taken by another fact: UUIDv8(source, id, fingerprint).
pub fn rekey(source: &str, event_id: &EventId, fingerprint: u64) -> EventId {
    let parts = [source.as_bytes(), event_id.as_str().as_bytes(), &fingerprint.to_be_bytes()];
    EventId::from_uuid(id::derived("forebay.event_id.rekey", &parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event_id(text: &str) -> EventId {
        EventId::new(text).expect("valid id")
    }

    #[test]
    fn copies_collisions_and_the_horizon() {
        let horizon = Horizon::new(2_000_000);
        let seen = |fingerprint, at| Seen { fingerprint, at: Micros(at) };
        for (held, now, expected) in [
            (vec![], 0, Verdict::New),
            (vec![seen(7, 0)], 0, Verdict::Duplicate),
            (vec![seen(7, 0)], 1_999_999, Verdict::Duplicate),
            (vec![seen(7, 0)], 2_000_000, Verdict::New),
            (vec![seen(8, 0)], 1, Verdict::Collision),
            (vec![seen(8, 0)], 4_000_000, Verdict::New),
            (vec![seen(8, 0), seen(7, 2_500_000)], 3_000_000, Verdict::Duplicate),
            // A broker clock that steps back: the entry is not of the future, it is alive.
            (vec![seen(7, 10)], 0, Verdict::Duplicate),
        ] {
            assert_eq!(verdict(7, held.clone(), horizon, Micros(now)), expected, "{held:?} at {now}");
        }
    }

    #[test]
    fn source_and_id_are_length_prefixed() {
        assert_ne!(Key::of("a", &event_id("bc")), Key::of("ab", &event_id("c")));
        let rekeyed = rekey("s", &event_id("e"), 1);
        assert_eq!(rekeyed.as_str().as_bytes()[14], b'8');
        assert_ne!(rekeyed, rekey("s", &event_id("e"), 2));
    }

    proptest! {
        #[test]
        fn every_living_entry_is_probed(ttl in 1i64..10_000, at in -50_000i64..50_000, age in 0i64..20_000) {
            let horizon = Horizon::new(ttl);
            let now = Micros(at + age);
            if horizon.alive(Micros(at), now) {
                prop_assert!(horizon.probe(now).contains(&horizon.generation(Micros(at))));
                prop_assert!(horizon.oldest_alive(now) <= horizon.generation(Micros(at)));
            }
        }
        #[test]
        fn seen_survives_storage(fingerprint: u64, at: i64) {
            let seen = Seen { fingerprint, at: Micros(at) };
            prop_assert_eq!(Seen::decode(&seen.encode()), Some(seen));
        }
    }
}
