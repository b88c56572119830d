//! The cutter: durable requests, cut into the events that go to the log, in spool order.
//!
//! Owns: reading back what memory had no room for, partition and value of each event. Does not own: the split
//! (gateway-core `harvest`), the append (`publisher`).
//! Invariants: nothing is passed over but a segment that cannot be read, which is kept and told; no value is larger than
//! a message may be.

use super::outbox::{Outbox, Piece};
use crate::metrics::Metrics;
use crate::spool::dir::SpoolDir;
use crate::spool::reader::{self, ReadError, SegmentReader};
use crate::spool::shared::{Next, Phase, Shared};
use crate::spool::shelf::{SegmentId, Stretch};
use bytes::Bytes;
use forebay_gateway_core::segment::SegmentName;
use forebay_gateway_core::{Limits, decode_again, harvest};
use forebay_schemas::limit;
use forebay_schemas::partition::partition_of;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::harvested::{self, Content, Harvested};
use forebay_schemas::wire::raw_request::RawRequest;
use forebay_stores::log::{Entry, TopicPartition};
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub struct Cutter {
    pub dir: Arc<SpoolDir>,
    pub shared: Arc<Shared>,
    pub outbox: Arc<Outbox>,
    /// Of the harvested topic.
    pub partitions: i32,
    pub limits: Limits,
    pub metrics: Metrics,
    pub piece: Piece,
    pub reader: Option<(SegmentId, SegmentReader)>,
    pub read_failures: u32,
}

const LOOK: Duration = Duration::from_secs(1);
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(5);
/// A file that cannot be read this often in a row is left for someone to look at.
const READ_FAILURES_MAX: u32 = 8;

/// The run is stopped.
struct Stopped;

impl Cutter {
    /// Runs until everything is on its way to the log and nothing will come, or the run is stopped.
    pub fn run(mut self) {
        loop {
            let went_on = match self.shared.to_take(LOOK) {
                Next::Memory(block, name) => {
                    self.reader = None;
                    let cut = block.requests.iter().try_for_each(|kept| self.cut(&kept.raw, &kept.decoded));
                    cut.and_then(|()| self.end(&name, block.end))
                }
                Next::Disk(stretch, name) => self.read_back(stretch, &name),
                Next::Idle => {
                    self.reader = None;
                    Ok(())
                }
                Next::End => break,
            };
            if went_on.is_err() {
                break;
            }
        }
        self.outbox.close();
    }

    /// One block: after a restart, or when memory had no room for it.
    fn read_back(&mut self, stretch: Stretch, name: &SegmentName) -> Result<(), Stopped> {
        let block = match self.read(stretch, name) {
            Ok(Some(block)) => block,
            Ok(None) => return self.damaged(name, "the segment ends before its last block"),
            Err(ReadError::Torn { at, error }) => return self.damaged(name, &format!("no whole block at {at}: {error}")),
            Err(ReadError::Io(error)) => return self.unreadable(name, &error),
        };
        self.read_failures = 0;
        block.requests.iter().try_for_each(|raw| self.cut(raw, &decode_again(raw)))?;
        self.end(name, block.end)
    }

    fn read(&mut self, stretch: Stretch, name: &SegmentName) -> Result<Option<reader::Block>, ReadError> {
        let mut reader = match self.reader.take() {
            Some((segment, reader)) if segment == stretch.segment => reader,
            _ => SegmentReader::open(&self.dir.file(name), None)?,
        };
        reader.seek(stretch.from);
        reader.end_at(stretch.to);
        let block = reader.next()?;
        self.reader = Some((stretch.segment, reader));
        Ok(block)
    }

    /// Adds a request's events to the piece, and hands that on when it is large.
    fn cut(&mut self, raw: &RawRequest, decoded: &Bytes) -> Result<(), Stopped> {
        let Cutter { piece, outbox, partitions, limits, .. } = self;
        let mut stopped = false;
        piece.through = Some(raw.received_at);
        harvest::each(raw, decoded, limits, &mut |key, event| {
            if stopped {
                return;
            }
            let value = encode(key, event);
            let at = TopicPartition { topic: Topic::Harvested, partition: partition_of(key.as_bytes(), *partitions) };
            piece.bytes += key.len() + value.len();
            piece.entries.push((at, Entry { key: Bytes::copy_from_slice(key.as_bytes()), value: Some(value), headers: Vec::new() }));
            if piece.bytes >= limit::CUT_PIECE_BYTES {
                let full = std::mem::take(piece);
                piece.through = full.through;
                stopped = !outbox.add(full);
            }
        });
        if stopped { Err(Stopped) } else { Ok(()) }
    }

