//! What is known of each segment of the spool: how far it is durable and published, whether it is sealed and landed.
//!
//! Owns: the order of the work and when a segment may go. Does not own: files, threads, the ledger's bytes.
//! Invariants: a segment goes only when it is sealed, landed and published to its end; `published <= durable`.

use forebay_schemas::id::RequestId;
use std::collections::BTreeMap;
use uuid::Uuid;

/// A segment is known by the id of its first request, which also orders it.
pub type SegmentId = RequestId;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Landing {
    Waiting,
    /// In a lander's hands.
    Underway,
    Landed,
    /// Its object's name is taken by other bytes: kept here until someone looks.
    Conflict,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Bytes that are whole and on disk.
    pub durable: u64,
    pub sealed: bool,
    pub landing: Landing,
    /// Offset of the first block that is not on its way to the log.
    pub taken: u64,
    /// Offset of the first block that is not known to be on the log.
    pub published: u64,
    /// A block cannot be read back: published to here only, kept until someone looks.
    pub damaged: bool,
}

/// Blocks `[from, to)` of a segment that go to the log next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    pub segment: SegmentId,
    pub from: u64,
    pub to: u64,
}

#[derive(Debug)]
pub struct Shelf {
    segments: BTreeMap<SegmentId, Segment>,
    /// Of all `durable`: asked for with every block, and an outage leaves thousands of segments.
    bytes: u64,
    /// Nothing before this segment is to be taken.
    taking: SegmentId,
}

/// What is durable here and not known to be on the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unpublished {
    pub bytes: u64,
    /// The segment that holds the oldest of it.
    pub oldest: Option<SegmentId>,
}

/// Segments by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub open: i64,
    pub sealed: i64,
    pub landed: i64,
    pub published: i64,
}

impl Default for Shelf {
    fn default() -> Shelf {
        Shelf { segments: BTreeMap::new(), bytes: 0, taking: RequestId(Uuid::nil()) }
    }
}

impl Shelf {
    /// A segment as it was found or begun; `published` may not lead, and what is behind it is on nobody's way.
    pub fn put(&mut self, id: SegmentId, segment: Segment) {
        let published = segment.published.min(segment.durable);
        self.bytes += segment.durable;
        let before = self.segments.insert(id, Segment { published, taken: published, ..segment });
        self.bytes -= before.map_or(0, |before| before.durable);
    }
    pub fn get(&self, id: SegmentId) -> Option<Segment> {
        self.segments.get(&id).copied()
    }
    pub fn grow(&mut self, id: SegmentId, durable: u64) {
        self.change(id, |s| s.durable = s.durable.max(durable));
    }
    pub fn seal(&mut self, id: SegmentId) {
        self.change(id, |s| s.sealed = true);
    }
    pub fn land(&mut self, id: SegmentId, landing: Landing) {
        self.change(id, |s| s.landing = landing);
    }
    pub fn take(&mut self, id: SegmentId, to: u64) {
        self.change(id, |s| s.taken = s.taken.max(to).min(s.durable));
        self.taking = self.taking.max(id);
    }
    pub fn publish(&mut self, id: SegmentId, to: u64) {
        self.change(id, |s| s.published = s.published.max(to).min(s.durable));
    }
    pub fn damage(&mut self, id: SegmentId) {
        self.change(id, |s| s.damaged = true);
    }

