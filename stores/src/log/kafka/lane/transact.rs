//! One transaction, step by step: begin, produce, offsets, commit.
//!
//! Owns: what an error of each step means for the outcome. Invariants: `Aborted` and `Refused` are said only when the
//! brokers were not asked to commit; once they may have been, everything but their confirmation is `Unknown`. So is what
//! does not end in time or leaves the producer useless, so that its lane is opened anew.

use crate::log::kafka::client::Context;
use crate::log::kafka::report::Batch;
use crate::log::kafka::{KafkaOptions, error, record};
use crate::log::{CommitError, LogError, Transaction};
use forebay_schemas::failpoint;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{Offset, TopicPartitionList};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks for reports. librdkafka's Rust face waits badly: a poll that may wait waits to its end, and one of
/// less than a millisecond spins.
const LOOK: Duration = Duration::from_micros(300);
/// How long an abort waits before reports are looked for again.
const ABORT_SLICE: Duration = Duration::from_millis(20);

pub(super) struct Step {
    pub options: Arc<KafkaOptions>,
    pub producer: BaseProducer<Context>,
    /// Of no member: the offsets are fenced with the transaction.
    pub group: ConsumerGroupMetadata,
}

impl Step {
    pub fn commit(&self, transaction: &Transaction, until: Instant) -> Result<(), CommitError> {
        self.producer.begin_transaction().map_err(|e| self.lost("begin", &e))?;
        failpoint::pass("lane.before_produce");
        self.produce(transaction, until)?;
        failpoint::pass("lane.after_produce");
        if !transaction.offsets.is_empty() {
            self.send_offsets(transaction, until)?;
        }
        failpoint::pass("lane.after_offsets");
        self.producer.commit_transaction(left(until)).map_err(|e| self.lost("commit", &e))?;
        self.producer.context().answered();
        failpoint::pass("lane.after_commit");
        Ok(())
    }

    /// Hands the outputs over and waits until all are reported.
    fn produce(&self, transaction: &Transaction, until: Instant) -> Result<(), CommitError> {
        let batch = Arc::new(Batch::default());
        for (at, entry) in &transaction.outputs {
            let topic = self.options.name(at.topic);
            loop {
                match record::produce(&self.producer, &batch, topic, at.partition, entry) {
                    Ok(true) => break,
                    Ok(false) if Instant::now() >= until => return Err(self.unanswered("produce")),
                    Ok(false) => self.look(),
                    Err(e) => return Err(self.abort(e.rdkafka_error_code().unwrap_or(Code::Fail), &format!("{topic}: {e}"), until)),
                }
            }
        }
        loop {
            self.producer.poll(Duration::ZERO);
            match batch.now() {
                (_, Some(failed)) => return Err(self.abort(failed.code, &format!("{}: {}", failed.place, failed.code), until)),
                (0, None) => return Ok(()),
                (_, None) if Instant::now() >= until => return Err(self.unanswered("produce")),
                (_, None) => std::thread::sleep(LOOK),
            }
        }
    }

    fn send_offsets(&self, transaction: &Transaction, until: Instant) -> Result<(), CommitError> {
        let mut list = TopicPartitionList::with_capacity(transaction.offsets.len());
        for (at, committed) in &transaction.offsets {
            let mut element = list.add_partition(self.options.name(at.topic), at.partition);
            if let Err(e) = element.set_offset(Offset::Offset(committed.offset)) {
                return Err(self.abort(Code::InvalidArgument, &format!("offset {}: {e}", committed.offset), until));
            }
            element.set_metadata(&committed.metadata);
        }
        match self.producer.send_offsets_to_transaction(&list, &self.group, left(until)) {
            Ok(()) => Ok(()),
            Err(KafkaError::Transaction(e)) if e.txn_requires_abort() && !e.is_fatal() => {
                Err(self.abort(e.code(), &format!("offsets: {e}"), until))
            }
            Err(e) => Err(self.lost("offsets", &e)),
        }
    }

    fn look(&self) {
        self.producer.poll(Duration::ZERO);
        std::thread::sleep(LOOK);
    }

    /// Ends the transaction, whose commit was not asked for, because of `code`: nothing of it will be seen, and what is told
    /// of the abort is whether this producer can go on.
    fn abort(&self, code: Code, why: &str, until: Instant) -> CommitError {
        let (code, why) = self.cause(code, why);
        let refused = match error::of_code(&why, code) {
            LogError::Refused(why) => Some(CommitError::Refused(why)),
            _ => None,
        };
        loop {
            match self.producer.abort_transaction(ABORT_SLICE) {
                Ok(()) => return refused.unwrap_or(CommitError::Aborted(why)),
                // Waits for reports, which are given here.
                Err(KafkaError::Transaction(e)) if e.is_retriable() && !e.is_fatal() && Instant::now() < until => {
                    self.producer.poll(Duration::ZERO);
                }
                Err(e) => {
                    return match self.lost(&format!("{why}; abort"), &e) {
                        CommitError::Fenced(why) => CommitError::Fenced(why),
                        lost => refused.unwrap_or(lost),
                    };
                }
            }
        }
    }

    /// When the transaction fails, its messages do with it, and their reports say no more than that. To begin another is
    /// what librdkafka answers with the reason.
    fn cause(&self, code: Code, why: &str) -> (Code, String) {
        let purged = matches!(code, Code::PurgeQueue | Code::PurgeInflight);
        match purged.then(|| self.producer.begin_transaction()) {
            Some(Err(KafkaError::Transaction(e))) if e.txn_requires_abort() => (e.code(), e.to_string()),
            _ => (code, why.to_owned()),
        }
    }

    /// A step failed in a way that leaves the producer useless.
    fn lost(&self, step: &str, error: &KafkaError) -> CommitError {
        let fatal = self.producer.client().fatal_error();
        let (code, why) = match (&fatal, error) {
            (Some((code, why)), _) => (*code, why.clone()),
            (None, KafkaError::Transaction(e)) => (e.code(), e.to_string()),
            (None, other) => (other.rdkafka_error_code().unwrap_or(Code::Fail), other.to_string()),
        };
        let why = format!("{step}: {why}");
        if error::is_fenced(code) {
            return CommitError::Fenced(why);
        }
        match (fatal, error::of_code(&why, code)) {
            // The brokers refused this very request: the transaction ends by its own time.
            (Some(_), LogError::Refused(why)) => CommitError::Refused(why),
            _ => CommitError::Unknown(why),
        }
    }

    fn unanswered(&self, step: &str) -> CommitError {
        let said = self.producer.context().said().map_or_else(String::new, |(_, reason)| format!("; {reason}"));
        CommitError::Unknown(format!("{step}: not acknowledged in time{said}"))
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}
