//! The writer: one block and one fsync for all requests that wait, then their acknowledgements.
//!
//! Owns: the open segment; encoding and compression, so that the async threads stay free. Does not own: closed segments.
//! Invariants: nothing is acknowledged before its block is synced; after a failed write the file ends at its last good
//! border; after a failed fsync nothing of that block is trusted and the segment takes no more.

use super::dir::{Newest, SpoolDir, is_full};
use super::file::SegmentFile;
use super::intake::{Intake, NotKept, Taken, Waiting};
use super::shared::{Block, Phase, Shared, Trouble};
use super::waits::Place;
use crate::{chance, clock};
use forebay_gateway_core::segment::{LedgerRecord, SegmentName};
use forebay_schemas::ocf::{self, Codec};
use forebay_schemas::time::Micros;
use forebay_schemas::wire::raw_request::{self, RawRequest};
use forebay_schemas::{failpoint, limit};
use sha2::{Digest, Sha256};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub segment_bytes: u64,
    pub segment_age: Duration,
    pub codec: Codec,
}

pub struct Writer {
    pub dir: Arc<SpoolDir>,
    pub intake: Arc<Intake>,
    pub shared: Arc<Shared>,
    pub gateway: String,
    pub rules: Rules,
    pub errors: prometheus::IntCounterVec,
    pub open: Option<Open>,
    pub records: Vec<u8>,
    /// When a disk that failed is asked again.
    pub probe_due: Instant,
}

/// The segment that grows.
pub struct Open {
    name: SegmentName,
    file: Box<dyn SegmentFile>,
    sync: [u8; 16],
    /// The last border up to which everything is durable; 0 until the first block is.
    good: u64,
    requests: u64,
    sha256: Sha256,
    begun: Instant,
    newest: Newest,
}

enum Fault {
    /// Bytes may be behind the border; the file can be cut there and go on.
    Write(io::Error),
    /// Nobody knows what the disk holds behind the border.
    Sync(io::Error),
}

/// How often the age of an open segment is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Between two looks at whether a disk that failed takes writes again.
const PROBE: Duration = Duration::from_secs(1);

impl Writer {
    /// Runs until the intake is closed and empty, or the run is stopped.
    pub fn run(mut self) {
        loop {
            let taken = self.intake.take(limit::SPOOL_BLOCK_BYTES, LOOK);
            if self.shared.phase() == Phase::Stopped {
                break;
            }
            match taken {
                Taken::Batch(batch) => self.commit(batch),
                Taken::Nothing => {
                    self.seal_when_due(clock::now());
                    self.probe_when_due();
                }
                Taken::Closed => {
                    self.seal();
                    break;
                }
            }
        }
        self.shared.writer_done();
    }

    /// Makes a batch durable and answers for each request in it.
    pub fn commit(&mut self, batch: Vec<Waiting>) {
        let Some(first) = batch.first() else { return };
        self.seal_when_due(first.kept.raw.received_at);
        self.shared.writing(Some(Instant::now()));
        let written = self.write(&batch);
        self.shared.writing(None);
        match written {
            Ok((begun, start, end)) => {
                let Some(segment) = self.open.as_ref().map(|open| open.name.clone()) else { return };
                self.shared.recovered();
                let place = Place { segment: segment.first, end };
                let (acks, requests): (Vec<_>, _) = batch.into_iter().map(|waiting| (waiting.ack, waiting.kept)).unzip();
                self.shared.durable(begun.then_some(&segment), Block { segment: segment.first, start, end, requests });
                // Behind that: whoever waits for more asks the shelf, which knows of the segment now.
                for ack in acks {
                    let _ = ack.send(Ok(place));
                }
            }
            Err(fault) => {
                self.recover(&fault);
                for waiting in batch {
                    let _ = waiting.ack.send(Err(NotKept));
                }
            }
        }
    }

