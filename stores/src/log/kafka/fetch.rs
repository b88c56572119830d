//! Consumers, and which partitions each of them fetches.
//!
//! Owns: one consumer for readers of different partitions (H17), more for readers of the same one, who waits for records
//! and who is waked. Does not own: positions, what a reader does with what comes (`read`).
//! Invariants: partitions are assigned, never subscribed to; a partition is fetched once by a consumer; a message comes by
//! its partition's own queue, or its consumer is given up, and so is one that nobody answers any more.

use super::client::{Context, Keepers};
use super::{KafkaOptions, Shared, error};
use crate::log::{LogError, TopicPartition};
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use parking_lot::{Condvar, Mutex};
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// How often a client's logs and errors are looked at.
const POLL: Duration = Duration::from_millis(100);
/// How often a partition without a reader is asked for its end while somebody waits for more.
const LOOK: Duration = Duration::from_millis(100);
/// A wait beyond this is one of this; instants have an end.
const LONGEST: Duration = Duration::from_secs(86_400);
/// How often it is asked, and how long waited for, whether the brokers have what is read: no word from them may also mean
/// that nothing is new.
const PROBE: Duration = Duration::from_secs(2);

/// A consumer and its thread, which ends when this is dropped.
pub(super) struct Fetcher {
    consumer: Arc<BaseConsumer<Context>>,
    watch: Arc<Watch>,
}

/// What the thread sees.
#[derive(Default)]
struct Watch {
    stop: AtomicBool,
    /// What is fetched.
    taken: Mutex<BTreeSet<TopicPartition>>,
    /// A message came by no partition's queue: somebody is missing it.
    astray: AtomicBool,
}

impl Fetcher {
    pub fn start(config: &ClientConfig, options: &Arc<KafkaOptions>, keepers: &Arc<Keepers>) -> Result<Fetcher, LogError> {
        let consumer: BaseConsumer<Context> = config.create_with_context(Context::of(config)).map_err(|e| error::of_config(&e))?;
        let (consumer, watch) = (Arc::new(consumer), Arc::new(Watch::default()));
        let (kept, watched, options) = (Arc::clone(&consumer), Arc::clone(&watch), Arc::clone(options));
        keepers.spawn("kafka-read", move || keep(kept, &watched, &options))?;
        Ok(Fetcher { consumer, watch })
    }

    pub fn consumer(&self) -> &BaseConsumer<Context> {
        &self.consumer
    }

    /// Whoever has it takes another.
    pub fn is_given_up(&self) -> bool {
        self.watch.astray.load(Ordering::Relaxed) || self.consumer.context().is_forgotten()
    }

    pub fn is_idle(&self) -> bool {
        self.watch.taken.lock().is_empty()
    }

    /// `None`: it is taken already.
    fn take(&self, at: TopicPartition) -> Option<Taken> {
        let free = !self.is_given_up() && self.watch.taken.lock().insert(at);
        free.then(|| Taken { watch: Arc::clone(&self.watch), at })
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.watch.stop.store(true, Ordering::Relaxed);
    }
}

/// Polls until it is the last that holds the consumer, and closes it.
fn keep(consumer: Arc<BaseConsumer<Context>>, watch: &Watch, options: &KafkaOptions) {
    let mut probed = Instant::now();
    while !watch.stop.load(Ordering::Relaxed) || Arc::strong_count(&consumer) > 1 {
        if let Some(Ok(_)) = consumer.poll(POLL) {
            tracing::error!("a record came by the wrong queue; its partition is read again");
            watch.astray.store(true, Ordering::Relaxed);
        }
        if probed.elapsed() >= PROBE {
            let taken = watch.taken.lock().clone();
            match probe(&consumer, options, &taken) {
                _ if taken.is_empty() => {}
                Ok(()) => consumer.context().answered(),
                Err(code) => consumer.context().found_down(code),
            }
            probed = Instant::now();
        }
    }
}

