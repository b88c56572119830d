//! Request ids: UUIDv7s that only grow, within a process and across restarts, whatever the clock does.
//!
//! Owns: the order of ids. Does not own: the clock and the random bits; both are arguments.
//! Invariant: each id is greater than every id given before it and than the one that the sequence was seeded with.

use forebay_schemas::id::RequestId;
use forebay_schemas::time::Micros;
use uuid::{Builder, Uuid};

/// The 48 bits of milliseconds and the 12 bits behind them (RFC 9562, UUIDv7), read as one number that counts up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sequence {
    last: u64,
}

impl Sequence {
    /// Ids will come after `newest`.
    pub fn after(newest: Option<RequestId>) -> Sequence {
        Sequence { last: newest.map_or(0, |id| place(id.0)) }
    }

    /// The next id: of `now_ms`, or just after the last one when the clock stands still or went back.
    pub fn next(&mut self, now_ms: u64, random: u64) -> RequestId {
        self.last = (now_ms << 12).max(self.last + 1) & ((1 << 60) - 1);
        let high = (self.last >> 12) << 16 | self.last & 0xfff;
        let bytes = (u128::from(high) << 64 | u128::from(random)).to_be_bytes();
        RequestId(Builder::from_bytes(bytes).with_version(uuid::Version::SortRand).with_variant(uuid::Variant::RFC4122).into_uuid())
    }
}

/// When an id was given, to the millisecond.
pub fn time(id: RequestId) -> Micros {
    Micros(i64::try_from(id.0.as_u128() >> 80).unwrap_or(0) * 1_000)
}

fn place(id: Uuid) -> u64 {
    let high = (id.as_u128() >> 64) as u64;
    (high >> 16) << 12 | high & 0xfff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_only_grow() {
        let mut sequence = Sequence::after(None);
        let mut last = None;
        for now in [1_000, 1_000, 1_001, 5, 1_001, 2_000] {
            for random in [u64::MAX, 0, 7] {
                let id = sequence.next(now, random);
                assert!(Some(id) > last, "{id} after {last:?}");
                assert_eq!((id.0.get_version_num(), id.0.get_variant()), (7, uuid::Variant::RFC4122));
                last = Some(id);
            }
        }
        let restarted = Sequence::after(last).next(3, 0);
        assert!(Some(restarted) > last);
    }

    #[test]
    fn the_time_is_readable_and_a_burst_borrows_from_the_next_millisecond() {
        let mut sequence = Sequence::after(None);
        let first = sequence.next(1_796_021_309_367, 1);
        assert_eq!(first.0.get_timestamp().map(|t| t.to_unix()).map(|(s, ns)| (s, ns / 1_000_000)), Some((1_796_021_309, 367)));
        assert_eq!(time(first), Micros(1_796_021_309_367_000));
        let last = (0..5_000).map(|n| sequence.next(1_796_021_309_367, n)).last().expect("some");
        assert_eq!(last.0.get_timestamp().map(|t| t.to_unix().1 / 1_000_000), Some(368));
    }
}
