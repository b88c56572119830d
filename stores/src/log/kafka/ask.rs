//! Questions to the brokers: is a topic as it must be, where does a partition begin and end, what has a lane committed.
//!
//! Owns: what is asked once and remembered. Every question is bounded, by `Patience::answer` where nobody says less.

use super::client::Context;
use super::{KafkaOptions, Shared, error, topic_id};
use crate::log::{Bounds, Committed, LogError, TopicPartition};
use forebay_schemas::topic::Topic;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Before a question is asked again: a partition finds a leader within seconds.
const AGAIN: Duration = Duration::from_millis(50);

/// Long enough for an answer from brokers that are well.
const SLICE: Duration = Duration::from_secs(1);

impl Shared {
    /// Refuses a partition that there is none of by configuration.
    pub fn check_partition(&self, at: TopicPartition) -> Result<(), LogError> {
        if (0..self.options.partitions).contains(&at.partition) {
            return Ok(());
        }
        Err(LogError::Refused(format!("topic {} has no partition {}", at.topic.word(), at.partition)))
    }

    /// At first contact: the topic is there and has as many partitions as configured, or nothing is done with it.
    pub fn check_topic(&self, topic: Topic, wait: Duration) -> Result<(), LogError> {
        let checked = &self.checked[KafkaOptions::place(topic)];
        if checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        let name = self.options.name(topic);
        let what = || format!("topic {name}");
        let metadata = self.insist(&what(), wait, |asked, left| asked.fetch_metadata(Some(name), left))?;
        let found = metadata.topics().iter().find(|found| found.name() == name);
        match found.map(|found| (found.error(), found.partitions().len())) {
            Some((Some(code), _)) => return Err(error::of_code(&what(), code.into())),
            Some((None, partitions)) if partitions == self.options.partitions as usize => {}
            Some((None, partitions)) => {
                return Err(LogError::Refused(format!(
                    "topic {name} has {partitions} partitions where log.partitions = {}; keys would change their tasks: \
                     set log.partitions to what the topics have, or name new topics",
                    self.options.partitions
                )));
            }
            None => return Err(LogError::Io(format!("topic {name}: the brokers do not tell of it"))),
        }
        checked.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Asks again for as long as there is time when a broker is just not the one to ask.
    fn insist<T>(
        &self,
        what: &str,
        wait: Duration,
        mut ask: impl FnMut(&BaseConsumer<Context>, Duration) -> KafkaResult<T>,
    ) -> Result<T, LogError> {
        let until = Instant::now() + wait;
        loop {
            let asker = self.asker()?;
            let context = asker.consumer().context();
            match ask(asker.consumer(), until.saturating_duration_since(Instant::now())) {
                Ok(answer) => {
                    context.answered();
                    return Ok(answer);
                }
                Err(e) => {
                    // Who had no time for an answer says nothing of the client.
                    if wait >= SLICE {
                        context.unanswered();
                    }
                    if !error::is_moving(&e) || Instant::now() + AGAIN >= until {
                        return Err(error::of(what, &e, context));
                    }
                    std::thread::sleep(AGAIN);
                }
            }
        }
    }

    /// The start and the last stable offset: what `read_committed` goes to.
    pub fn bounds(&self, at: TopicPartition, wait: Duration) -> Result<Bounds, LogError> {
        self.check_partition(at)?;
        self.check_topic(at.topic, wait)?;
        let name = self.options.name(at.topic);
        let what = format!("bounds of {name}-{}", at.partition);
        let (start, end) = self.insist(&what, wait, |asked, left| asked.fetch_watermarks(name, at.partition, left))?;
        Ok(Bounds { start, end: end.max(start) })
    }

    pub fn topic_id(&self, topic: Topic) -> Result<String, LogError> {
        let wait = self.options.patience.answer;
        self.check_topic(topic, wait)?;
        topic_id::ask(self.asker()?.consumer().client(), self.options.name(topic), wait)
    }

    /// Waits for transactions that touch the offset to end (`require_stable`).
    pub fn committed(&self, lane: &str, at: TopicPartition) -> Result<Option<Committed>, LogError> {
        let wait = self.options.patience.answer;
        self.check_partition(at)?;
        self.check_topic(at.topic, wait)?;
        let fetcher = self.offsets(lane)?;
        let asked = fetcher.consumer();
        let name = self.options.name(at.topic);
        let what = || format!("offsets of {lane}");
        let mut wanted = TopicPartitionList::with_capacity(1);
        wanted.add_partition(name, at.partition);
        let until = Instant::now() + wait;
        let found = loop {
            // In slices: that the group is denied is heard, not answered.
            let slice = SLICE.min(until.saturating_duration_since(Instant::now()));
            match asked.committed_offsets(wanted.clone(), slice).map_err(|e| error::of(&what(), &e, asked.context())) {
                Ok(found) => break found,
                Err(LogError::Io(_)) if Instant::now() < until => asked.context().unanswered(),
                Err(error) => return Err(error),
            }
        };
        asked.context().answered();
        let found = found.find_partition(name, at.partition).ok_or_else(|| LogError::Io(format!("{}: none of {name}", what())))?;
        found.error().map_err(|e| error::of(&what(), &e, asked.context()))?;
        match found.offset() {
            Offset::Offset(offset) => Ok(Some(Committed { offset, metadata: found.metadata().to_owned() })),
            Offset::Invalid => Ok(None),
            other => Err(LogError::Io(format!("{}: {other:?}", what()))),
        }
    }
}