/// Whether every partition has a broker that leads it.
fn probe(consumer: &BaseConsumer<Context>, options: &KafkaOptions, taken: &BTreeSet<TopicPartition>) -> Result<(), Code> {
    for topic in Topic::ALL.into_iter().filter(|topic| taken.iter().any(|at| at.topic == *topic)) {
        let name = options.name(topic);
        let metadata = consumer.fetch_metadata(Some(name), PROBE).map_err(|e| e.rdkafka_error_code().unwrap_or(Code::Fail))?;
        for partition in metadata.topics().iter().flat_map(|found| found.partitions()) {
            let is_taken = taken.contains(&TopicPartition { topic, partition: partition.id() });
            if is_taken && partition.leader() < 0 {
                return Err(Code::LeaderNotAvailable);
            }
        }
    }
    Ok(())
}

/// A partition is another's again when this is dropped.
struct Taken {
    watch: Arc<Watch>,
    at: TopicPartition,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.watch.taken.lock().remove(&self.at);
    }
}

/// A partition that a reader has at a consumer. The fields in the order of their ends: the queue goes before another
/// reader may have it, and the log waits for the clients when it is the last that goes.
pub(super) struct Seat {
    pub queue: PartitionQueue<Context>,
    pub sight: Arc<Sight>,
    _taken: Taken,
    fetcher: Arc<Fetcher>,
    shared: Arc<Shared>,
    name: String,
}

/// What those who wait see of a reader.
pub(super) struct Sight {
    at: TopicPartition,
    pub position: AtomicI64,
    /// Its queue may hold something.
    filled: AtomicBool,
    /// Somebody was waked by that. Waked again for it, one who waits for another reader of this place would never sleep.
    told: AtomicBool,
}

impl Sight {
    pub fn fill(&self) {
        self.told.store(false, Ordering::Relaxed);
        self.filled.store(true, Ordering::Release);
    }
    /// Before the queue is emptied: what comes after that fills it again.
    pub fn empty(&self) {
        self.filled.store(false, Ordering::Release);
    }
    fn wakes(&self) -> bool {
        self.filled.load(Ordering::Acquire) && !self.told.swap(true, Ordering::Relaxed)
    }
}

impl Seat {
    /// Begins to fetch at `from`.
    pub fn take(shared: &Arc<Shared>, at: TopicPartition, from: i64) -> Result<Seat, LogError> {
        let name = shared.options.name(at.topic).to_owned();
        let (fetcher, taken) = shared.fetcher_for(at)?;
        let lost = |what: String| LogError::Io(format!("{name}-{}: {what}", at.partition));
        // Before it is assigned: what is fetched goes nowhere else.
        let queue = fetcher.consumer.split_partition_queue(&name, at.partition);
        let mut queue = queue.ok_or_else(|| lost("no such partition".to_owned()))?;
        let sight = Arc::new(Sight { at, position: AtomicI64::new(from), filled: AtomicBool::new(false), told: AtomicBool::new(false) });
        let (seen, arrivals) = (Arc::clone(&sight), Arc::clone(&shared.arrivals));
        queue.set_nonempty_callback(move || {
            seen.fill();
            arrivals.wake();
        });
        let mut list = TopicPartitionList::with_capacity(1);
        let assigned = list.add_partition_offset(&name, at.partition, Offset::Offset(from));
        assigned.and_then(|()| fetcher.consumer.incremental_assign(&list)).map_err(|e| lost(e.to_string()))?;
        shared.arrivals.readers.lock().push(Arc::clone(&sight));
        Ok(Seat { queue, sight, _taken: taken, fetcher, shared: Arc::clone(shared), name })
    }

    pub fn context(&self) -> &Context {
        self.fetcher.consumer.context()
    }

