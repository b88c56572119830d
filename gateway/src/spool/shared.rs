//! What writer, publisher, lander and the HTTP side know together of the spool.
//!
//! Owns: the shelf behind its lock, blocks handed over in memory, the phase of the run, the spool's health, how far
//! behind the log and the object store are. Does not own: the work itself.
//! Invariant: handed-over blocks are bounded; what does not fit is read from the disk.

use super::Kept;
use super::dir::SpoolDir;
use super::shelf::{Counts, Landing, Segment, SegmentId, Shelf, Stretch};
use super::waits::{Place, Waits};
use crate::config::Ack;
use crate::outage::Outage;
use crate::{clock, ids};
use forebay_gateway_core::segment::SegmentName;
use forebay_schemas::time::Micros;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    Running,
    /// No new request comes: each thread ends when its work is done.
    Draining,
    /// Each thread ends at once; what is on disk stays for the next start.
    Stopped,
}

/// A durable block whose requests are still in memory.
pub struct Block {
    pub segment: SegmentId,
    pub start: u64,
    pub end: u64,
    pub requests: Vec<Arc<Kept>>,
}

/// What goes to the log next.
pub enum Next {
    Memory(Block, SegmentName),
    Disk(Stretch, SegmentName),
    /// Nothing came within the wait.
    Idle,
    /// All is taken and nothing will come, or the run is stopped.
    End,
}

/// The spool as people see it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct View {
    pub bytes: u64,
    pub segments: Counts,
    /// Bytes that are not on the log.
    pub behind: u64,
    /// Since the oldest of them was received.
    pub age: Duration,
}

/// Why the spool takes nothing at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Trouble {
    #[error("the spool has reached spool.max_bytes, or the disk is full")]
    Full,
    #[error("the spool cannot be written")]
    Failed,
    #[error("the spool's disk does not answer")]
    Stuck,
}

/// A write that takes longer keeps new requests from waiting for it.
const STUCK: Duration = Duration::from_secs(5);

pub struct Shared {
    state: Mutex<State>,
    /// Blocks may be taken.
    blocks: Condvar,
    /// A segment or the phase has changed.
    changed: Condvar,
    bytes: AtomicU64,
    bytes_max: u64,
    handover_max: usize,
    /// The last write failed and none has gone through since: new requests are turned away unread.
    broken: Mutex<Option<Trouble>>,
    /// The open segment is sealed as soon as it holds something.
    hasty: AtomicBool,
    /// Since when the writer waits for the disk.
    writing: Mutex<Option<Instant>>,
    pub log: Outage,
    pub objects: Outage,
}

struct State {
    shelf: Shelf,
    names: BTreeMap<SegmentId, SegmentName>,
    handover: VecDeque<Block>,
    handover_bytes: usize,
    phase: Phase,
    writer_done: bool,
    waits: Waits,
    /// Everything received before this is on the log, as far as that is known.
    through: Option<Micros>,
}

impl Shared {
    /// `handover_max`: bytes of requests that may wait in memory for the log.
    pub fn new(segments: Vec<(SegmentName, Segment)>, bytes_max: u64, handover_max: usize) -> Shared {
        let mut state = State {
            shelf: Shelf::default(),
            names: BTreeMap::new(),
            handover: VecDeque::new(),
            handover_bytes: 0,
            phase: Phase::Running,
            writer_done: false,
            waits: Waits::default(),
            through: None,
        };
        for (name, segment) in segments {
            state.shelf.put(name.first, segment);
            state.names.insert(name.first, name);
        }
        let shared = Shared {
            state: Mutex::new(state),
            blocks: Condvar::new(),
            changed: Condvar::new(),
            bytes: AtomicU64::new(0),
            bytes_max,
            handover_max,
            broken: Mutex::new(None),
            hasty: AtomicBool::new(false),
            writing: Mutex::new(None),
            log: Outage::new("the log does not take events", "the log takes events again"),
            objects: Outage::new("the object store does not take segments", "the object store takes segments again"),
        };
        shared.settle(shared.state.lock(), &shared.changed);
        shared
    }

    /// A block is durable; `begun` names its segment when it is the first one in it.
    pub fn durable(&self, begun: Option<&SegmentName>, block: Block) {
        let mut state = self.state.lock();
        if let Some(name) = begun {
            let (durable, published) = (block.end, block.start);
            let fresh = Segment { durable, sealed: false, landing: Landing::Waiting, taken: published, published, damaged: false };
            state.shelf.put(block.segment, fresh);
            state.names.insert(block.segment, name.clone());
        }
        state.shelf.grow(block.segment, block.end);
        let bytes = size(&block);
        if state.handover_bytes + bytes <= self.handover_max {
            state.handover_bytes += bytes;
            state.handover.push_back(block);
        }
        self.settle(state, &self.blocks);
    }

