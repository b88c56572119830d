//! The publisher: cut events to the log, in spool order; and the ticks that say how far it came.
//!
//! Path: `cutter` (blocks → events) → `outbox` (one piece that grows) → here (append, mark, tick).
//! Owns: the order, the mark behind it, `published_through`. Does not own: the events' making, the log.
//! Invariants: one append at a time, tried again until the log has all of it; the mark never leads the log; a tick's
//! time is never after the first request that is not published; after a crash everything behind the mark is published
//! again with the same ids.

pub mod cutter;
pub mod outbox;

use crate::metrics::Metrics;
use crate::spool::dir::SpoolDir;
use crate::spool::intake::Intake;
use crate::spool::shared::{Phase, Shared};
use bytes::Bytes;
use forebay_gateway_core::segment::{LedgerRecord, SegmentName};
use forebay_schemas::failpoint;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::{PUBLISHED_THROUGH, Topic};
use forebay_schemas::wire::harvested;
use forebay_stores::log::{Entry, Log, LogError, TopicPartition};
use outbox::{Outbox, Piece, Taken};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub struct Publisher {
    pub dir: Arc<SpoolDir>,
    pub shared: Arc<Shared>,
    pub intake: Arc<Intake>,
    pub outbox: Arc<Outbox>,
    pub log: Arc<dyn Log>,
    pub metrics: Metrics,
    /// Key of ticks.
    pub gateway: Bytes,
    pub progress: Progress,
}

/// How far the publisher came, beside what the shelf says.
pub struct Progress {
    /// Everything received before this is on the log; unknown until the first append or the first idle moment.
    through: Option<Micros>,
    tick_due: Instant,
    /// Published, but not in the ledger yet.
    unmarked: Option<(SegmentName, u64)>,
    mark_due: Instant,
}

const TICK: Duration = Duration::from_secs(1);
/// The mark may lag by this much: so much is published again after a crash.
const MARK: Duration = Duration::from_millis(500);
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(2);
/// Until somebody makes the topic or grants the right.
const RETRY_REFUSED: Duration = Duration::from_secs(10);

impl Default for Progress {
    fn default() -> Progress {
        let now = Instant::now();
        Progress { through: None, tick_due: now, unmarked: None, mark_due: now }
    }
}

impl Publisher {
    /// Runs until everything is published and nothing will come, or the run is stopped.
    pub fn run(mut self) {
        loop {
            let Progress { tick_due, mark_due, .. } = self.progress;
            let due = if self.progress.unmarked.is_some() { tick_due.min(mark_due) } else { tick_due };
            match self.outbox.take(due) {
                Taken::Piece(piece) => {
                    if !self.publish(piece) {
                        break;
                    }
                }
                Taken::Nothing => {}
                Taken::Closed => break,
            }
            if Instant::now() >= self.progress.tick_due {
                self.tick();
            }
            self.mark_when_due();
        }
        if self.shared.phase() != Phase::Stopped {
            self.tick();
        }
        self.mark();
    }

    /// Appends a piece, again and again until the log has it; false when the run is stopped first.
    fn publish(&mut self, mut piece: Piece) -> bool {
        let mut wait = RETRY_FIRST;
        loop {
            failpoint::pass("publish.before_append");
            let error = match self.append(&piece) {
                Ok(()) => break,
                Err(error) => error,
            };
            self.metrics.publish_errors.inc();
            if matches!(error, LogError::TooLarge { .. }) && shorten_largest(&mut piece) {
                continue;
            }
            self.shared.log.failed(&error);
            let pause = if matches!(error, LogError::Io(_)) { wait } else { RETRY_REFUSED };
            self.mark_when_due();
            if self.shared.rest(pause) == Phase::Stopped {
                return false;
            }
            wait = (wait * 2).min(RETRY_LAST);
        }
        failpoint::pass("publish.after_append");
        self.shared.log.passed();
        self.metrics.published_events.inc_by(piece.entries.len() as u64);
        self.progress.through = self.progress.through.max(piece.through);
        for (name, to) in &piece.ends {
            self.published(name, *to);
        }
        self.shared.reap(&self.dir);
        true
    }

    /// On an error any prefix may be on the log: the whole is sent again, with the same ids.
    fn append(&mut self, piece: &Piece) -> Result<(), LogError> {
        let mut entries = piece.entries.clone();
        let through = self.progress.through.max(piece.through).filter(|_| Instant::now() >= self.progress.tick_due);
        if let Some(through) = through {
            self.ticks(through, &mut entries);
        }
        if !entries.is_empty() {
            self.log.append(entries)?;
        }
        if through.is_some() {
            self.progress.tick_due = Instant::now() + TICK;
        }
        Ok(())
    }

