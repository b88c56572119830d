//! The whole shell on a real broker: layouts beside each other, offsets deleted by hand, a broker that dies, formats.

use super::threads::{total, until};
use super::*;
use crate::{Config, Enricher};
use forebay_services::{Kafka, KafkaSpec};
use forebay_stores::config::LogConfig;
use forebay_stores::log::kafka::{KafkaLog, KafkaOptions, topics};
use forebay_stores::log::{LogError, TopicPartition};
use parking_lot::{Mutex, MutexGuard};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

const PARTITIONS: i32 = 4;

/// One broker for these tests, one of them at a time: they do things to it.
fn broker() -> MutexGuard<'static, Kafka> {
    static BROKER: LazyLock<Mutex<Kafka>> = LazyLock::new(|| Mutex::new(Kafka::start(KafkaSpec::default()).expect("Kafka starts")));
    BROKER.lock()
}

/// Topics and a job of one test's own.
struct System {
    options: KafkaOptions,
    job: String,
    pipeline: Arc<Pipeline>,
    /// What feeds and looks.
    log: KafkaLog,
    fed: u32,
}

impl System {
    fn new(kafka: &Kafka) -> System {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let job = format!("j{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let names = Topic::ALL.map(|topic| format!("topics.{0}.name = \"{job}.{0}\"\n", topic.word())).concat();
        let brokers = kafka.brokers();
        let text = format!(
            "kind = \"kafka\"\nbrokers = [{brokers:?}]\npartitions = {PARTITIONS}\nreplicas = 1\nmin_insync_replicas = 1\n\
             topics.delta.retention = \"10d\"\n{names}"
        );
        let options = toml::from_str::<LogConfig>(&text).expect("parses").kafka().expect("a log on Kafka");
        topics::apply(&options, false).expect("made");
        let log = KafkaLog::connect(options.clone()).expect("connects");
        System { options, job, pipeline: testing::pipeline(Duration::from_secs(3600), Collision::Bad), log, fed: 0 }
    }

    /// Through `brokers`, with a client of its own, as another process has it.
    fn start_at(&self, brokers: Vec<String>, dir: &tempfile::TempDir, set: impl FnOnce(&mut Config)) -> Enricher {
        let log = KafkaLog::connect(KafkaOptions { brokers, ..self.options.clone() }).expect("connects");
        let mut config = Config::new(Kind::RocksDb);
        config.job.clone_from(&self.job);
        config.commit_interval = "20ms".parse().expect("a span");
        set(&mut config);
        Enricher::start(config, self.pipeline.clone(), Arc::new(log), dir.path(), &prometheus::Registry::new()).expect("starts")
    }

    fn start(&self, dir: &tempfile::TempDir, lanes: u32, assign: Option<Vec<u32>>) -> Enricher {
        self.start_at(self.options.brokers.clone(), dir, |config| (config.lanes, config.assign) = (lanes, assign))
    }

    /// The next `events` ids, each of them twice, and a tick.
    fn feed(&mut self, events: u32) {
        let now = Micros::from(std::time::SystemTime::now());
        let mut entries = Vec::new();
        for id in self.fed..self.fed + events {
            let partition = id as i32 % PARTITIONS;
            entries.push(testing::event(partition, id, Body::Fact(0), now));
            entries.push(testing::event(partition, id, Body::Fact(0), now));
        }
        entries.extend((0..PARTITIONS).map(|partition| testing::tick(partition, "g", now)));
        self.fed += events;
        // The broker may be away for a while.
        let began = Instant::now();
        while let Err(error) = self.log.append(entries.clone()) {
            assert!(matches!(error, LogError::Io(_)) && began.elapsed() < Duration::from_secs(60), "{error}");
        }
    }

    /// The ids that a reader of committed records sees, each as often as it is there.
    fn trusted(&self) -> Vec<String> {
        let mut ids = Vec::new();
        for partition in 0..PARTITIONS {
            let at = TopicPartition { topic: Topic::Trusted, partition };
            let bounds = self.log.bounds(at).expect("answers");
            let mut reader = self.log.reader(at, bounds.start).expect("opens");
            loop {
                let records = reader.read_to(bounds.end, 1 << 20, 10_000).expect("reads");
                if records.is_empty() {
                    break;
                }
                ids.extend(records.into_iter().map(|record| String::from_utf8(record.key.to_vec()).expect("text")));
            }
        }
        ids.sort();
        ids
    }

    fn expected(&self) -> Vec<String> {
        let mut ids: Vec<String> = (0..self.fed).map(testing::event_id).collect();
        ids.sort();
        ids
    }

    fn all_told(&self, what: &str) {
        until(what, || self.trusted().len() >= self.fed as usize);
        assert_eq!(self.trusted(), self.expected(), "{what}");
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn running(enricher: &Enricher) {
    until("all lanes run", || {
        assert_eq!(enricher.failed(), None);
        enricher.ready().is_ok()
    });
}

#[test]
fn h16_on_a_broker_zombies_of_other_layouts_are_fenced() {
    let kafka = broker();
    let mut system = System::new(&kafka);
    let dirs = [folder(), folder(), folder()];
    let first = system.start(&dirs[0], 2, None);
    running(&first);
    system.feed(100);
    system.all_told("two lanes");
    // The first goes on living, and there is always something for it to read.
    let second = system.start(&dirs[1], 1, None);
    running(&second);
    system.feed(100);
    system.all_told("one lane beside two of old");
    until("the first is fenced", || first.failed().is_some());
    let third = system.start(&dirs[2], 3, None);
    running(&third);
    system.feed(100);
    system.all_told("three lanes beside one of old");
    until("the second is fenced", || second.failed().is_some());
    assert!(first.stop().is_err() && second.stop().is_err());
    let (trusted, duplicates) = (total(&third, Outcome::Trusted), total(&third, Outcome::Duplicate));
    assert_eq!((trusted, duplicates), (300, 300), "the totals are the whole job's");
    third.stop().expect("stops");
}

#[test]
fn disjoint_lanes_share_a_broker() {
    let kafka = broker();
    let mut system = System::new(&kafka);
    let dirs = [folder(), folder()];
    let (one, other) = (system.start(&dirs[0], 2, Some(vec![0])), system.start(&dirs[1], 2, Some(vec![1])));
    running(&one);
    running(&other);
    system.feed(200);
    system.all_told("each its own");
    assert_eq!((total(&one, Outcome::Trusted), total(&other, Outcome::Trusted)), (100, 100));
    one.stop().expect("was never fenced");
    other.stop().expect("was never fenced");
}

#[test]
fn h40_on_a_broker_deleted_offsets_are_taken_from_the_deltas() {
    let kafka = broker();
    let mut system = System::new(&kafka);
    let dir = folder();
    let enricher = system.start(&dir, 1, None);
    running(&enricher);
    system.feed(100);
    system.all_told("before");
    enricher.stop().expect("stops");
    let group = format!("{}/0", system.job);
    kafka.tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", &["--delete", "--group", &group]).expect("deleted");
    let input = TopicPartition { topic: Topic::Harvested, partition: 0 };
    assert_eq!(system.log.committed(&group, input).expect("answers"), None);
    // With the local state, and from deltas alone.
    for dir in [dir, folder()] {
        let enricher = system.start(&dir, 1, None);
        running(&enricher);
        until("its place is told again", || system.log.committed(&group, input).expect("answers").is_some());
        system.fed = 0;
        system.feed(100);
        until("all of it are copies", || total(&enricher, Outcome::Duplicate) % 200 == 100);
        assert_eq!((total(&enricher, Outcome::Trusted), system.trusted().len()), (100, 100));
        enricher.stop().expect("stops");
        kafka.tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", &["--delete", "--group", &group]).expect("deleted");
    }
}

#[test]
fn a_broker_that_dies_or_is_cut_off_is_waited_for() {
    let kafka = broker();
    let mut system = System::new(&kafka);
    let dir = folder();
    kafka.cut(1).expect("cut");
    let proxied = vec![kafka.proxied()];
    let enricher = system.start_at(proxied, &dir, |config| config.lanes = 2);
    until("it says what it waits for", || enricher.ready().is_err_and(|why| why.contains("the log does not answer")));
    kafka.heal(1).expect("heals");
    running(&enricher);
    for round in 0..3 {
        system.feed(100);
        match round {
            0 => kafka.kill(1).and_then(|()| kafka.restart(1)).expect("restarts"),
            1 => {
                kafka.cut(1).expect("cut");
                until("it says that the log is away", || enricher.ready().is_err());
                kafka.heal(1).expect("heals");
            }
            _ => kafka.restart(1).expect("restarts"),
        }
        system.feed(100);
        system.all_told("after the outage");
        running(&enricher);
    }
    assert_eq!((total(&enricher, Outcome::Trusted), total(&enricher, Outcome::Duplicate)), (600, 600));
    enricher.stop().expect("stops");
}

#[test]
fn formats_roll_forward_and_back_on_a_broker() {
    let kafka = broker();
    let mut system = System::new(&kafka);
    let mut dir = folder();
    for (round, format) in [1, 2, 1, 2, 2, 1].into_iter().enumerate() {
        if round == 4 {
            // From deltas of both formats alone.
            dir = folder();
        }
        let enricher = system.start_at(system.options.brokers.clone(), &dir, |config| config.format = format);
        running(&enricher);
        system.feed(50);
        system.all_told(&format!("round {round}, format {format}"));
        // What comes meanwhile is the next one's.
        system.feed(50);
        enricher.stop().expect("stops");
    }
    let enricher = system.start(&dir, 1, None);
    system.all_told("at the end");
    enricher.stop().expect("stops");
}

/// What a killed process leaves open holds nobody up: the brokers would end it after ten minutes, its successor does at once.
#[test]
fn the_open_transaction_of_a_killed_process_is_ended_by_its_successor() {
    let kafka = broker();
    let mut system = System::new(&kafka);
    let dir = folder();
    let first = system.start(&dir, 1, None);
    system.feed(50);
    system.all_told("before");
    first.stop().expect("stops");
    let lane = crate::layout::lane_id(&system.job, 0);
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", kafka.brokers())
        .set("transactional.id", &lane)
        .set("transaction.timeout.ms", "600000")
        .create()
        .expect("a producer");
    let asker: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", kafka.brokers()).set("group.id", &lane).create().expect("a consumer");
    let wait = Duration::from_secs(10);
    producer.init_transactions(wait).expect("opened");
    producer.begin_transaction().expect("begun");
    let mut offsets = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        for topic in [Topic::Trusted, Topic::Delta] {
            let record = BaseRecord::<[u8], [u8]>::to(system.options.name(topic)).partition(partition).key(b"left").payload(b"open");
            producer.send(record).expect("taken");
        }
        offsets.add_partition_offset(system.options.name(Topic::Harvested), partition, Offset::Offset(1)).expect("added");
    }
    producer.flush(wait).expect("produced");
    producer.send_offsets_to_transaction(&offsets, &asker.group_metadata().expect("a group"), wait).expect("sent");

    let second = system.start(&dir, 1, None);
    running(&second);
    system.feed(50);
    system.all_told("after");
    second.stop().expect("stops");
}

#[test]
fn a_missing_topic_is_refused_at_the_start() {
    let kafka = broker();
    let mut system = System::new(&kafka);
    system.options.topics[0].name = "nobody.made.this".to_owned();
    let log = KafkaLog::connect(system.options.clone()).expect("connects");
    let registry = prometheus::Registry::new();
    let started = Enricher::start(Config::new(Kind::Memory), system.pipeline.clone(), Arc::new(log), folder().path(), &registry);
    let refused = started.map(drop).expect_err("refused").to_string();
    assert!(refused.contains("forebay topics apply"), "{refused}");
}