    pub fn sealed(&self, segment: SegmentId) {
        let mut state = self.state.lock();
        state.shelf.seal(segment);
        self.settle(state, &self.changed);
    }

    pub fn landed(&self, segment: SegmentId, landing: Landing) {
        let mut state = self.state.lock();
        state.shelf.land(segment, landing);
        if landing == Landing::Landed {
            state.waits.landed(segment);
        }
        self.settle(state, &self.changed);
    }

    /// Resolves once a request that is durable at `place` is where `ack` wants it; `None` when it is there already.
    pub fn reach(&self, place: Place, ack: Ack) -> Option<oneshot::Receiver<()>> {
        let mut state = self.state.lock();
        // A segment that is gone was landed and published.
        let segment = state.shelf.get(place.segment)?;
        match ack {
            Ack::Spool => None,
            Ack::Log if segment.published >= place.end => None,
            Ack::Log => Some(state.waits.for_log(place)),
            Ack::Object if segment.landing == Landing::Landed => None,
            Ack::Object => Some(state.waits.for_object(place.segment)),
        }
    }

    /// The blocks before `to` are on their way to the log.
    pub fn taken(&self, segment: SegmentId, to: u64) {
        self.state.lock().shelf.take(segment, to);
    }

    /// The blocks before `to` are on the log, and everything received before `through`.
    pub fn published(&self, segment: SegmentId, to: u64, through: Option<Micros>) {
        let mut state = self.state.lock();
        state.shelf.publish(segment, to);
        state.waits.published(segment, to);
        state.through = state.through.max(through);
        self.settle(state, &self.changed);
    }

    /// Whether a sealed segment is published to its end by `to`.
    pub fn ends(&self, segment: SegmentId, to: u64) -> bool {
        self.state.lock().shelf.get(segment).is_some_and(|s| s.sealed && to >= s.durable)
    }

    pub fn holds(&self, segment: SegmentId) -> bool {
        self.state.lock().shelf.get(segment).is_some()
    }

    pub fn damaged(&self, segment: SegmentId) {
        let mut state = self.state.lock();
        state.shelf.damage(segment);
        self.settle(state, &self.changed);
    }

    /// Waits up to `wait` for blocks that are not on their way to the log.
    pub fn to_take(&self, wait: Duration) -> Next {
        let mut state = self.state.lock();
        let none_will_come = |state: &State| state.phase == Phase::Draining && state.writer_done;
        if state.phase != Phase::Stopped && state.shelf.to_take().is_none() && !none_will_come(&state) {
            self.blocks.wait_for(&mut state, wait);
        }
        match (state.phase, state.shelf.to_take()) {
            (Phase::Stopped, _) => Next::End,
            (Phase::Running | Phase::Draining, Some(stretch)) => state.next(stretch),
            (Phase::Running | Phase::Draining, None) if none_will_come(&state) => Next::End,
            (Phase::Running | Phase::Draining, None) => Next::Idle,
        }
    }

    pub fn all_published(&self) -> bool {
        self.state.lock().shelf.all_published()
    }

    pub fn view(&self) -> View {
        let state = self.state.lock();
        let unpublished = state.shelf.unpublished();
        // The first request of a segment may be on the log already: then `through` is nearer.
        let since = unpublished.oldest.map(|first| ids::time(first).max(state.through.unwrap_or(Micros(i64::MIN))));
        let age = since.map_or(0, |since| (clock::now().0 - since.0).max(0));
        View {
            bytes: state.shelf.bytes(),
            segments: state.shelf.counts(),
            behind: unpublished.bytes,
            age: Duration::from_micros(age.unsigned_abs()),
        }
    }

    /// Waits up to `wait` for a sealed segment, which is the caller's from then on; `Err` when none will come.
    pub fn to_land(&self, wait: Duration) -> Result<Option<(SegmentName, Segment)>, ()> {
        let mut state = self.state.lock();
        if state.phase != Phase::Stopped && state.shelf.to_land().is_none() && !(state.phase == Phase::Draining && state.writer_done) {
            self.changed.wait_for(&mut state, wait);
        }
        let next = state.shelf.to_land().and_then(|id| Some((state.names.get(&id)?.clone(), state.shelf.get(id)?)));
        if let Some((name, _)) = &next {
            state.shelf.land(name.first, Landing::Underway);
        }
        let over = state.phase == Phase::Stopped || (state.phase == Phase::Draining && state.writer_done && next.is_none());
        if over { Err(()) } else { Ok(next) }
    }