    /// All before `to` is cut.
    fn end(&mut self, name: &SegmentName, to: u64) -> Result<(), Stopped> {
        self.piece.end(name, to);
        self.shared.taken(name.first, to);
        if self.outbox.add(std::mem::take(&mut self.piece)) { Ok(()) } else { Err(Stopped) }
    }

    /// Most errors pass, such as that no file handle is left, and then nothing may be passed over. A file that is gone
    /// or lies on bad sectors does not come back, and must not hold up what is behind it.
    fn unreadable(&mut self, name: &SegmentName, error: &io::Error) -> Result<(), Stopped> {
        self.metrics.spool_errors.with_label_values(&["read"]).inc();
        self.read_failures = self.read_failures.saturating_add(1);
        let lost = error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(EIO);
        if lost && self.read_failures >= READ_FAILURES_MAX {
            return self.damaged(name, &error.to_string());
        }
        tracing::warn!(segment = name.file(), %error, "a segment cannot be read; it is tried again");
        match self.shared.rest((RETRY_FIRST * self.read_failures).min(RETRY_LAST)) {
            Phase::Running | Phase::Draining => Ok(()),
            Phase::Stopped => Err(Stopped),
        }
    }

    fn damaged(&mut self, name: &SegmentName, what: &str) -> Result<(), Stopped> {
        self.read_failures = 0;
        self.reader = None;
        self.metrics.spool_errors.with_label_values(&["damaged"]).inc();
        tracing::error!(segment = name.file(), what, "a segment is damaged: it is kept, and publishing goes on behind it");
        self.shared.damaged(name.first);
        Ok(())
    }
}

/// Input/output error (Linux).
const EIO: i32 = 5;

/// An event that no message could hold is shortened, as one over `limit::EVENT_BYTES` is.
fn encode(key: &str, event: &Harvested) -> Bytes {
    let fits = |bytes: usize| key.len() + bytes + limit::RECORD_OVERHEAD_BYTES <= limit::MESSAGE_BYTES;
    // What is far too large is not written out first: a request may have thousands of such.
    if fits(event.payload.len() + event.envelope.as_ref().map_or(0, String::len)) {
        let whole = harvested::encode(event);
        if fits(whole.len()) {
            return Bytes::from(whole);
        }
    }
    Bytes::from(harvested::encode(&shortened(event)))
}

/// What is kept of an event that is too large: its head and how long it was.
pub fn shortened(event: &Harvested) -> Harvested {
    let full_length = event.full_length.or(Some(event.payload.len() as u64));
    let payload = event.payload.slice(..event.payload.len().min(limit::CUT_BYTES));
    Harvested { content: Content::Bytes, envelope: None, payload, full_length, ..event.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_schemas::dialect::Dialect;
    use forebay_schemas::id::{EventId, IdOrigin, RequestId};
    use forebay_schemas::time::Micros;

    #[test]
    fn a_value_fills_a_message_to_the_byte_and_a_longer_one_is_shortened() {
        let event = |envelope: usize| Harvested {
            event_id: EventId::new("e").expect("an id"),
            id_origin: IdOrigin::Client,
            request_id: RequestId(uuid::Uuid::nil()),
            index: 0,
            gateway: "g".to_owned(),
            source: "default".to_owned(),
            dialect: Dialect::Native,
            received_at: Micros(0),
            sent_at: None,
            client_ip: None,
            user_agent: None,
            headers: Vec::new(),
            content: Content::Json,
            envelope: Some("x".repeat(envelope)),
            payload: Bytes::from_static(b"{}"),
            full_length: None,
        };
        let key = "k".repeat(limit::PARTITION_KEY_BYTES);
        let room = limit::MESSAGE_BYTES - limit::RECORD_OVERHEAD_BYTES - key.len();
        let beside = harvested::encode(&event(limit::MESSAGE_BYTES / 2)).len() - limit::MESSAGE_BYTES / 2;
        let whole = encode(&key, &event(room - beside));
        assert_eq!((whole.len(), harvested::decode(&whole)), (room, Ok(event(room - beside))));
        for envelope in [room - beside + 1, 2 * limit::MESSAGE_BYTES] {
            let short = harvested::decode(&encode(&key, &event(envelope))).expect("an event");
            assert_eq!(short, Harvested { content: Content::Bytes, envelope: None, full_length: Some(2), ..event(0) });
        }
    }
}
