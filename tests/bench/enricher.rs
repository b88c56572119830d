//! `./x bench enricher`: CPU of the engine alone, on a real Kafka, beside a floor of the same run.
//!
//! The floor is a plain loop that any exactly-once engine must at least be: consume read_committed, read one JSON field, one
//! RocksDB get and put an event, produce the event, offsets and outputs in a transaction every 200 ms. It is frozen: tuning
//! the product must not touch it.
//! Load: Segment events of 1 KB, 10 % of them sent twice, 16 partitions, on the log before anything starts. CPU is user and
//! system time of the whole process from its start until the last event is committed; the broker is not counted.

use super::{TICKS, cpu, wanted};
use crate::harness::cluster::{Cluster, ENRICHER, Services};
use crate::harness::{System, Totals};
use bytes::Bytes;
use forebay_schemas::dialect::Dialect;
use forebay_schemas::id::{EventId, IdOrigin, RequestId};
use forebay_schemas::partition::partition_of;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::harvested::{self, Content, Harvested};
use forebay_services::{Kafka, KafkaSpec, S3};
use forebay_stores::log::kafka::KafkaLog;
use forebay_stores::log::{Entry, Log, TopicPartition};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Message, Offset, TopicPartitionList};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PARTITIONS: i32 = 16;
const MILLION: u64 = 1_000_000;
/// One in ten is a copy of the event this far back, which was no copy.
pub const COPY_EVERY: u64 = 10;
pub const COPY_BACK: u64 = 5_005;
const APPEND_BYTES: usize = 4 << 20;
/// The floor's interval, which is the engine's default.
const COMMIT: Duration = Duration::from_millis(200);
const ANSWER: Duration = Duration::from_secs(30);

/// CPU seconds a million events of the engine over those of the floor, and alone: a ratchet (docs/decisions/0006).
const RATIO_MAX: f64 = 2.5;
const SECONDS_MAX: f64 = 13.0;

#[test]
fn enricher() {
    if !wanted("enricher") {
        return;
    }
    let properties = [("log.segment.bytes", "268435456")].map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let kafka = Kafka::start(KafkaSpec { properties, ..KafkaSpec::default() }).expect("Kafka starts");
    let s3: &'static S3 = Box::leak(Box::new(S3::start().expect("the S3 server starts")));
    let mut failures = Vec::new();
    for millions in [1, 3] {
        let events = millions * MILLION;
        let services = Services { brokers: kafka.brokers(), endpoint: s3.endpoint(), s3 };
        let config = format!("[log]\npartitions = {PARTITIONS}\n[enricher]\nlanes = 2\n");
        let mut cluster = Cluster::on(services, &config);
        fill(&cluster, events);
        let floor = floor(&cluster, &kafka, events) / millions as f64;
        let (engine, threads, wall) = engine(&mut cluster, events);
        let engine = engine / millions as f64;
        println!(
            "{millions} M events: floor {floor:.2} s CPU a million; engine {engine:.2} s; ratio {:.2} (bound {RATIO_MAX}); {:.0} events/s",
            engine / floor,
            events as f64 / wall.as_secs_f64()
        );
        println!("| thread | s a million events | of the engine |\n|---|---|---|");
        for (name, seconds) in threads.iter().filter(|(_, seconds)| *seconds >= 0.05 * millions as f64) {
            let seconds = seconds / millions as f64;
            println!("| {name} | {seconds:.2} | {:.0} % |", seconds / engine * 100.0);
        }
        if engine > RATIO_MAX * floor || engine > SECONDS_MAX {
            failures.push(format!("{millions} M events: {engine:.2} s a million, floor {floor:.2} s"));
        }
    }
    assert!(failures.is_empty(), "over the bounds: {failures:?}");
}

/// Puts `events` events on the harvested topic, as a gateway would.
fn fill(cluster: &Cluster, events: u64) {
    let log = KafkaLog::connect(options(cluster)).expect("opens");
    let received_at = Micros::from(std::time::SystemTime::now());
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for n in 0..events {
        let copied = if n % COPY_EVERY == COPY_EVERY - 1 { n.saturating_sub(COPY_BACK) } else { n };
        let (key, event) = event(n, copied, received_at, "/shop/shoes");
        let value = Bytes::from(harvested::encode(&event));
        bytes += value.len();
        let at = TopicPartition { topic: Topic::Harvested, partition: partition_of(key.as_bytes(), PARTITIONS) };
        entries.push((at, Entry { key: Bytes::from(key), value: Some(value), headers: Vec::new() }));
        if bytes >= APPEND_BYTES || n + 1 == events {
            log.append(std::mem::take(&mut entries)).expect("appended");
            bytes = 0;
        }
    }
}

