//! Clients of librdkafka: what each kind is configured with, what it is heard to say, and the thread that it ends on.
//!
//! Owns: the properties that the log's laws need, the telling of librdkafka's logs and errors, the bound on clients.
//! Does not own: what is done with a client (`fetch`, `produce`, `lane`).
//! Invariants: every client is polled for as long as it lives, since its logs queue up in it; a client is closed on the
//! thread that polls it, so that closing, which may take long, holds up nobody.

use super::KafkaOptions;
use super::report::Batch;
use crate::log::LogError;
use forebay_schemas::limit;
use parking_lot::{Condvar, Mutex};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A client that nobody has answered for so long is replaced: told of no brokers by one that is itself not known for the
/// moment, librdkafka forgets all that it has and may look for none (its issue 5301).
const SILENCE: Duration = Duration::from_secs(5);

/// Readers are members of no group and commit nothing; librdkafka wants a name all the same.
const READERS: &str = "forebay.readers";

impl KafkaOptions {
    /// What every client has, administrators' too.
    pub(super) fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Warning);
        for (name, value) in [
            ("client.id", "forebay".to_owned()),
            ("socket.timeout.ms", self.patience.answer.as_millis().to_string()),
            ("socket.nagle.disable", "true".to_owned()),
            // Brokers that come back are found again within a second.
            ("reconnect.backoff.max.ms", "1000".to_owned()),
        ] {
            config.set(name, value);
        }
        config.extend(self.client.clone());
        config.set("bootstrap.servers", self.brokers.join(","));
        config.set("allow.auto.create.topics", "false");
        let tls = self.tls.as_ref();
        let protocol = match (tls.is_some(), self.sasl.is_some()) {
            (false, false) => "plaintext",
            (true, false) => "ssl",
            (false, true) => "sasl_plaintext",
            (true, true) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        for (name, file) in [
            ("ssl.ca.location", tls.and_then(|tls| tls.ca_file.as_ref())),
            ("ssl.certificate.location", tls.and_then(|tls| tls.cert_file.as_ref())),
            ("ssl.key.location", tls.and_then(|tls| tls.key_file.as_ref())),
        ] {
            if let Some(file) = file {
                config.set(name, file.display().to_string());
            }
        }
        if let Some(sasl) = &self.sasl {
            config.set("sasl.mechanism", sasl.mechanism.name());
            config.set("sasl.username", &sasl.username);
            config.set("sasl.password", sasl.password.reveal());
        }
        config
    }

    /// Reads what is committed, from offsets that it is told, and never jumps.
    pub(super) fn reader_config(&self) -> ClientConfig {
        let tunable = [
            // Of each partition (H18).
            ("queued.max.messages.kbytes", (limit::READ_AHEAD_BYTES >> 10).to_string()),
            ("fetch.queue.backoff.ms", "10".to_owned()),
            // Until then the end of a partition is not known to be reached, nor a partition begun beside idle ones.
            ("fetch.wait.max.ms", "100".to_owned()),
        ];
        let fixed = [
            ("group.id", READERS.to_owned()),
            ("isolation.level", "read_committed".to_owned()),
            ("auto.offset.reset", "error".to_owned()),
            ("enable.auto.commit", "false".to_owned()),
            ("enable.auto.offset.store", "false".to_owned()),
            ("enable.partition.eof", "true".to_owned()),
            ("check.crcs", "true".to_owned()),
        ];
        self.with(&tunable, &fixed)
    }

    /// Asks for the offsets that a lane has committed.
    pub(super) fn offsets_config(&self, lane: &str) -> ClientConfig {
        let mut config = self.reader_config();
        config.set("group.id", lane);
        config
    }

    /// Every message in the order of its partition, once unless an error was told, or an error.
    pub(super) fn producer_config(&self) -> ClientConfig {
        // Beyond what an append waits for: it gives up first, and then all of it at once.
        self.producing(&[
            ("enable.gapless.guarantee", "true".to_owned()),
            ("message.timeout.ms", (self.patience.append + self.patience.answer).as_millis().to_string()),
        ])
    }

    pub(super) fn lane_config(&self, id: &str) -> ClientConfig {
        let transaction = self.patience.transaction.as_millis().to_string();
        self.producing(&[
            ("transactional.id", id.to_owned()),
            ("transaction.timeout.ms", transaction.clone()),
            ("message.timeout.ms", transaction),
            ("socket.timeout.ms", self.patience.answer.min(self.patience.transaction).as_millis().to_string()),
        ])
    }

    fn producing(&self, fixed: &[(&str, String)]) -> ClientConfig {
        let tunable = [
            ("compression.type", "lz4".to_owned()),
            ("linger.ms", "0".to_owned()),
            ("batch.size", (1 << 20).to_string()),
            ("retry.backoff.ms", "10".to_owned()),
            ("queue.buffering.max.kbytes", (limit::PRODUCE_QUEUE_BYTES >> 10).to_string()),
        ];
        let mut config = self.with(&tunable, fixed);
        for (name, value) in [
            ("acks", "all".to_owned()),
            ("enable.idempotence", "true".to_owned()),
            ("message.max.bytes", (limit::MESSAGE_BYTES + limit::BATCH_OVERHEAD_BYTES).to_string()),
        ] {
            config.set(name, value);
        }
        config
    }

    fn with(&self, tunable: &[(&str, String)], fixed: &[(&str, String)]) -> ClientConfig {
        let mut config = self.client_config();
        for (name, value) in tunable.iter().filter(|(name, _)| !self.client.contains_key(*name)).chain(fixed) {
            config.set(*name, value);
        }
        config
    }
}

