//! The table sink on a real Kafka: offsets with gaps, brokers that go and come, records and topics that are gone.

use super::*;
use crate::table::metrics::Metrics;
use crate::table::worker::Worker;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::trusted::encode;
use forebay_services::{Kafka, KafkaSpec};
use forebay_stores::config::LogConfig;
use forebay_stores::log::kafka::{KafkaLog, KafkaOptions, topics};
use forebay_stores::log::{Bounds, Committed, Entry, Log, TopicPartition, Transaction};
use std::time::{Duration, Instant};

const FIRST: TopicPartition = TopicPartition { topic: Topic::Trusted, partition: 0 };
const PATIENCE: Duration = Duration::from_secs(60);

fn metrics_of(registry: &prometheus::Registry) -> Metrics {
    Families::new(registry).expect("metrics").of(TrustedRows::SHAPE)
}

struct OnKafka {
    world: World,
    kafka: Kafka,
    options: KafkaOptions,
    log: Arc<KafkaLog>,
    registry: prometheus::Registry,
}

impl OnKafka {
    fn new() -> OnKafka {
        let kafka = Kafka::start(KafkaSpec { proxied: false, ..KafkaSpec::default() }).expect("starts");
        let text =
            format!("kind = \"kafka\"\nbrokers = [\"{}\"]\npartitions = 2\nreplicas = 1\nmin_insync_replicas = 1\n", kafka.brokers());
        let mut options = toml::from_str::<LogConfig>(&text).expect("a section").kafka().expect("options");
        options.patience.answer = Duration::from_secs(3);
        topics::apply(&options, false).expect("applies");
        let log = Arc::new(KafkaLog::connect(options.clone()).expect("connects"));
        OnKafka { world: World::in_memory(), kafka, options, log, registry: prometheus::Registry::new() }
    }
    fn worker(&self) -> Worker<TrustedRows> {
        let metrics = metrics_of(&prometheus::Registry::new());
        Worker::open(self.world.config(), self.log.clone(), self.world.objects(), metrics, Arc::default()).expect("opens")
    }
    /// As the enricher writes them: by transactions, each of which ends with a marker in the partition.
    fn put(&self, ids: std::ops::Range<i64>) {
        let harvested = TopicPartition { topic: Topic::Harvested, partition: 0 };
        let offset = ids.end;
        let entry = |n: i64| Entry { value: Some(encode(&trusted(0, 10 * n, &format!("e0-{n}"))).into()), ..Entry::default() };
        let outputs = ids.map(|n| (FIRST, entry(n))).collect();
        let offsets = vec![(harvested, Committed { offset: offset.min(0), metadata: format!("seq={offset}") })];
        self.log.lane("test/0").expect("opens").commit(Transaction { outputs, offsets }).expect("commits");
    }
    fn next(&self) -> i64 {
        self.world.stored().offsets().expect("offsets").expect("some").next[&0]
    }
    fn tool(&self, class: &str, args: &[&str]) {
        self.kafka.tool(&format!("org.apache.kafka.tools.{class}"), args).expect("runs");
    }
}

/// Until the sink cannot go on by itself.
fn final_error(worker: &mut Worker<TrustedRows>) -> SinkError {
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < PATIENCE, "no error");
        if let Err(error) = worker.turn() {
            if error.is_final() {
                return error;
            }
            if let Err(error) = worker.begin_again()
                && error.is_final()
            {
                return error;
            }
        }
    }
}

#[test]
fn gaps_outages_and_what_is_gone() {
    let on = OnKafka::new();
    on.put(0..3);
    on.put(3..6);
    // Six records, two markers.
    assert_eq!(on.log.bounds(FIRST).expect("answers"), Bounds { start: 0, end: 8 });
    let metrics = metrics_of(&on.registry);
    let mut worker =
        Worker::<TrustedRows>::open(on.world.config(), on.log.clone(), on.world.objects(), metrics, Arc::default()).expect("opens");
    worker.drain().expect("drains");
    assert_eq!((on.world.ids(), on.next()), (ids(0, 0..6), 8));
    // The markers are nothing that is left to do, not for the metric and not for the next start.
    assert_eq!(on.registry.gather()[1].name(), "forebay_sink_lag_records");
    assert_eq!(on.registry.gather()[1].get_metric()[0].get_gauge().get_value(), 0.0);
    let before = on.world.stored().location;
    on.worker().drain().expect("drains");
    assert_eq!(on.world.stored().location, before);

    on.kafka.kill(1).expect("kills");
    let error = worker.drain().expect_err("nobody answers");
    assert!(!error.is_final(), "{error}");
    assert!(!worker.begin_again().expect_err("nobody answers").is_final());
    on.kafka.restart(1).expect("restarts");
    on.put(6..7);
    worker.begin_again().expect("begins again");
    let started = Instant::now();
    while on.world.ids() != ids(0, 0..7) {
        worker.turn().expect("turns");
        assert!(started.elapsed() < PATIENCE, "no commit");
    }
    // A marker alone is no reason for a commit, unless there was no other for long. Whether the last commit came before it was
    // read is chance.
    let mut worker = on.worker();
    while worker.batch.offsets().next[&0] < 10 {
        worker.turn().expect("turns");
        assert!(started.elapsed() < PATIENCE, "no end");
    }
    worker.opened = worker.opened.checked_sub(Duration::from_secs(3_600)).expect("a machine that is up for an hour");
    worker.turn().expect("turns");
    assert_eq!(on.next(), 10);

    // Retention, faster than the sink.
    drop(worker);
    on.put(7..9);
    let file = on.world.folder.path().join("delete.json");
    let name = on.options.name(Topic::Trusted);
    std::fs::write(&file, format!(r#"{{"version":1,"partitions":[{{"topic":"{name}","partition":0,"offset":12}}]}}"#)).expect("writes");
    on.tool("DeleteRecordsCommand", &["--offset-json-file", file.to_str().expect("UTF-8")]);
    assert_eq!(on.log.bounds(FIRST).expect("answers").start, 12);
    let metrics = metrics_of(&prometheus::Registry::new());
    let error =
        Worker::<TrustedRows>::open(on.world.config(), on.log.clone(), on.world.objects(), metrics, Arc::default()).err().expect("refuses");
    assert!(matches!(error, SinkError::Refused(Refusal::BelowStart { partition: 0, stored: 10, start: 12, .. })), "{error}");

    // The topic made anew, under a sink that reads it.
    let adopting = Config { adopt_topic: Some(on.log.topic_id(Topic::Trusted).expect("answers")), ..on.world.config() };
    let metrics = metrics_of(&prometheus::Registry::new());
    let mut worker = Worker::<TrustedRows>::open(adopting, on.log.clone(), on.world.objects(), metrics, Arc::default()).expect("opens");
    on.put(9..10);
    worker.drain().expect("drains");
    assert_eq!(on.world.ids(), ids(0, 0..7).into_iter().chain(ids(0, 9..10)).collect::<Vec<_>>());
    on.tool("TopicCommand", &["--delete", "--topic", name]);
    let made = Instant::now();
    while topics::apply(&on.options, false).is_err() || on.log.topic_id(Topic::Trusted).is_err() {
        assert!(made.elapsed() < PATIENCE, "no topic");
    }
    let error = final_error(&mut worker);
    assert!(matches!(error, SinkError::Refused(Refusal::OtherTopic { .. })), "{error}");
    assert!(error.to_string().contains(&format!("adopt_topic = \"{}\"", on.log.topic_id(Topic::Trusted).expect("answers"))), "{error}");
}