    pub fn is_given_up(&self) -> bool {
        self.fetcher.is_given_up()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let at = self.sight.at;
        self.shared.arrivals.readers.lock().retain(|sight| !Arc::ptr_eq(sight, &self.sight));
        let mut list = TopicPartitionList::with_capacity(1);
        list.add_partition(&self.name, at.partition);
        if let Err(error) = self.fetcher.consumer.incremental_unassign(&list) {
            tracing::warn!(%error, topic = self.name, partition = at.partition, "a partition is still fetched; its consumer is given up");
            self.fetcher.watch.astray.store(true, Ordering::Relaxed);
        }
    }
}

impl Shared {
    pub fn fetcher(&self, config: &ClientConfig) -> Result<Fetcher, LogError> {
        Fetcher::start(config, &self.options, &self.keepers)
    }

    /// A consumer that does not fetch `at`, which is now taken at it.
    fn fetcher_for(&self, at: TopicPartition) -> Result<(Arc<Fetcher>, Taken), LogError> {
        let mut fetchers = self.fetchers.lock();
        // One may wait idle for the next second reader; others, and those given up, go.
        let mut spare = 0;
        fetchers.retain(|fetcher| {
            let (given_up, idle) = (fetcher.is_given_up(), fetcher.is_idle());
            spare += usize::from(idle && !given_up);
            !given_up && (!idle || spare <= 2)
        });
        if let Some(free) = fetchers.iter().find_map(|fetcher| Some((Arc::clone(fetcher), fetcher.take(at)?))) {
            return Ok(free);
        }
        let most = limit::LOG_READERS;
        if fetchers.len() >= most {
            return Err(LogError::Io(format!("{} partition {} has {most} readers already", at.topic.word(), at.partition)));
        }
        let fetcher = Arc::new(self.fetcher(&self.options.reader_config())?);
        let taken = fetcher.take(at).expect("it fetches nothing yet");
        fetchers.push(Arc::clone(&fetcher));
        Ok((fetcher, taken))
    }

    pub fn wait_past(&self, positions: &[(TopicPartition, i64)], wait: Duration) {
        let until = Instant::now() + wait.min(LONGEST);
        loop {
            let unread = match self.arrivals.look(positions) {
                Look::Filled => return,
                Look::Unread(unread) => unread,
            };
            let left = until.saturating_duration_since(Instant::now());
            for (at, position) in &unread {
                if self.bounds(*at, left.min(self.options.patience.answer)).is_ok_and(|bounds| bounds.end > *position) {
                    return;
                }
            }
            let pause = if unread.is_empty() { until } else { until.min(Instant::now() + LOOK) };
            if self.arrivals.sleep(positions, pause) || Instant::now() >= until {
                return;
            }
        }
    }
}

/// Readers, and those who wait for what they will be given.
#[derive(Default)]
pub(super) struct Arrivals {
    readers: Mutex<Vec<Arc<Sight>>>,
    arrived: Condvar,
    sleepers: Mutex<()>,
}

enum Look {
    /// A reader at one of the positions has something.
    Filled,
    /// No reader is at these positions.
    Unread(Vec<(TopicPartition, i64)>),
}

impl Arrivals {
    fn wake(&self) {
        drop(self.sleepers.lock());
        self.arrived.notify_all();
    }

    fn look(&self, positions: &[(TopicPartition, i64)]) -> Look {
        let readers = self.readers.lock();
        let mut unread = Vec::new();
        for (at, position) in positions {
            let mut here = readers.iter().filter(|sight| sight.at == *at && sight.position.load(Ordering::Relaxed) == *position).peekable();
            if here.peek().is_none() {
                unread.push((*at, *position));
            } else if here.any(|sight| sight.wakes()) {
                return Look::Filled;
            }
        }
        Look::Unread(unread)
    }

    /// Until something arrives for a reader at one of the positions: true; or `until`.
    fn sleep(&self, positions: &[(TopicPartition, i64)], until: Instant) -> bool {
        let mut sleeping = self.sleepers.lock();
        while matches!(self.look(positions), Look::Unread(_)) {
            if self.arrived.wait_until(&mut sleeping, until).timed_out() {
                return false;
            }
        }
        true
    }
}