/// What `n` identifies is where it was received; what `fact` identifies is what it says.
pub fn event(n: u64, fact: u64, received_at: Micros, page: &str) -> (String, Harvested) {
    let id = format!("ajs-next-1796021382126-{fact:012x}-d0cadef8-82e5");
    let device = format!("e7916ca1-d0ca-4ef8-82e5-{:012x}", fact % 50_000);
    let json = json!({"timestamp": "2026-11-30T06:49:42.126Z", "type": "track", "event": "Product Clicked", "messageId": id,
        "anonymousId": device, "userId": format!("u-{}", fact % 50_000),
        "properties": {"price": 19.99, "name": "Running shoe, blue, size 42", "product_id": format!("sku-{}", fact % 900), "brand": "Northwind",
            "category": "Shoes", "variant": "blue / 42", "position": 3, "currency": "EUR", "quantity": 1, "list_id": "recommended",
            "url": "https://shop.example/shop/shoes/running-shoe-blue?utm_source=mail"},
        "context": {"page": {"path": page, "referrer": "https://search.example/", "title": "Shoes - Shop", "search": "?utm_source=mail",
                "url": "https://shop.example/shop/shoes?utm_source=mail"},
            "userAgent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
            "locale": "en-US", "library": {"name": "analytics.js", "version": "npm:next-1.84.3"}, "timezone": "Europe/Berlin",
            "campaign": {"source": "mail"}}, "integrations": {}, "_metadata": {"nodeVersion": "24"}});
    let event = Harvested {
        event_id: EventId::new(&id).expect("an id"),
        id_origin: IdOrigin::Client,
        request_id: format!("01936f00-0000-7000-8000-{:012x}", n / 50).parse::<RequestId>().expect("a UUID"),
        index: (n % 50) as u32,
        gateway: "bench".to_owned(),
        source: "web".to_owned(),
        dialect: Dialect::Segment,
        received_at,
        sent_at: Some(received_at),
        client_ip: Some("198.51.100.0".to_owned()),
        user_agent: None,
        headers: Vec::new(),
        content: Content::Json,
        envelope: None,
        payload: Bytes::from(json.to_string()),
        full_length: None,
    };
    (device, event)
}

/// The engine on a full log: CPU seconds, by thread, and how long it took.
pub fn engine(cluster: &mut Cluster, events: u64) -> (f64, Vec<(String, f64)>, Duration) {
    let started = Instant::now();
    cluster.roles[ENRICHER].spawn();
    cluster.roles[ENRICHER].wait_ready();
    let totals = |cluster: &Cluster| Totals::of_metrics(&cluster.roles[ENRICHER].metrics());
    while totals(cluster).sum() < events {
        assert!(started.elapsed() < Duration::from_secs(600), "{:?} of {events}\n{}", totals(cluster), cluster.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    let wall = started.elapsed();
    let (seconds, threads) = cpu(cluster.roles[ENRICHER].process.pid());
    let totals = totals(cluster);
    let copies = events / COPY_EVERY;
    assert_eq!((totals.of("trusted"), totals.of("duplicate")), (events - copies, copies), "{totals:?}");
    assert_eq!(cluster.roles[ENRICHER].process.stop(), 0);
    let mut threads: Vec<_> = threads.into_iter().collect();
    threads.sort_by(|a, b| b.1.total_cmp(&a.1));
    (seconds, threads, wall)
}

/// The floor in a process of its own; its CPU seconds.
fn floor(cluster: &Cluster, kafka: &Kafka, events: u64) -> f64 {
    let output = format!("{}.floor", cluster.name);
    kafka.create_topic(&output, PARTITIONS, &["message.timestamp.type=LogAppendTime"]).expect("a topic");
    let settings = json!({"brokers": kafka.brokers(), "input": format!("{}.harvested", cluster.name), "output": output, "events": events});
    let child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["bench::enricher::floor_loop", "--exact", "--nocapture"])
        .env("FOREBAY_ENGINE_FLOOR", settings.to_string())
        .stderr(Stdio::inherit())
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    let seconds = text.split("cpu=").nth(1).and_then(|rest| rest.split_whitespace().next()).and_then(|seconds| seconds.parse().ok());
    seconds.unwrap_or_else(|| panic!("the floor says nothing of its CPU:\n{text}"))
}

/// The one field that the floor reads.
#[derive(serde::Deserialize)]
struct Field<'a> {
    #[serde(rename = "messageId", borrow)]
    id: &'a str,
}

