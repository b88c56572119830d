//! The publisher: durable requests, cut into events, to the log, in spool order; and the ticks that say how far it came.
//!
//! Owns: the order, the mark behind it, `published_through`. Does not own: the split (gateway-core `harvest`), the log.
//! Invariants: the mark never leads the log; a tick's time is never after the first request that is not published;
//! after a crash everything behind the mark is published again with the same ids.

use crate::metrics::Metrics;
use crate::spool::dir::SpoolDir;
use crate::spool::intake::Intake;
use crate::spool::reader::{self, ReadError, SegmentReader};
use crate::spool::shared::{Block, Phase, Publish, Shared};
use crate::spool::shelf::{SegmentId, Stretch};
use bytes::Bytes;
use forebay_gateway_core::segment::{LedgerRecord, SegmentName};
use forebay_gateway_core::{Limits, decode_again, harvest};
use forebay_schemas::partition::partition_of;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::{PUBLISHED_THROUGH, Topic};
use forebay_schemas::wire::harvested::{self, Content, Harvested};
use forebay_schemas::wire::raw_request::RawRequest;
use forebay_schemas::{failpoint, limit};
use forebay_stores::log::{Entry, Log, LogError, TopicPartition};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub struct Publisher {
    pub dir: Arc<SpoolDir>,
    pub shared: Arc<Shared>,
    pub intake: Arc<Intake>,
    pub log: Arc<dyn Log>,
    pub limits: Limits,
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
    /// The last tick was not taken, which was said.
    tick_refused: bool,
    /// Published, but not in the ledger yet.
    unmarked: Option<(SegmentName, u64)>,
    mark_due: Instant,
    reader: Option<(SegmentId, SegmentReader)>,
    read_failures: u32,
}

const TICK: Duration = Duration::from_secs(1);
/// The mark may lag by this much: so much is published again after a crash.
const MARK: Duration = Duration::from_millis(500);
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(5);
/// A segment that cannot be read this often in a row is left for someone to look at.
const READ_FAILURES_MAX: u32 = 8;
/// Room in a message for what stands beside an event's payload.
const BESIDE_PAYLOAD_BYTES: usize = 256 << 10;

impl Default for Progress {
    fn default() -> Progress {
        let now = Instant::now();
        Progress { through: None, tick_due: now, tick_refused: false, unmarked: None, mark_due: now, reader: None, read_failures: 0 }
    }
}

impl Publisher {
    /// Runs until everything is published and nothing will come, or the run is stopped.
    pub fn run(mut self) {
        loop {
            let due =
                if self.progress.unmarked.is_some() { self.progress.tick_due.min(self.progress.mark_due) } else { self.progress.tick_due };
            match self.shared.to_publish(due.saturating_duration_since(Instant::now())) {
                Publish::Memory(blocks, name) => self.publish_handed_over(&blocks, &name),
                Publish::Disk(stretch, name) => self.publish_read_back(stretch, &name),
                Publish::Idle => {}
                Publish::End => break,
            }
            if Instant::now() >= self.progress.tick_due {
                self.tick();
            }
            if Instant::now() >= self.progress.mark_due {
                self.mark();
            }
        }
        if self.shared.phase() != Phase::Stopped {
            self.tick();
        }
        self.mark();
    }

    fn publish_handed_over(&mut self, blocks: &[Block], name: &SegmentName) {
        let requests: Vec<(&RawRequest, Bytes)> =
            blocks.iter().flat_map(|block| &block.requests).map(|kept| (&kept.raw, kept.decoded.clone())).collect();
        if let Some(last) = blocks.last()
            && self.append(&requests)
        {
            self.published(name, last.end);
        }
    }

    /// One block, read back: after a restart, or when memory had no room for it.
    fn publish_read_back(&mut self, stretch: Stretch, name: &SegmentName) {
        let block = match self.read(stretch, name) {
            Ok(Some(block)) => block,
            Ok(None) => return self.damaged(name, "the segment ends before its last block"),
            Err(ReadError::Torn { at, error }) => return self.damaged(name, &format!("no whole block at {at}: {error}")),
            Err(ReadError::Io(error)) => return self.unreadable(name, &error),
        };
        self.progress.read_failures = 0;
        let mut piece = Vec::new();
        let mut bytes = 0;
        for (n, raw) in block.requests.iter().enumerate() {
            let decoded = decode_again(raw);
            bytes += decoded.len();
            piece.push((raw, decoded));
            if bytes >= limit::PUBLISH_BYTES || n + 1 == block.requests.len() {
                if !self.append(&piece) {
                    return;
                }
                piece.clear();
                bytes = 0;
            }
        }
        self.published(name, block.end);
    }

    fn read(&mut self, stretch: Stretch, name: &SegmentName) -> Result<Option<reader::Block>, ReadError> {
        let mut reader = match self.progress.reader.take() {
            Some((segment, reader)) if segment == stretch.segment => reader,
            _ => SegmentReader::open(&self.dir.file(name), None)?,
        };
        reader.seek(stretch.from);
        reader.end_at(stretch.to);
        let block = reader.next()?;
        self.progress.reader = Some((stretch.segment, reader));
        Ok(block)
    }