    /// The oldest blocks that are not on their way to the log.
    pub fn to_take(&self) -> Option<Stretch> {
        let (id, s) = self.segments.range(self.taking..).find(|(_, s)| s.taken < s.durable && !s.damaged)?;
        Some(Stretch { segment: *id, from: s.taken, to: s.durable })
    }
    /// Whether the log has all that it can be given.
    pub fn all_published(&self) -> bool {
        self.segments.values().all(|s| s.published == s.durable || s.damaged)
    }
    pub fn unpublished(&self) -> Unpublished {
        let behind = || self.segments.iter().filter(|(_, s)| s.published < s.durable);
        Unpublished { bytes: behind().map(|(_, s)| s.durable - s.published).sum(), oldest: behind().map(|(id, _)| *id).next() }
    }
    pub fn to_land(&self) -> Option<SegmentId> {
        self.segments.iter().find(|(_, s)| s.sealed && s.landing == Landing::Waiting).map(|(id, _)| *id)
    }
    /// Takes out the segments that may be deleted, oldest first.
    pub fn take_done(&mut self) -> Vec<SegmentId> {
        let done = |s: &Segment| s.sealed && s.landing == Landing::Landed && s.published == s.durable && !s.damaged;
        let (ids, bytes): (Vec<SegmentId>, Vec<u64>) = self.segments.extract_if(.., |_, s| done(s)).map(|(id, s)| (id, s.durable)).unzip();
        self.bytes -= bytes.iter().sum::<u64>();
        ids
    }
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    pub fn len(&self) -> usize {
        self.segments.len()
    }
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for s in self.segments.values() {
            match (s.sealed, s.landing) {
                (false, _) => counts.open += 1,
                (true, Landing::Landed) => counts.landed += 1,
                (true, Landing::Waiting | Landing::Underway | Landing::Conflict) => counts.sealed += 1,
            }
            counts.published += i64::from(s.sealed && s.published == s.durable);
        }
        counts
    }

    fn change(&mut self, id: SegmentId, how: impl FnOnce(&mut Segment)) {
        if let Some(segment) = self.segments.get_mut(&id) {
            self.bytes -= segment.durable;
            how(segment);
            self.bytes += segment.durable;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> SegmentId {
        RequestId(Uuid::from_u128(n))
    }
    fn segment(durable: u64) -> Segment {
        Segment { durable, sealed: false, landing: Landing::Waiting, taken: 0, published: 100, damaged: false }
    }

    #[test]
    fn a_segment_goes_only_when_sealed_landed_and_published() {
        for order in [[0, 1, 2], [0, 2, 1], [2, 0, 1]] {
            let mut shelf = Shelf::default();
            shelf.put(id(1), segment(500));
            for (n, step) in order.iter().enumerate() {
                assert_eq!(shelf.take_done(), [], "after {n} of {order:?}");
                match step {
                    0 => shelf.seal(id(1)),
                    1 => shelf.land(id(1), Landing::Landed),
                    _ => shelf.publish(id(1), 9_999),
                }
            }
            assert_eq!((shelf.take_done(), shelf.bytes(), shelf.len()), (vec![id(1)], 0, 0));
        }
        let mut shelf = Shelf::default();
        shelf.put(id(1), Segment { sealed: true, landing: Landing::Conflict, published: 500, ..segment(500) });
        shelf.put(id(2), Segment { sealed: true, landing: Landing::Landed, published: 500, damaged: true, ..segment(500) });
        assert_eq!(shelf.take_done(), []);
    }

    #[test]
    fn blocks_are_published_oldest_first_and_the_mark_never_leads() {
        let mut shelf = Shelf::default();
        shelf.put(id(2), segment(300));
        shelf.put(id(1), Segment { published: 9_999, ..segment(200) });
        assert_eq!((shelf.get(id(1)).map(|s| s.published), shelf.bytes()), (Some(200), 500));
        assert_eq!(shelf.to_take(), Some(Stretch { segment: id(2), from: 100, to: 300 }));
        shelf.grow(id(1), 250);
        assert_eq!(shelf.to_take(), Some(Stretch { segment: id(1), from: 200, to: 250 }));
        shelf.take(id(1), 250);
        assert_eq!(shelf.to_take(), Some(Stretch { segment: id(2), from: 100, to: 300 }));
        assert_eq!((shelf.all_published(), shelf.unpublished()), (false, Unpublished { bytes: 250, oldest: Some(id(1)) }));
        shelf.take(id(2), 200);
        assert_eq!(shelf.to_take(), Some(Stretch { segment: id(2), from: 200, to: 300 }));
        shelf.publish(id(2), 300);
        assert!(!shelf.all_published());
        shelf.damage(id(1));
        assert!(shelf.all_published(), "what is damaged is waited for no longer, but still told");
        assert_eq!((shelf.unpublished().bytes, shelf.bytes()), (50, 550));
    }
}