/// The floor. Does nothing unless it was started as one.
#[test]
fn floor_loop() {
    let Ok(settings) = std::env::var("FOREBAY_ENGINE_FLOOR") else { return };
    let settings: serde_json::Value = serde_json::from_str(&settings).expect("JSON");
    let text = |key: &str| settings[key].as_str().expect("a text");
    let events = settings["events"].as_u64().expect("a number");
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    let db = rocksdb::DB::open(&options, folder.path()).expect("opens");
    let mut no_wal = rocksdb::WriteOptions::default();
    no_wal.disable_wal(true);
    let base = || {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", text("brokers"));
        config
    };
    let consumer: BaseConsumer = base()
        .set("group.id", "floor")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("auto.offset.reset", "error")
        .create()
        .expect("a consumer");
    let mut assignment = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        assignment.add_partition_offset(text("input"), partition, Offset::Beginning).expect("an offset");
    }
    consumer.assign(&assignment).expect("assigned");
    let producer: BaseProducer = base()
        .set("transactional.id", text("output"))
        .set("compression.type", "lz4")
        .set("queue.buffering.max.messages", "1000000")
        .create()
        .expect("a producer");
    producer.init_transactions(ANSWER).expect("initialised");
    let (mut seen, mut next, mut began) = (0, BTreeMap::new(), None);
    while seen < events || began.is_some() {
        if let Some(message) = consumer.poll(Duration::from_millis(10)) {
            let message = message.expect("a message");
            if began.is_none() {
                producer.begin_transaction().expect("begun");
                began = Some(Instant::now());
            }
            let value = message.payload().expect("a value");
            let json = &value[value.iter().position(|byte| *byte == b'{').expect("JSON")..];
            let field = serde_json::Deserializer::from_slice(json).into_iter::<Field<'_>>().next().expect("an object").expect("a field");
            let key: [u8; 16] = std::array::from_fn(|n| field.id.as_bytes()[field.id.len() - 30 + n]);
            if db.get(key).expect("reads").is_none() {
                db.put_opt(key, [0u8; 16], &no_wal).expect("writes");
                let record = BaseRecord::to(text("output")).partition(message.partition()).key(&key).payload(value);
                producer.send(record).map_err(|(error, _)| error).expect("produced");
            }
            next.insert(message.partition(), message.offset() + 1);
            seen += 1;
        }
        if began.is_some_and(|began| began.elapsed() >= COMMIT || seen == events) {
            let mut offsets = TopicPartitionList::new();
            for (partition, offset) in &next {
                offsets.add_partition_offset(text("input"), *partition, Offset::Offset(*offset)).expect("an offset");
            }
            let group = consumer.group_metadata().expect("a group");
            producer.send_offsets_to_transaction(&offsets, &group, ANSWER).expect("sent");
            producer.commit_transaction(ANSWER).expect("committed");
            began = None;
        }
    }
    let stat = std::fs::read_to_string("/proc/self/stat").expect("stat");
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
    let ticks: f64 = fields[11].parse::<f64>().expect("user") + fields[12].parse::<f64>().expect("system");
    println!("cpu={:.2} ", ticks / TICKS);
}

pub fn options(cluster: &Cluster) -> forebay_stores::log::kafka::KafkaOptions {
    #[derive(serde::Deserialize)]
    struct File {
        log: forebay_stores::config::LogConfig,
    }
    let text = std::fs::read_to_string(&cluster.config).expect("the configuration");
    toml::from_str::<File>(&text).expect("TOML").log.kafka().expect("options")
}