    /// Appends the events of `requests`, again and again until the log has them; false when the run is stopped first.
    fn append(&mut self, requests: &[(&RawRequest, Bytes)]) -> bool {
        let mut wait = RETRY_FIRST;
        loop {
            failpoint::pass("publish.before_append");
            match self.append_once(requests) {
                Ok(events) => {
                    failpoint::pass("publish.after_append");
                    self.metrics.published_events.inc_by(events);
                    return true;
                }
                Err(error) => {
                    self.metrics.publish_errors.inc();
                    tracing::error!(%error, "the log does not take events; they stay in the spool and are tried again");
                }
            }
            if self.shared.rest(wait) == Phase::Stopped {
                return false;
            }
            wait = (wait * 2).min(RETRY_LAST);
        }
    }

    /// On an error any prefix may be on the log: the whole is sent again, with the same ids.
    fn append_once(&mut self, requests: &[(&RawRequest, Bytes)]) -> Result<u64, LogError> {
        let partitions = self.log.partitions(Topic::Harvested);
        let (mut entries, mut bytes, mut events, mut failed) = (Vec::new(), 0, 0, None);
        for (raw, decoded) in requests {
            harvest::each(raw, decoded, &self.limits, &mut |key, event| {
                if failed.is_some() {
                    return;
                }
                events += 1;
                let value = encode(event);
                bytes += value.len() + key.len();
                let at = TopicPartition { topic: Topic::Harvested, partition: partition_of(key.as_bytes(), partitions) };
                entries.push((at, Entry { key: Bytes::copy_from_slice(key.as_bytes()), value: Some(value), headers: Vec::new() }));
                if bytes >= limit::PUBLISH_BYTES {
                    bytes = 0;
                    failed = self.log.append(std::mem::take(&mut entries)).err();
                }
            });
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let through = requests.last().map(|(raw, _)| raw.received_at);
        let ticks = Instant::now() >= self.progress.tick_due;
        if let Some(through) = through.filter(|_| ticks) {
            self.ticks(self.progress.through.max(Some(through)).unwrap_or(through), &mut entries);
        }
        if !entries.is_empty() {
            self.log.append(entries)?;
        }
        self.progress.through = self.progress.through.max(through);
        if ticks {
            self.progress.tick_due = Instant::now() + TICK;
        }
        Ok(events)
    }

    /// Tells every partition how far this gateway is published, also when nothing comes.
    fn tick(&mut self) {
        self.progress.tick_due = Instant::now() + TICK;
        let idle = self.intake.idle_now(|| self.shared.all_published());
        self.progress.through = self.progress.through.max(idle);
        let Some(through) = self.progress.through else { return };
        let mut entries = Vec::new();
        self.ticks(through, &mut entries);
        let refused = self.log.append(entries).err();
        if let Some(error) = &refused {
            self.metrics.publish_errors.inc();
            // Once an outage: a full disk may stay full for days, and ticks come each second.
            if !self.progress.tick_refused {
                tracing::warn!(%error, "the log does not take ticks; they are tried again each second");
            }
        }
        self.progress.tick_refused = refused.is_some();
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
        self.shared.published(name.first, to);
        self.shared.reap(&self.dir);
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

    fn unreadable(&mut self, name: &SegmentName, error: &std::io::Error) {
        self.metrics.spool_errors.with_label_values(&["read"]).inc();
        self.progress.read_failures += 1;
        if self.progress.read_failures >= READ_FAILURES_MAX {
            return self.damaged(name, &error.to_string());
        }
        tracing::warn!(segment = name.file(), %error, "a segment cannot be read; it is tried again");
        self.shared.rest(RETRY_FIRST * self.progress.read_failures);
    }

    fn damaged(&mut self, name: &SegmentName, what: &str) {
        self.progress.read_failures = 0;
        self.progress.reader = None;
        self.metrics.spool_errors.with_label_values(&["damaged"]).inc();
        tracing::error!(segment = name.file(), what, "a segment is damaged: it is kept, and publishing goes on behind it");
        self.shared.damaged(name.first);
    }
}

/// An event that no message could hold is cut, as one over `limit::EVENT_BYTES` is.
fn encode(event: &Harvested) -> Bytes {
    let beside = event.envelope.as_ref().map_or(0, String::len);
    if event.payload.len() + beside + BESIDE_PAYLOAD_BYTES <= limit::MESSAGE_BYTES {
        return Bytes::from(harvested::encode(event));
    }
    let full_length = event.full_length.or(Some(event.payload.len() as u64));
    let payload = event.payload.slice(..event.payload.len().min(limit::CUT_BYTES));
    Bytes::from(harvested::encode(&Harvested { content: Content::Bytes, envelope: None, payload, full_length, ..event.clone() }))
}
