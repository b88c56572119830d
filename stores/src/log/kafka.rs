//! The log on Kafka, by librdkafka: the production form.
//!
//! Owns: what its parts share. `produce` appends, `fetch` and `read` read, `lane` commits, `ask` asks; `client` is how
//! librdkafka is configured and heard. Does not own: the topics as they must be (`topics`), schemas (`registry`).
//! Invariants: opening asks nobody, so a part can start while no broker answers; every wait is bounded; brokers that come
//! back are found again without a restart; a topic that is missing or has another count of partitions is refused.

mod options;
pub mod topics;
mod compatibility;
mod registry;
mod client;
mod error;
mod report;
mod record;
mod ask;
mod topic_id;
mod produce;
mod fetch;
mod read;
mod lane;

pub use options::{KafkaOptions, KafkaTopic, Patience, RegistryOptions, SaslOptions};

use super::{Bounds, Committed, Entry, Lane, Log, LogError, Reader, TopicPartition};
use client::Keepers;
use fetch::{Arrivals, Fetcher};
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use parking_lot::Mutex;
use produce::Appender;
use registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long clients may take to close at the end.
const CLOSE: Duration = Duration::from_secs(3);

/// Its clients close when this and all readers and lanes of it are dropped.
pub struct KafkaLog {
    shared: Arc<Shared>,
}

/// The fields in the order of their ends.
struct Shared {
    options: Arc<KafkaOptions>,
    registry: Option<Registry>,
    /// By topic: it was found as it must be.
    checked: [AtomicBool; Topic::ALL.len()],
    /// The consumer that questions go by.
    asker: Mutex<Arc<Fetcher>>,
    fetchers: Mutex<Vec<Arc<Fetcher>>>,
    arrivals: Arc<Arrivals>,
    appender: Appender,
    /// By lane: a client that knows its group.
    offsets: Mutex<BTreeMap<String, Arc<Fetcher>>>,
    keepers: Arc<Keepers>,
    _closing: Closing,
}

impl fmt::Debug for KafkaLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaLog").field("brokers", &self.shared.options.brokers).finish_non_exhaustive()
    }
}

impl KafkaLog {
    /// Asks no broker. Fails when librdkafka takes the options for impossible or cannot read a file of them.
    pub fn connect(options: KafkaOptions) -> Result<KafkaLog, LogError> {
        let registry = options.registry.as_ref().map(|own| Registry::new(own, &options)).transpose()?;
        for config in [options.producer_config(), options.lane_config("forebay")] {
            config.create_native_config().map_err(|e| error::of_config(&e))?;
        }
        let (options, keepers) = (Arc::new(options), Arc::<Keepers>::default());
        let asker = Arc::new(Fetcher::start(&options.reader_config(), &options, &keepers)?);
        let shared = Shared {
            options,
            registry,
            checked: Topic::ALL.map(|_| AtomicBool::new(false)),
            fetchers: Mutex::new(vec![Arc::clone(&asker)]),
            asker: Mutex::new(asker),
            arrivals: Arc::default(),
            appender: Appender::default(),
            offsets: Mutex::default(),
            _closing: Closing(Arc::clone(&keepers)),
            keepers,
        };
        Ok(KafkaLog { shared: Arc::new(shared) })
    }
}

impl Shared {
    fn asker(&self) -> Result<Arc<Fetcher>, LogError> {
        let mut asker = self.asker.lock();
        if asker.is_given_up() {
            *asker = Arc::new(self.fetcher(&self.options.reader_config())?);
            let mut fetchers = self.fetchers.lock();
            fetchers.retain(|fetcher| !fetcher.is_given_up());
            fetchers.push(Arc::clone(&asker));
        }
        Ok(Arc::clone(&asker))
    }

    fn offsets(&self, lane: &str) -> Result<Arc<Fetcher>, LogError> {
        let mut known = self.offsets.lock();
        if let Some(fetcher) = known.get(lane).filter(|fetcher| !fetcher.is_given_up()) {
            return Ok(Arc::clone(fetcher));
        }
        if known.len() >= limit::LANES {
            known.clear();
        }
        let fetcher = Arc::new(self.fetcher(&self.options.offsets_config(lane))?);
        known.insert(lane.to_owned(), Arc::clone(&fetcher));
        Ok(fetcher)
    }
}

/// Waits for the clients to close, so that a process does not end in the midst of it.
struct Closing(Arc<Keepers>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.wait(CLOSE);
    }
}

impl Log for KafkaLog {
    fn partitions(&self, _topic: Topic) -> i32 {
        self.shared.options.partitions
    }

    fn topic_id(&self, topic: Topic) -> Result<String, LogError> {
        self.shared.topic_id(topic)
    }

    fn append(&self, entries: Vec<(TopicPartition, Entry)>) -> Result<(), LogError> {
        self.shared.append(entries)
    }

    fn bounds(&self, at: TopicPartition) -> Result<Bounds, LogError> {
        self.shared.bounds(at, self.shared.options.patience.answer)
    }

    fn reader(&self, at: TopicPartition, from: i64) -> Result<Box<dyn Reader>, LogError> {
        Ok(Box::new(read::KafkaReader::open(&self.shared, at, from)?))
    }

    fn lane(&self, id: &str) -> Result<Box<dyn Lane>, LogError> {
        Ok(Box::new(lane::KafkaLane::open(&self.shared, id)?))
    }

    fn committed(&self, id: &str, at: TopicPartition) -> Result<Option<Committed>, LogError> {
        self.shared.committed(id, at)
    }

    fn wait_past(&self, positions: &[(TopicPartition, i64)], wait: Duration) {
        self.shared.wait_past(positions, wait);
    }
}

#[cfg(test)]
mod tests;