    /// Tells every partition how far this gateway is published, also when nothing comes.
    fn tick(&mut self) {
        let idle = self.intake.idle_now(|| self.shared.all_published());
        self.progress.through = self.progress.through.max(idle);
        if let Some(through) = self.progress.through {
            let mut entries = Vec::new();
            self.ticks(through, &mut entries);
            match self.log.append(entries) {
                Ok(()) => self.shared.log.passed(),
                Err(error) => {
                    self.metrics.publish_errors.inc();
                    self.shared.log.failed(&error);
                }
            }
        }
        self.progress.tick_due = Instant::now() + TICK;
    }

    fn ticks(&self, through: Micros, entries: &mut Vec<(TopicPartition, Entry)>) {
        let through = Bytes::from(through.0.to_string());
        for partition in 0..self.log.partitions(Topic::Harvested) {
            let headers = vec![(PUBLISHED_THROUGH.to_owned(), through.clone())];
            let at = TopicPartition { topic: Topic::Harvested, partition };
            entries.push((at, Entry { key: self.gateway.clone(), value: None, headers }));
        }
    }

    fn published(&mut self, name: &SegmentName, to: u64) {
        if self.progress.unmarked.as_ref().is_some_and(|(other, _)| other != name) {
            self.mark();
        }
        if self.progress.unmarked.is_none() {
            self.progress.mark_due = Instant::now() + MARK;
        }
        self.progress.unmarked = Some((name.clone(), to));
        if self.shared.ends(name.first, to) {
            self.mark();
        }
        self.shared.published(name.first, to, self.progress.through);
    }

    fn mark_when_due(&mut self) {
        if Instant::now() >= self.progress.mark_due {
            self.mark();
        }
    }

    /// Writes the mark behind the log.
    fn mark(&mut self) {
        let Some((name, through)) = self.progress.unmarked.take() else { return };
        if !self.shared.holds(name.first) {
            return;
        }
        if let Err(error) = self.dir.note(&name, LedgerRecord::Published { through }, true) {
            self.metrics.spool_errors.with_label_values(&["ledger"]).inc();
            tracing::warn!(segment = name.file(), %error, "the published mark cannot be written; it lags");
        }
    }
}

/// Shortens the largest event of a piece; false when that makes it no smaller. The log may hold less than a message of
/// ours: better one event cut than all events behind it waiting for ever.
fn shorten_largest(piece: &mut Piece) -> bool {
    let size = |entry: &Entry| entry.value.as_ref().map_or(0, Bytes::len);
    let Some((_, largest)) = piece.entries.iter_mut().max_by_key(|(_, entry)| size(entry)) else { return false };
    let Some(event) = largest.value.as_ref().and_then(|value| harvested::decode(value).ok()) else { return false };
    let value = Bytes::from(harvested::encode(&cutter::shortened(&event)));
    let smaller = value.len() < size(largest);
    if smaller {
        tracing::warn!(event_bytes = size(largest), "an event is larger than the log takes: it is cut and ends as a reject");
        largest.value = Some(value);
    }
    smaller
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::shelf::{Landing, Segment};
    use crate::testing::{Disk, FakeLog};
    use forebay_schemas::id::RequestId;

    /// The cutter may be slow, or wait for a file that cannot be read: an empty outbox says nothing.
    #[test]
    fn an_idle_tick_waits_until_all_is_published() {
        let folder = tempfile::tempdir().expect("folder");
        let name = SegmentName::new(Micros(0), "g1", RequestId(uuid::Uuid::from_u128(1)));
        let held = Segment { durable: 10, sealed: true, landing: Landing::Waiting, taken: 0, published: 0, damaged: false };
        let log = Arc::new(FakeLog::default());
        let mut publisher = Publisher {
            dir: Arc::new(SpoolDir::open(folder.path(), Arc::new(Disk::new())).expect("opens")),
            shared: Arc::new(Shared::new(vec![(name.clone(), held)], u64::MAX, 0)),
            intake: Arc::new(Intake::new(None, Micros(7), 1)),
            outbox: Arc::default(),
            log: log.clone(),
            metrics: Metrics::new(&prometheus::Registry::new()).expect("metrics"),
            gateway: Bytes::from_static(b"g1"),
            progress: Progress::default(),
        };
        publisher.tick();
        assert_eq!(log.ticks(), []);
        publisher.published(&name, 10);
        publisher.tick();
        let ticks = log.ticks();
        assert_eq!(ticks.iter().map(|(partition, _)| *partition).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(ticks.iter().all(|(_, through)| *through > 7));
    }
}
