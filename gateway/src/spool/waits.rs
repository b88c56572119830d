//! Who waits for more than the spool: requests whose source is answered once the log, or the object store, has them.
//!
//! Owns: the lists, by place; waking those that are reached. Does not own: when that is (`shared`), how long a request waits
//! (`http`).
//! Invariant: nobody is woken before all of the request is there; a wait that was given up is forgotten in the end.

use super::shelf::SegmentId;
use std::collections::BTreeMap;
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// Where a request stands: it is in the block that ends there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    pub segment: SegmentId,
    pub end: u64,
}

#[derive(Default)]
pub struct Waits {
    log: BTreeMap<Place, Vec<Sender<()>>>,
    object: BTreeMap<SegmentId, Vec<Sender<()>>>,
    count: usize,
    /// At so many those that were given up are looked for.
    sweep_at: usize,
}

const SWEEP_MIN: usize = 1_024;

impl Waits {
    pub fn for_log(&mut self, place: Place) -> Receiver<()> {
        let (reached, wait) = channel();
        self.log.entry(place).or_default().push(reached);
        self.grown();
        wait
    }

    pub fn for_object(&mut self, segment: SegmentId) -> Receiver<()> {
        let (reached, wait) = channel();
        self.object.entry(segment).or_default().push(reached);
        self.grown();
        wait
    }

    /// The blocks of a segment before `to` are on the log.
    pub fn published(&mut self, segment: SegmentId, to: u64) {
        let up_to = Place { segment, end: 0 }..=Place { segment, end: to };
        let reached: Vec<Place> = self.log.range(up_to).map(|(place, _)| *place).collect();
        for waits in reached.iter().filter_map(|place| self.log.remove(place)).collect::<Vec<_>>() {
            self.wake(waits);
        }
    }

    /// The segment is in the object store.
    pub fn landed(&mut self, segment: SegmentId) {
        let waits = self.object.remove(&segment).unwrap_or_default();
        self.wake(waits);
    }

    fn wake(&mut self, waits: Vec<Sender<()>>) {
        self.count -= waits.len();
        for reached in waits {
            let _ = reached.send(());
        }
    }

    /// During an outage requests come, wait and give up: what is kept of them stays within twice those that wait.
    fn grown(&mut self) {
        self.count += 1;
        if self.count < self.sweep_at.max(SWEEP_MIN) {
            return;
        }
        self.log.values_mut().for_each(|waits| waits.retain(|reached| !reached.is_closed()));
        self.log.retain(|_, waits| !waits.is_empty());
        self.object.values_mut().for_each(|waits| waits.retain(|reached| !reached.is_closed()));
        self.object.retain(|_, waits| !waits.is_empty());
        self.count = self.log.values().map(Vec::len).sum::<usize>() + self.object.values().map(Vec::len).sum::<usize>();
        self.sweep_at = 2 * self.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_schemas::id::RequestId;
    use tokio::sync::oneshot::error::TryRecvError;
    use uuid::Uuid;

    fn segment(n: u128) -> SegmentId {
        RequestId(Uuid::from_u128(n))
    }

    #[test]
    fn who_is_reached_is_woken_and_nobody_else() {
        let mut waits = Waits::default();
        let place = |n, end| Place { segment: segment(n), end };
        let mut log = [place(1, 10), place(1, 20), place(2, 10)].map(|place| waits.for_log(place));
        let mut object = [1, 2].map(|n| waits.for_object(segment(n)));
        let told = |waits: &mut [Receiver<()>]| waits.iter_mut().map(|wait| wait.try_recv().is_ok()).collect::<Vec<_>>();
        waits.published(segment(1), 10);
        assert_eq!((told(&mut log), told(&mut object)), (vec![true, false, false], vec![false, false]));
        // Another segment's end says nothing of this one.
        waits.published(segment(2), 10);
        waits.landed(segment(2));
        assert_eq!((told(&mut log), told(&mut object)), (vec![false, false, true], vec![false, true]));
        waits.published(segment(1), 99);
        waits.landed(segment(1));
        assert_eq!((told(&mut log), told(&mut object)), (vec![false, true, false], vec![true, false]));
        assert_eq!(waits.count, 0);
    }

    #[test]
    fn who_gives_up_is_forgotten() {
        let mut waits = Waits::default();
        let mut stays = waits.for_log(Place { segment: segment(0), end: 1 });
        for n in 0..100_000 {
            drop(waits.for_log(Place { segment: segment(n), end: 2 }));
            drop(waits.for_object(segment(n)));
        }
        assert!(waits.count <= 2 * SWEEP_MIN && waits.log.len() + waits.object.len() <= waits.count, "{}", waits.count);
        assert_eq!(stays.try_recv(), Err(TryRecvError::Empty));
    }
}