    /// Appends a block and syncs it: whether it began a segment, and where the block lies.
    fn write(&mut self, batch: &[Waiting]) -> Result<(bool, u64, u64), Fault> {
        self.records.clear();
        for waiting in batch {
            raw_request::encode(&waiting.kept.raw, &mut self.records);
        }
        let (first, last) = (&batch[0].kept.raw, &batch[batch.len() - 1].kept.raw);
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin(first).map_err(Fault::Write)?,
        };
        let begins = open.good == 0;
        let header = if begins { ocf::header(raw_request::SCHEMA, self.rules.codec, open.sync) } else { Vec::new() };
        let block = ocf::block(&self.records, batch.len(), self.rules.codec, open.sync).map_err(Fault::Write);
        self.records.shrink_to(2 * limit::SPOOL_BLOCK_BYTES);
        let start = open.good + header.len() as u64;
        let written = block.and_then(|block| {
            open.file.write_at(&header, open.good).map_err(Fault::Write)?;
            open.file.write_at(&block, start).map_err(Fault::Write)?;
            failpoint::pass("spool.before_fsync");
            open.file.sync().map_err(Fault::Sync)?;
            if begins {
                self.dir.begin_ledger(&open.name).map_err(Fault::Write)?;
                self.dir.sync().map_err(Fault::Sync)?;
            }
            failpoint::pass("spool.after_fsync");
            Ok(block)
        });
        let written = written.map(|block| {
            open.sha256.update(&header);
            open.sha256.update(&block);
            open.requests += batch.len() as u64;
            open.newest = Newest { request_id: last.request_id, received_at: last.received_at };
            open.good = start + block.len() as u64;
            (begins, start, open.good)
        });
        self.open = Some(open);
        written
    }

    fn begin(&self, first: &RawRequest) -> io::Result<Open> {
        let name = SegmentName::new(first.received_at, &self.gateway, first.request_id);
        let mut sync = [0; 16];
        chance::fill(&mut sync);
        Ok(Open {
            file: self.dir.create(&name)?,
            name,
            sync,
            good: 0,
            requests: 0,
            sha256: Sha256::new(),
            begun: Instant::now(),
            newest: Newest { request_id: first.request_id, received_at: first.received_at },
        })
    }

    /// Back to the last good border after a failed write or fsync.
    fn recover(&mut self, fault: &Fault) {
        let (operation, error, trusted) = match fault {
            Fault::Write(error) => ("write", error, true),
            Fault::Sync(error) => ("fsync", error, false),
        };
        self.errors.with_label_values(&[operation]).inc();
        tracing::error!(operation, %error, "the spool cannot be written; requests get 503 until it can");
        self.shared.failed(trouble(error));
        self.probe_due = Instant::now() + PROBE;
        let Some(mut open) = self.open.take() else { return };
        if open.good == 0 {
            drop(open.file);
            if let Err(error) = self.dir.remove(&open.name) {
                tracing::warn!(%error, "a segment that was begun in vain cannot be deleted; the next start removes it");
            }
            return;
        }
        let cut = open.file.cut(open.good);
        let goes_on = trusted && cut.is_ok();
        if let Err(error) = cut {
            tracing::error!(%error, "the spool's last segment cannot be cut back; a new one is begun");
        }
        if !goes_on {
            let _ = open.file.sync();
        }
        self.open = Some(open);
        if !goes_on {
            self.seal();
        }
    }

    /// After a failure no request comes to show that the disk works again, so the writer asks it, with a whole block:
    /// who hears "ready" may send at once.
    pub fn probe_when_due(&mut self) {
        if !self.shared.is_broken() || Instant::now() < self.probe_due {
            return;
        }
        self.probe_due = Instant::now() + PROBE;
        // Random: a file system that compresses must not find room for zeros alone.
        let mut block = vec![0; limit::SPOOL_BLOCK_BYTES];
        chance::fill(&mut block);
        match self.dir.probe(&block) {
            Ok(()) => {
                tracing::info!("the spool can be written again");
                self.shared.recovered();
            }
            Err(error) => self.shared.failed(trouble(&error)),
        }
    }

    fn seal_when_due(&mut self, now: Micros) {
        let rules = self.rules;
        let due =
            |open: &Open| open.good >= rules.segment_bytes || open.begun.elapsed() >= rules.segment_age || open.name.hour_is_over(now);
        if self.open.as_ref().is_some_and(|open| due(open) || self.shared.is_hasty()) {
            self.seal();
        }
    }

    /// Closes the open segment. A ledger that cannot be written costs a look at the file at the next start, no more.
    fn seal(&mut self) {
        let Some(open) = self.open.take() else { return };
        let record = LedgerRecord::Sealed { length: open.good, requests: open.requests, sha256: open.sha256.finalize().into() };
        if let Err(error) = self.dir.remember(open.newest).and_then(|()| self.dir.note(&open.name, record, true)) {
            self.errors.with_label_values(&["ledger"]).inc();
            tracing::error!(segment = open.name.file(), %error, "the seal of a segment cannot be noted");
        }
        self.shared.sealed(open.name.first);
    }
}

fn trouble(error: &io::Error) -> Trouble {
    if is_full(error) { Trouble::Full } else { Trouble::Failed }
}
