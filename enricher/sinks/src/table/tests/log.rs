//! A log in memory, with what a test must do to a log: cut it, recreate its topics.

use bytes::Bytes;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use forebay_stores::log::{Bounds, Committed, Entry, Lane, Log, LogError, Reader, Record, TopicPartition};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

#[derive(Clone)]
pub struct FakeLog(Arc<Mutex<Inner>>);

#[derive(Clone)]
struct Inner {
    topic: String,
    input: String,
    topics: BTreeMap<Topic, Vec<Partition>>,
}

#[derive(Clone, Default)]
struct Partition {
    start: i64,
    values: Vec<Bytes>,
}

impl FakeLog {
    pub fn new(topic: &str, partitions: usize) -> FakeLog {
        let topics = [Topic::Trusted, Topic::Windows].map(|topic| (topic, vec![Partition::default(); partitions]));
        FakeLog(Arc::new(Mutex::new(Inner { topic: topic.into(), input: "harvested-1".into(), topics: topics.into() })))
    }
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("lock")
    }
    /// The same records in a log of their own.
    pub fn copy(&self) -> FakeLog {
        FakeLog(Arc::new(Mutex::new(self.inner().clone())))
    }
    pub fn put(&self, topic: Topic, partition: i32, value: Vec<u8>) {
        self.inner().at(TopicPartition { topic, partition }).values.push(value.into());
    }
    /// Retention: records below `start` are gone.
    pub fn forget(&self, at: TopicPartition, start: i64) {
        let mut inner = self.inner();
        let partition = inner.at(at);
        partition.values.drain(..usize::try_from(start - partition.start).expect("forwards"));
        partition.start = start;
    }
    fn end(partition: &Partition) -> i64 {
        partition.start + i64::try_from(partition.values.len()).expect("small")
    }
}

impl Inner {
    fn at(&mut self, at: TopicPartition) -> &mut Partition {
        let partitions = self.topics.get_mut(&at.topic).expect("a topic that a table is filled from");
        &mut partitions[usize::try_from(at.partition).expect("a partition")]
    }
}

impl Log for FakeLog {
    fn partitions(&self, topic: Topic) -> i32 {
        i32::try_from(self.inner().topics[&topic].len()).expect("few")
    }
    fn topic_id(&self, topic: Topic) -> Result<String, LogError> {
        let inner = self.inner();
        Ok(if topic == Topic::Harvested { inner.input.clone() } else { inner.topic.clone() })
    }
    fn append(&self, _: Vec<(TopicPartition, Entry)>) -> Result<(), LogError> {
        unreachable!("a sink appends nothing")
    }
    fn bounds(&self, at: TopicPartition) -> Result<Bounds, LogError> {
        let mut inner = self.inner();
        let partition = inner.at(at);
        Ok(Bounds { start: partition.start, end: Self::end(partition) })
    }
    fn reader(&self, at: TopicPartition, from: i64) -> Result<Box<dyn Reader>, LogError> {
        let bounds = self.bounds(at)?;
        if from < bounds.start || from > bounds.end {
            return Err(LogError::OffsetOutOfRange { topic_partition: at, offset: from, bounds });
        }
        Ok(Box::new(FakeReader { log: self.clone(), at, next: from }))
    }
    fn lane(&self, _: &str) -> Result<Box<dyn Lane>, LogError> {
        unreachable!("a sink opens no lane")
    }
    fn committed(&self, _: &str, _: TopicPartition) -> Result<Option<Committed>, LogError> {
        unreachable!("a sink keeps its offsets elsewhere")
    }
    fn wait_past(&self, _: &[(TopicPartition, i64)], wait: Duration) {
        std::thread::sleep(wait.min(Duration::from_millis(5)));
    }
}

struct FakeReader {
    log: FakeLog,
    at: TopicPartition,
    next: i64,
}

impl Reader for FakeReader {
    fn read(&mut self, bytes_max: usize, records_max: usize) -> Result<Vec<Record>, LogError> {
        let mut inner = self.log.inner();
        let partition = inner.at(self.at);
        if self.next < partition.start {
            let bounds = Bounds { start: partition.start, end: FakeLog::end(partition) };
            return Err(LogError::OffsetOutOfRange { topic_partition: self.at, offset: self.next, bounds });
        }
        let skip = usize::try_from(self.next - partition.start).expect("within the log");
        let mut bytes = 0;
        let mut records = Vec::new();
        for value in partition.values.iter().skip(skip).take(records_max) {
            if bytes > bytes_max {
                break;
            }
            bytes += value.len();
            records.push(Record {
                offset: self.next,
                timestamp: Micros(0),
                key: Bytes::new(),
                value: Some(value.clone()),
                headers: Vec::new(),
            });
            self.next += 1;
        }
        Ok(records)
    }
    fn read_to(&mut self, end: i64, bytes_max: usize, records_max: usize) -> Result<Vec<Record>, LogError> {
        let left = usize::try_from(end.saturating_sub(self.next)).unwrap_or(0);
        self.read(bytes_max, records_max.min(left))
    }
    fn position(&self) -> i64 {
        self.next
    }
}
