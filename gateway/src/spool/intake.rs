//! Where requests wait for the spool's writer, in the order of their ids.
//!
//! Owns: the queue and its bounds; ids and `received_at`, given here, under the lock, so that order of ids, of times
//! and of the spool are one. Does not own: the disk.
//! Invariants: `received_at` never goes back; whoever is refused has been given no place in the order.

use super::Kept;
use super::waits::Place;
use crate::budget::Reserved;
use crate::ids::Sequence;
use crate::{chance, clock};
use bytes::Bytes;
use forebay_schemas::id::RequestId;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::raw_request::RawRequest;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The disk did not take the request; nothing of it is promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the spool cannot write")]
pub struct NotKept;

/// A request in the queue.
pub struct Waiting {
    pub kept: Arc<Kept>,
    pub ack: oneshot::Sender<Result<Place, NotKept>>,
}

/// The caller's half.
pub struct Ticket {
    pub request_id: RequestId,
    pub kept: Arc<Kept>,
    pub durable: oneshot::Receiver<Result<Place, NotKept>>,
}

/// What the writer gets.
pub enum Taken {
    /// Requests of one hour, in order; not empty.
    Batch(Vec<Waiting>),
    /// Nothing came within the wait.
    Nothing,
    /// Closed and empty: no request will come any more.
    Closed,
}

pub struct Intake {
    inner: Mutex<Inner>,
    ready: Condvar,
    requests_max: usize,
}

struct Inner {
    queue: VecDeque<Waiting>,
    ids: Sequence,
    received_at: Micros,
    /// The writer holds requests that are not durable yet.
    writing: bool,
    closed: bool,
}

impl Intake {
    pub fn new(newest: Option<RequestId>, received_at: Micros, requests_max: usize) -> Intake {
        let inner = Inner { queue: VecDeque::new(), ids: Sequence::after(newest), received_at, writing: false, closed: false };
        Intake { inner: Mutex::new(inner), ready: Condvar::new(), requests_max }
    }

    /// An id for an answer to a request that is not kept.
    pub fn id(&self) -> RequestId {
        let random = chance::bits();
        self.inner.lock().ids.next(now_ms(clock::now()), random)
    }

    /// Gives `raw` its id and time and queues it; `None` when the queue is full or closed.
    pub fn enqueue(&self, mut raw: RawRequest, decoded: Bytes, reserved: Reserved) -> Option<Ticket> {
        let random = chance::bits();
        let (ack, durable) = oneshot::channel();
        let mut inner = self.inner.lock();
        if inner.closed || inner.queue.len() >= self.requests_max {
            return None;
        }
        let now = clock::now().max(inner.received_at);
        inner.received_at = now;
        raw.request_id = inner.ids.next(now_ms(now), random);
        raw.received_at = now;
        let request_id = raw.request_id;
        let kept = Arc::new(Kept { raw, decoded, _reserved: reserved });
        inner.queue.push_back(Waiting { kept: kept.clone(), ack });
        self.ready.notify_one();
        Some(Ticket { request_id, kept, durable })
    }

    /// Up to about `bytes_max` of requests, at least one. Until the next call they count as being written.
    pub fn take(&self, bytes_max: usize, wait: Duration) -> Taken {
        let mut inner = self.inner.lock();
        inner.writing = false;
        if inner.queue.is_empty() && !inner.closed {
            self.ready.wait_for(&mut inner, wait);
        }
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut of = None;
        while let Some(next) = inner.queue.front() {
            let raw = &next.kept.raw;
            let fits = bytes == 0 || bytes + raw.body.len() <= bytes_max;
            if !fits || of.is_some_and(|first| first != hour(raw.received_at)) {
                break;
            }
            of = Some(hour(raw.received_at));
            bytes += raw.body.len() + raw.target.len();
            batch.extend(inner.queue.pop_front());
        }
        inner.writing = !batch.is_empty();
        match (batch.is_empty(), inner.closed) {
            (false, _) => Taken::Batch(batch),
            (true, true) => Taken::Closed,
            (true, false) => Taken::Nothing,
        }
    }

    /// `Some(now)` when nothing waits or is being written and `and` agrees: every later request is received at or after `now`.
    pub fn idle_now(&self, and: impl FnOnce() -> bool) -> Option<Micros> {
        let mut inner = self.inner.lock();
        if inner.writing || !inner.queue.is_empty() || !and() {
            return None;
        }
        inner.received_at = clock::now().max(inner.received_at);
        Some(inner.received_at)
    }

    /// No request is taken from now on; what is queued is still written.
    pub fn close(&self) {
        self.inner.lock().closed = true;
        self.ready.notify_all();
    }

    /// Closes and drops what is queued: its callers are told that it is not kept.
    pub fn abandon(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.queue.clear();
        self.ready.notify_all();
    }
}

/// Hours since the epoch, UTC: a segment holds one hour's requests.
pub fn hour(at: Micros) -> i64 {
    at.0.div_euclid(3_600_000_000)
}

fn now_ms(at: Micros) -> u64 {
    u64::try_from(at.millis()).unwrap_or(0)
}
