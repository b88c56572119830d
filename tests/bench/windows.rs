//! `./x bench windows`: what windows add to the engine's CPU and to its deltas, on a real Kafka, beside the engine without them
//! in the same run.
//!
//! Load: a million of the events of `enricher`, a millisecond apart, 900 pages, with a tick to each partition for every
//! thousand. Each variant has a log of its own, filled before it starts; each is run twice, in turn, and the lesser counts.

use super::enricher::{COPY_BACK, COPY_EVERY, engine, event, options};
use super::wanted;
use crate::harness::cluster::{Cluster, Services};
use bytes::Bytes;
use forebay_schemas::partition::partition_of;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::{PUBLISHED_THROUGH, Topic};
use forebay_schemas::wire::harvested;
use forebay_services::{Kafka, KafkaSpec, S3};
use forebay_stores::log::kafka::KafkaLog;
use forebay_stores::log::{Entry, Log, TopicPartition};

const PARTITIONS: i32 = 4;
const EVENTS: u64 = 1_000_000;
const PAGES: u64 = 900;
const MANY_PAGES: u64 = 10_000;
const TICK_EVERY: u64 = 1_000;
const APPEND: usize = 4_000;

/// A tumbling count by page, over the engine without windows.
const TUMBLING_MAX: f64 = 1.25;
/// Deltas of three sketches over those of a count, of many keys.
const SKETCHES_MAX: f64 = 3.0;
/// What a sliding window of 60 panes adds, over what the tumbling one adds.
const SLIDING_MAX: f64 = 2.0;

const VARIANTS: [(&str, &str); 3] = [
    ("none", ""),
    ("tumbling", "[[window]]\nuid = \"w\"\nkind = \"tumbling\"\nsize = \"1m\"\nkey = [\"page.path\"]\n"),
    ("sliding", "[[window]]\nuid = \"w\"\nkind = \"sliding\"\nsize = \"60m\"\nslide = \"1m\"\nkey = [\"page.path\"]\n"),
];

/// What one run cost.
#[derive(Clone, Copy)]
struct Cost {
    seconds: f64,
    delta_bytes: u64,
    repartition_bytes: u64,
}

#[test]
fn windows() {
    if !wanted("windows") {
        return;
    }
    let properties = [("log.segment.bytes", "268435456")].map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let kafka = Kafka::start(KafkaSpec { properties, ..KafkaSpec::default() }).expect("Kafka starts");
    let s3: &'static S3 = Box::leak(Box::new(S3::start().expect("the S3 server starts")));
    let mut least: Vec<Option<Cost>> = vec![None; VARIANTS.len()];
    for round in 0..2 {
        for (n, (name, windows)) in VARIANTS.into_iter().enumerate() {
            let services = Services { brokers: kafka.brokers(), endpoint: s3.endpoint(), s3 };
            let cost = run(services, windows, PAGES);
            println!(
                "round {round}, {name}: {:.2} s, deltas {} B, repartition {} B",
                cost.seconds, cost.delta_bytes, cost.repartition_bytes
            );
            least[n] = Some(least[n].filter(|least| least.seconds <= cost.seconds).unwrap_or(cost));
        }
    }
    let [none, tumbling, sliding] = [0, 1, 2].map(|n| least[n].expect("run").seconds);
    let (over, added) = (tumbling / none, (sliding - none) / (tumbling - none));
    println!(
        "tumbling count by page over none: {over:.2} (bound {TUMBLING_MAX}); sliding adds {added:.2} times what tumbling adds (bound {SLIDING_MAX})"
    );
    let of = |values: &str| {
        let services = Services { brokers: kafka.brokers(), endpoint: s3.endpoint(), s3 };
        let cost = run(services, &VARIANTS[1].1.replace("[\"page.path\"]\n", &format!("[\"page.path\"]\nvalues = {values}\n")), MANY_PAGES);
        println!(
            "{MANY_PAGES} keys, {values}: {:.2} s, deltas {} B, repartition {} B",
            cost.seconds, cost.delta_bytes, cost.repartition_bytes
        );
        cost.delta_bytes as f64
    };
    let count = of("{ n = \"count\" }");
    let sketches =
        of(r#"{ ids = "distinct(user_id)", top = "top(10, properties.product_id)", p95 = "quantile(0.95, properties.position)" }"#) / count;
    println!("deltas of three sketches over those of a count: {sketches:.2} (bound {SKETCHES_MAX})");
    assert!(over <= TUMBLING_MAX && added <= SLIDING_MAX && sketches <= SKETCHES_MAX, "over the bounds");
}

fn run(services: Services, windows: &str, pages: u64) -> Cost {
    let mut cluster = Cluster::on(services, &format!("[log]\npartitions = {PARTITIONS}\n[enricher]\nlanes = 1\n{windows}"));
    fill(&cluster, pages);
    let (seconds, _, _) = engine(&mut cluster, EVENTS);
    let log = KafkaLog::connect(options(&cluster)).expect("opens");
    let bytes = |topic: Topic| (0..PARTITIONS).map(|partition| bytes_of(&log, TopicPartition { topic, partition })).sum();
    Cost { seconds, delta_bytes: bytes(Topic::Delta), repartition_bytes: bytes(Topic::Repartition) }
}

/// Of all values in a partition.
fn bytes_of(log: &KafkaLog, at: TopicPartition) -> u64 {
    let bounds = log.bounds(at).expect("bounds");
    let mut reader = log.reader(at, bounds.start).expect("a reader");
    let mut bytes = 0;
    loop {
        let records = reader.read_to(bounds.end, 8 << 20, 1_000).expect("records");
        if records.is_empty() {
            return bytes;
        }
        bytes += records.iter().map(|record| record.value.as_ref().map_or(0, |value| value.len() as u64)).sum::<u64>();
    }
}

/// As a gateway would that receives an event a millisecond and has published it at once.
fn fill(cluster: &Cluster, pages: u64) {
    let log = KafkaLog::connect(options(cluster)).expect("opens");
    // The newest is received now: none is behind the log's own clock by more than it took.
    let began = Micros::from(std::time::SystemTime::now()).0 - EVENTS as i64 * 1_000;
    let mut entries = Vec::new();
    for n in 0..EVENTS {
        let received_at = Micros(began + n as i64 * 1_000);
        let fact = if n % COPY_EVERY == COPY_EVERY - 1 { n.saturating_sub(COPY_BACK) } else { n };
        let (key, mut event) = event(n, fact, received_at, &format!("/shop/page-{}", fact % pages));
        // Sent when it happened: its own time is the receiving time.
        event.sent_at = Some(Micros::parse_rfc3339("2026-11-30T06:49:42.126Z").expect("a time"));
        let value = Bytes::from(harvested::encode(&event));
        let at = |partition| TopicPartition { topic: Topic::Harvested, partition };
        entries
            .push((at(partition_of(key.as_bytes(), PARTITIONS)), Entry { key: Bytes::from(key), value: Some(value), headers: Vec::new() }));
        if n % TICK_EVERY == 0 {
            let headers = vec![(PUBLISHED_THROUGH.to_owned(), Bytes::from(received_at.0.to_string()))];
            entries.extend(
                (0..PARTITIONS)
                    .map(|partition| (at(partition), Entry { key: Bytes::from_static(b"bench"), value: None, headers: headers.clone() })),
            );
        }
        if entries.len() >= APPEND || n + 1 == EVENTS {
            log.append(std::mem::take(&mut entries)).expect("appended");
        }
    }
}