    /// Deletes what is landed and published.
    pub fn reap(&self, dir: &SpoolDir) {
        let mut state = self.state.lock();
        let done: Vec<SegmentName> = state.shelf.take_done().into_iter().filter_map(|id| state.names.remove(&id)).collect();
        if done.is_empty() {
            return;
        }
        self.settle(state, &self.changed);
        for name in done {
            if let Err(error) = dir.remove(&name) {
                tracing::error!(segment = name.file(), %error, "a finished segment cannot be deleted; the next start tries again");
            }
        }
    }

    pub fn enter(&self, phase: Phase) {
        let mut state = self.state.lock();
        state.phase = state.phase.max(phase);
        if phase == Phase::Stopped {
            state.handover.clear();
        }
        self.blocks.notify_all();
        self.changed.notify_all();
    }

    pub fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// A wait that ends early when the phase moves on.
    pub fn rest(&self, wait: Duration) -> Phase {
        let mut state = self.state.lock();
        let until = Instant::now() + wait;
        let from = state.phase;
        while state.phase == from && !self.changed.wait_until(&mut state, until).timed_out() {}
        state.phase
    }

    pub fn writer_done(&self) {
        self.state.lock().writer_done = true;
        self.blocks.notify_all();
        self.changed.notify_all();
    }

    /// Segments and bytes on disk.
    pub fn left(&self) -> (usize, u64) {
        let state = self.state.lock();
        (state.shelf.len(), state.shelf.bytes())
    }

    /// The gateway stops: who waits for the object store cannot wait until a segment is old enough.
    pub fn hasten(&self) {
        self.hasty.store(true, Ordering::Relaxed);
    }
    pub fn is_hasty(&self) -> bool {
        self.hasty.load(Ordering::Relaxed)
    }

    pub fn failed(&self, trouble: Trouble) {
        *self.broken.lock() = Some(trouble);
    }

    /// A write went through: whatever failed before is over.
    pub fn recovered(&self) {
        *self.broken.lock() = None;
    }

    pub fn is_broken(&self) -> bool {
        self.broken.lock().is_some()
    }

    /// Since when a block is on its way to the disk, if one is.
    pub fn writing(&self, since: Option<Instant>) {
        *self.writing.lock() = since;
    }

    pub fn trouble(&self) -> Option<Trouble> {
        if self.bytes.load(Ordering::Relaxed) >= self.bytes_max {
            return Some(Trouble::Full);
        }
        let stuck = || self.writing.lock().filter(|since| since.elapsed() >= STUCK).map(|_| Trouble::Stuck);
        self.broken.lock().or_else(stuck)
    }

    /// Lets go of the state and wakes whoever waits for this kind of news.
    fn settle(&self, state: MutexGuard<'_, State>, news: &Condvar) {
        self.bytes.store(state.shelf.bytes(), Ordering::Relaxed);
        drop(state);
        news.notify_all();
    }
}

impl State {
    /// From memory where the next block is handed over, else from the disk up to where one is.
    fn next(&mut self, stretch: Stretch) -> Next {
        let place = |block: &Block| (block.segment, block.start);
        while self.handover.front().is_some_and(|block| place(block) < (stretch.segment, stretch.from)) {
            self.pop();
        }
        let Some(name) = self.names.get(&stretch.segment).cloned() else { return Next::Idle };
        if self.handover.front().is_some_and(|block| place(block) == (stretch.segment, stretch.from))
            && let Some(block) = self.pop()
        {
            return Next::Memory(block, name);
        }
        let next = self.handover.front().filter(|block| block.segment == stretch.segment).map(|block| block.start);
        Next::Disk(Stretch { to: next.unwrap_or(stretch.to), ..stretch }, name)
    }

    fn pop(&mut self) -> Option<Block> {
        let block = self.handover.pop_front()?;
        self.handover_bytes -= size(&block);
        Some(block)
    }
}

/// What a block holds in memory, about: bodies, and what stands beside them.
fn size(block: &Block) -> usize {
    let one = |kept: &Arc<Kept>| kept.raw.body.len() + kept.decoded.len() + kept.raw.events.len() * EVENT_REF_BYTES + REQUEST_BYTES;
    block.requests.iter().map(one).sum()
}

const EVENT_REF_BYTES: usize = 96;
const REQUEST_BYTES: usize = 1 << 10;
