//! A lane: a transactional producer and the offsets that it commits.
//!
//! Owns: the producer's thread, how long it is waited for, what is left when it does not answer. Does not own: the steps of a
//! commit (`transact`), asking for offsets (`ask`).
//! Invariants: after a commit of unknown outcome, and after it was fenced, the lane does nothing more: whoever goes on opens
//! it anew, which settles what was on its way. A thread that hangs in librdkafka holds up nobody.

mod transact;

use super::client::Context;
use super::registry::Registry;
use super::{Shared, error, record};
use crate::log::{CommitError, Committed, Lane, LogError, TopicPartition, Transaction};
use forebay_schemas::limit;
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, Producer};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use transact::Step;

/// The thread keeps to its time; what is late by more hangs (H13).
const GRACE: Duration = Duration::from_secs(1);
/// How often an idle producer's logs and errors are looked at.
const IDLE: Duration = Duration::from_millis(500);

/// The fields in the order of their ends: the log waits for the clients when it is the last that goes.
pub(super) struct KafkaLane {
    thread: Thread,
    id: String,
    /// Why nothing more is done.
    over: Option<Over>,
    shared: Arc<Shared>,
}

#[derive(Clone)]
enum Over {
    Fenced(String),
    Unknown(String),
}

struct Thread {
    orders: SyncSender<Transaction>,
    answers: Receiver<Result<(), CommitError>>,
}

impl KafkaLane {
    pub fn open(shared: &Arc<Shared>, id: &str) -> Result<KafkaLane, LogError> {
        if id.is_empty() || id.len() > limit::LANE_ID_BYTES {
            return Err(LogError::Io(format!("a lane's id has 1 to {} bytes", limit::LANE_ID_BYTES)));
        }
        // Without ids for what it writes nothing could be committed, and nobody need be fenced.
        shared.registry.as_ref().map_or(Ok(()), Registry::meet)?;
        let producer: BaseProducer<Context> =
            shared.options.lane_config(id).create_with_context(Context::default()).map_err(|e| error::of_config(&e))?;
        let group = shared.offsets(id)?.consumer().group_metadata().ok_or_else(|| LogError::Io(format!("lane {id} has no group")))?;
        let ((orders, to_do), (answer, answers)) = (sync_channel(1), sync_channel(1));
        let (opened, opening) = sync_channel(1);
        let step = Step { options: Arc::clone(&shared.options), producer, group };
        let what = format!("lane {id}");
        shared.keepers.spawn("kafka-lane", move || run(&step, &what, &opened, &to_do, &answer))?;
        match opening.recv_timeout(shared.options.patience.answer + GRACE) {
            Ok(result) => result?,
            Err(_) => return Err(LogError::Io(format!("lane {id}: the producer does not answer"))),
        }
        Ok(KafkaLane { thread: Thread { orders, answers }, id: id.to_owned(), over: None, shared: Arc::clone(shared) })
    }

    /// What is refused before anything is begun.
    fn check(&self, transaction: &Transaction) -> Result<(), LogError> {
        for (at, entry) in &transaction.outputs {
            self.shared.check_partition(*at)?;
            let bytes = record::size(entry);
            if bytes > limit::MESSAGE_BYTES {
                return Err(LogError::TooLarge { topic_partition: *at, bytes });
            }
        }
        for (at, committed) in &transaction.offsets {
            self.shared.check_partition(*at)?;
            if committed.metadata.len() > limit::LANE_METADATA_BYTES {
                return Err(LogError::Refused(format!("metadata of an offset has at most {} bytes", limit::LANE_METADATA_BYTES)));
            }
        }
        let topics = transaction.outputs.iter().map(|(at, _)| at.topic).chain(transaction.offsets.iter().map(|(at, _)| at.topic));
        topics
            .collect::<BTreeSet<_>>()
            .into_iter()
            .try_for_each(|topic| self.shared.check_topic(topic, self.shared.options.patience.answer))
    }

    fn commit_now(&mut self, mut transaction: Transaction) -> Result<(), CommitError> {
        self.check(&transaction)?;
        if let Some(registry) = &self.shared.registry {
            record::translate(registry, &mut transaction.outputs)?;
        }
        if transaction.outputs.is_empty() && transaction.offsets.is_empty() {
            return Ok(());
        }
        let silent = || CommitError::Unknown(format!("lane {}: the producer does not answer", self.id));
        self.thread.orders.try_send(transaction).map_err(|_| silent())?;
        self.thread.answers.recv_timeout(self.shared.options.patience.commit + GRACE).map_err(|_| silent())?
    }
}

impl Lane for KafkaLane {
    fn committed(&mut self, at: TopicPartition) -> Result<Option<Committed>, LogError> {
        match &self.over {
            Some(Over::Fenced(why)) => Err(LogError::Fenced(why.clone())),
            Some(Over::Unknown(why)) => Err(LogError::Io(format!("open the lane anew: {why}"))),
            None => self.shared.committed(&self.id, at),
        }
    }

    fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        match &self.over {
            Some(Over::Fenced(why)) => return Err(CommitError::Fenced(why.clone())),
            Some(Over::Unknown(why)) => return Err(CommitError::Unknown(format!("open the lane anew: {why}"))),
            None => {}
        }
        let result = self.commit_now(transaction);
        match &result {
            Err(CommitError::Fenced(why)) => self.over = Some(Over::Fenced(why.clone())),
            Err(CommitError::Unknown(why)) => self.over = Some(Over::Unknown(why.clone())),
            Ok(()) | Err(CommitError::Aborted(_) | CommitError::Refused(_)) => {}
        }
        result
    }
}

/// The producer's thread: opens, commits what it is told to, and closes. Ends after what leaves the producer useless.
fn run(
    step: &Step,
    what: &str,
    opened: &SyncSender<Result<(), LogError>>,
    orders: &Receiver<Transaction>,
    answer: &SyncSender<Result<(), CommitError>>,
) {
    let open = init(step, what);
    let failed = open.is_err();
    if opened.send(open).is_err() || failed {
        return;
    }
    loop {
        match orders.recv_timeout(IDLE) {
            Ok(transaction) => {
                let result = step.commit(&transaction, Instant::now() + step.options.patience.commit);
                let useless = matches!(result, Err(CommitError::Unknown(_) | CommitError::Fenced(_)))
                    || step.producer.client().fatal_error().is_some();
                if answer.send(result).is_err() || useless {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => step.producer.poll(Duration::ZERO),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Fences whoever held the id, and settles what they had begun.
fn init(step: &Step, what: &str) -> Result<(), LogError> {
    let (producer, until) = (&step.producer, Instant::now() + step.options.patience.answer);
    loop {
        // In slices, so that what the client says is heard.
        let result = producer.init_transactions(IDLE.min(until.saturating_duration_since(Instant::now())));
        producer.poll(Duration::ZERO);
        match result {
            Ok(()) => {
                producer.context().answered();
                return Ok(());
            }
            Err(KafkaError::Transaction(e)) if e.is_retriable() && !e.is_fatal() && Instant::now() < until => {}
            Err(KafkaError::Transaction(e)) if error::is_fenced(e.code()) => return Err(LogError::Fenced(format!("{what}: {e}"))),
            Err(e) => return Err(error::of(what, &e, producer.context())),
        }
    }
}
