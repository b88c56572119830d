//! Reading a partition forwards.
//!
//! Owns: the position. Invariants: it moves on by records that were given out and over the ends that a broker told of, and
//! never jumps: where the log does not hold it any more the reader fails. After an error it fetches anew from where it was.

use super::fetch::Seat;
use super::{Shared, client, error, record};
use crate::log::{Bounds, LogError, Reader, Record, TopicPartition};
use bytes::BytesMut;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a read that begins anew waits for the bounds.
const ANEW: Duration = Duration::from_secs(1);

pub(super) struct KafkaReader {
    shared: Arc<Shared>,
    at: TopicPartition,
    position: i64,
    /// `None` after an error.
    seat: Option<Seat>,
    /// Read already, but past the end that was asked for.
    held: Option<Record>,
    buffer: BytesMut,
}

/// What came out of a partition's queue.
enum Came {
    Record(Record),
    /// The position moved on.
    End,
    Nothing,
}

impl KafkaReader {
    pub fn open(shared: &Arc<Shared>, at: TopicPartition, from: i64) -> Result<KafkaReader, LogError> {
        let mut reader = KafkaReader { shared: Arc::clone(shared), at, position: from, seat: None, held: None, buffer: BytesMut::new() };
        reader.sit(shared.options.patience.answer)?;
        Ok(reader)
    }

    /// Makes sure that the partition is fetched.
    fn sit(&mut self, wait: Duration) -> Result<&mut Seat, LogError> {
        if self.seat.as_ref().is_some_and(Seat::is_given_up) {
            self.stand();
        }
        if self.seat.is_none() {
            let bounds = self.shared.bounds(self.at, wait)?;
            self.check(bounds)?;
            self.seat = Some(Seat::take(&self.shared, self.at, self.position)?);
        }
        Ok(self.seat.as_mut().expect("taken just now"))
    }

    /// Fetches no more; what is at hand will be fetched again.
    fn stand(&mut self) {
        (self.seat, self.held) = (None, None);
    }

    fn check(&self, bounds: Bounds) -> Result<(), LogError> {
        if self.position < bounds.start || self.position > bounds.end {
            return Err(LogError::OffsetOutOfRange { topic_partition: self.at, offset: self.position, bounds });
        }
        Ok(())
    }

    fn next(&mut self, wait: Duration) -> Result<Came, LogError> {
        if let Some(record) = self.held.take() {
            self.position = record.offset + 1;
            return Ok(Came::Record(record));
        }
        let (at, position) = (self.at, self.position);
        let registry = self.shared.registry.as_ref();
        let Some(seat) = &self.seat else { return Ok(Came::Nothing) };
        let came = match seat.queue.poll(wait) {
            None => return Ok(Came::Nothing),
            Some(Ok(message)) => {
                seat.context().answered();
                let record = record::decode(at.topic, &message, registry, &mut self.buffer)?;
                if record.offset < position {
                    return Err(LogError::Io(format!("{} went back to offset {}", self.place(), record.offset)));
                }
                self.position = record.offset + 1;
                Came::Record(record)
            }
            Some(Err(KafkaError::PartitionEOF(_))) => {
                seat.context().answered();
                let end = client::take_end().ok_or_else(|| LogError::Io(format!("{} ends nobody knows where", self.place())))?;
                self.position = position.max(end);
                Came::End
            }
            Some(Err(error)) => return Err(self.trouble(&error)),
        };
        seat.sight.position.store(self.position, Ordering::Relaxed);
        Ok(came)
    }

    fn trouble(&self, error: &KafkaError) -> LogError {
        let code = error.rdkafka_error_code();
        if let Some(Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation) = code {
            return match self.shared.bounds(self.at, ANEW).and_then(|bounds| self.check(bounds)) {
                Err(outside) => outside,
                Ok(()) => LogError::Io(format!("{}: {error}", self.place())),
            };
        }
        match (code, &self.seat) {
            (Some(_), Some(seat)) => error::of(&self.place(), error, seat.context()),
            _ => LogError::Io(format!("{}: {error}", self.place())),
        }
    }

    fn place(&self) -> String {
        format!("{}-{} at offset {}", self.shared.options.name(self.at.topic), self.at.partition, self.position)
    }

    /// Takes what comes until it is enough, `until`, or `below` is reached.
    fn take(&mut self, below: i64, bytes_max: usize, records_max: usize, until: Option<Instant>) -> Result<Vec<Record>, LogError> {
        let (mut records, mut bytes) = (Vec::new(), 0);
        while records.len() < records_max && self.position < below {
            // Only the first is waited for.
            let wait = until.filter(|_| records.is_empty()).map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            match self.next(wait) {
                Ok(Came::Record(record)) if record.offset >= below => {
                    self.position = record.offset;
                    self.held = Some(record);
                }
                Ok(Came::Record(record)) => {
                    bytes += record.key.len() + record.value.as_ref().map_or(0, bytes::Bytes::len);
                    records.push(record);
                    if bytes >= bytes_max {
                        break;
                    }
                }
                Ok(Came::End) => {}
                Ok(Came::Nothing) => return Ok(records),
                Err(error) => {
                    self.stand();
                    // What came before it is given first; the trouble is met again.
                    return if records.is_empty() { Err(error) } else { Ok(records) };
                }
            }
        }
        // Something may be left.
        if let Some(seat) = &self.seat {
            seat.sight.position.store(self.position, Ordering::Relaxed);
            seat.sight.fill();
        }
        Ok(records)
    }
}

impl Reader for KafkaReader {
    fn read(&mut self, bytes_max: usize, records_max: usize) -> Result<Vec<Record>, LogError> {
        let seat = self.sit(ANEW)?;
        seat.sight.empty();
        let records = self.take(i64::MAX, bytes_max, records_max, None)?;
        match &self.seat {
            Some(seat) if records.is_empty() && seat.context().is_down() => {
                let (code, reason) = seat.context().said().unwrap_or((Code::OperationTimedOut, String::new()));
                Err(error::unanswered(&self.place(), code, &reason))
            }
            _ => Ok(records),
        }
    }

    fn read_to(&mut self, end: i64, bytes_max: usize, records_max: usize) -> Result<Vec<Record>, LogError> {
        if self.position >= end || records_max == 0 {
            return Ok(Vec::new());
        }
        let answer = self.shared.options.patience.answer;
        let until = Instant::now() + answer;
        let seat = self.sit(answer)?;
        seat.sight.empty();
        let records = self.take(end, bytes_max, records_max, Some(until))?;
        if records.is_empty() && self.position < end {
            return Err(LogError::Io(format!("{}: nothing came within {answer:?}", self.place())));
        }
        Ok(records)
    }

    fn position(&self) -> i64 {
        self.position
    }
}
