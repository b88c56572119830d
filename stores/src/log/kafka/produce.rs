//! Appending: one idempotent producer, shared by all who append.
//!
//! Owns: the producer's life. Does not own: the order in which callers append.
//! Invariants: an append is answered when every message of it is reported; a partition gets the messages of an append in
//! order and never a later one without those before it: at the first that fails, or when the time is up, everything that
//! waits in the producer is thrown away with it, and the next append has a new one.

use super::client::{Context, Keepers};
use super::report::{Batch, Failed};
use super::{KafkaOptions, Shared, error, record};
use crate::log::{Entry, LogError, TopicPartition};
use forebay_schemas::limit;
use parking_lot::Mutex;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, Producer, PurgeConfig};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at a full queue.
const FULL: Duration = Duration::from_millis(1);
/// What is thrown away is reported at once; a thread that hangs is not waited for.
const PURGED: Duration = Duration::from_secs(1);
/// How long the polling thread sleeps without reports.
const POLL: Duration = Duration::from_millis(100);

/// The producer of this log, while it is good.
#[derive(Default)]
pub(super) struct Appender(Mutex<Option<Arc<Generation>>>);

struct Generation {
    producer: Arc<BaseProducer<Context>>,
    /// Held while a message is handed over, so that none comes after the end.
    over: Mutex<bool>,
    stop: Arc<AtomicBool>,
}

impl Shared {
    pub fn append(&self, mut entries: Vec<(TopicPartition, Entry)>) -> Result<(), LogError> {
        for (at, entry) in &entries {
            self.check_partition(*at)?;
            let bytes = record::size(entry);
            if bytes > limit::MESSAGE_BYTES {
                return Err(LogError::TooLarge { topic_partition: *at, bytes });
            }
        }
        for topic in entries.iter().map(|(at, _)| at.topic).collect::<BTreeSet<_>>() {
            self.check_topic(topic, self.options.patience.answer)?;
        }
        if let Some(registry) = &self.registry {
            record::translate(registry, &mut entries)?;
        }
        let generation = self.appender.current(&self.options, &self.keepers)?;
        let (batch, until) = (Arc::new(Batch::default()), Instant::now() + self.options.patience.append);
        let mut handed = Ok(());
        for (at, entry) in &entries {
            handed = generation.hand_over(&batch, self.options.name(at.topic), at.partition, entry, until);
            if handed.is_err() {
                break;
            }
        }
        let (out, failed) = batch.wait(if handed.is_ok() { until } else { Instant::now() });
        if handed.is_ok() && out == 0 && failed.is_none() {
            generation.producer.context().answered();
            return Ok(());
        }
        self.appender.retire(&generation);
        batch.wait_all(Instant::now() + PURGED);
        match (failed, handed) {
            (Some(failed), _) => Err(generation.failure(&failed)),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(generation.no_answer()),
        }
    }
}

impl Appender {
    fn current(&self, options: &KafkaOptions, keepers: &Arc<Keepers>) -> Result<Arc<Generation>, LogError> {
        let mut current = self.0.lock();
        if let Some(generation) = &*current {
            return Ok(Arc::clone(generation));
        }
        let producer = options.producer_config().create_with_context(Context::default());
        let producer: BaseProducer<Context> = producer.map_err(|e| error::of_config(&e))?;
        let (producer, stop) = (Arc::new(producer), Arc::new(AtomicBool::new(false)));
        let (kept, stopped) = (Arc::clone(&producer), Arc::clone(&stop));
        keepers.spawn("kafka-append", move || {
            while !stopped.load(Ordering::Relaxed) || Arc::strong_count(&kept) > 1 {
                kept.poll(POLL);
            }
        })?;
        let generation = Arc::new(Generation { producer, over: Mutex::new(false), stop });
        *current = Some(Arc::clone(&generation));
        Ok(generation)
    }

    fn retire(&self, generation: &Arc<Generation>) {
        let mut current = self.0.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, generation)) {
            *current = None;
        }
        drop(current);
        *generation.over.lock() = true;
        generation.producer.purge(PurgeConfig::default().queue().inflight());
    }
}

impl Generation {
    fn hand_over(&self, batch: &Arc<Batch>, topic: &str, partition: i32, entry: &Entry, until: Instant) -> Result<(), LogError> {
        loop {
            let over = self.over.lock();
            if *over {
                return Err(LogError::Io("the producer was given up by another append".to_owned()));
            }
            match record::produce(&self.producer, batch, topic, partition, entry) {
                Ok(true) => return Ok(()),
                Ok(false) if Instant::now() >= until => return Err(self.no_answer()),
                Ok(false) => {}
                Err(error) => return Err(self.refused(&error, &format!("{topic}-{partition}"))),
            }
            drop(over);
            std::thread::sleep(FULL);
        }
    }

    /// What follows from a fatal error stands for the error.
    fn refused(&self, error: &KafkaError, place: &str) -> LogError {
        match self.producer.client().fatal_error() {
            Some((code, reason)) => error::of_code(&format!("{place}: {reason}"), code),
            None => error::of(place, error, self.producer.context()),
        }
    }

    fn failure(&self, failed: &Failed) -> LogError {
        match failed.code {
            Code::PurgeQueue | Code::PurgeInflight | Code::MessageTimedOut | Code::Fatal => {
                self.refused(&KafkaError::MessageProduction(failed.code), &failed.place)
            }
            code => error::of_code(&failed.place, code),
        }
    }

    fn no_answer(&self) -> LogError {
        let what = "not acknowledged in time";
        match self.producer.context().said() {
            Some((code, reason)) => error::unanswered(what, code, &reason),
            None => LogError::Io(what.to_owned()),
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