thread_local! {
    /// Where the partition ends whose end was just met on this thread: librdkafka's Rust face tells that it ends, and where
    /// only in words.
    static END: Cell<Option<i64>> = const { Cell::new(None) };
}

/// The offset of the end that the poll before this told of; `None`: it did not say.
pub(super) fn take_end() -> Option<i64> {
    END.take()
}

fn end_in(words: &str) -> Option<i64> {
    let after = words.split_once("end of partition at offset ")?.1;
    after.split(' ').next()?.parse().ok()
}

/// What a client was last heard to say of its brokers.
#[derive(Default)]
pub(super) struct Context {
    /// What is said of its group matters.
    in_group: bool,
    /// Something was said since a broker last answered.
    troubled: AtomicBool,
    down: AtomicBool,
    silent_since: Mutex<Option<Instant>>,
    said: Mutex<Option<(Code, String)>>,
}

impl Context {
    pub fn of(config: &ClientConfig) -> Context {
        Context { in_group: config.get("group.id").is_some_and(|group| group != READERS), ..Context::default() }
    }
    /// No broker answers, or none has what is read.
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }
    /// A question that was to find out found this; what was heard before says more.
    pub fn found_down(&self, code: Code) {
        self.said.lock().get_or_insert_with(|| (code, code.to_string()));
        self.down.store(true, Ordering::Relaxed);
        self.unanswered();
    }
    pub fn unanswered(&self) {
        self.silent_since.lock().get_or_insert_with(Instant::now);
        self.troubled.store(true, Ordering::Relaxed);
    }
    /// Nobody answers this client; another one may find who does.
    pub fn is_forgotten(&self) -> bool {
        self.troubled.load(Ordering::Relaxed) && self.silent_since.lock().is_some_and(|since| since.elapsed() >= SILENCE)
    }
    /// A broker has answered something: what was said before is over.
    pub fn answered(&self) {
        if self.troubled.load(Ordering::Relaxed) {
            let (mut said, mut silent_since) = (self.said.lock(), self.silent_since.lock());
            (*said, *silent_since) = (None, None);
            self.down.store(false, Ordering::Relaxed);
            self.troubled.store(false, Ordering::Relaxed);
        }
    }
    /// The last trouble with the brokers since one answered.
    pub fn said(&self) -> Option<(Code, String)> {
        self.said.lock().clone()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, said: &str) {
        match level {
            _ if facility == "CONFWARN" => tracing::trace!(facility, "{said}"),
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::warn!(facility, "librdkafka: {said}");
            }
            RDKafkaLogLevel::Warning => tracing::info!(facility, "librdkafka: {said}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => tracing::debug!(facility, "librdkafka: {said}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            Some(Code::PartitionEOF) => return END.set(end_in(reason)),
            Some(Code::GroupAuthorizationFailed) if !self.in_group => {}
            Some(
                code @ (Code::GroupAuthorizationFailed | Code::BrokerTransportFailure | Code::Resolve | Code::SSL | Code::Authentication),
            ) => {
                *self.said.lock() = Some((code, reason.to_owned()));
                self.troubled.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
        tracing::debug!(%error, reason, "librdkafka");
    }
}

impl ConsumerContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = Arc<Batch>;
    fn delivery(&self, result: &DeliveryResult<'_>, batch: Arc<Batch>) {
        batch.report(result);
    }
}

/// The threads that clients live and end on.
#[derive(Default)]
pub(super) struct Keepers {
    alive: Mutex<usize>,
    ended: Condvar,
}

impl Keepers {
    /// A thread that owns a client. Fails when there are as many as there may be: some hang in librdkafka then.
    pub fn spawn(self: &Arc<Keepers>, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), LogError> {
        let mut alive = self.alive.lock();
        if *alive >= limit::LOG_CLIENTS {
            return Err(LogError::Io(format!("{alive} Kafka clients are open or have not ended yet")));
        }
        *alive += 1;
        drop(alive);
        let guard = Alive(Arc::clone(self));
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _guard = guard;
            run();
        });
        thread.map(|_| ()).map_err(|e| LogError::Io(format!("thread: {e}")))
    }

    /// Until all have ended, at most for `wait`.
    pub fn wait(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut alive = self.alive.lock();
        while *alive > 0 {
            if self.ended.wait_until(&mut alive, until).timed_out() {
                tracing::warn!(clients = *alive, "Kafka clients do not end; left alone");
                return;
            }
        }
    }
}

struct Alive(Arc<Keepers>);

impl Drop for Alive {
    fn drop(&mut self) {
        let mut alive = self.0.alive.lock();
        *alive = alive.saturating_sub(1);
        self.0.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_read_out_of_words() {
        let words = "Fetch from broker 1 reached end of partition at offset 42 (HighwaterMark 43)";
        assert_eq!(end_in(words), Some(42));
        assert_eq!(end_in("reached the end"), None);
    }
}
