//! `./x bench latency`: from a 2xx to a read_committed consumer of the trusted topic, three processes on a real Kafka and S3,
//! at a third of the capacity that the same run has measured. Open loop: requests leave on time, whatever the answers do.

use super::enricher::options;
use super::{EVENTS_PER_BATCH, batch, load, wanted};
use crate::harness::cluster::{Cluster, ENRICHER, Services};
use crate::harness::{System, Totals, http};
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::trusted;
use forebay_services::{Kafka, KafkaSpec, S3};
use forebay_stores::log::kafka::KafkaLog;
use forebay_stores::log::{Log, TopicPartition};
use hdrhistogram::Histogram;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const WARM: u64 = 50_000;
const MEASURED_FOR_CAPACITY: u64 = 200_000;
const SECONDS: f64 = 30.0;
const SENDERS: u64 = 8;
const P50_MS: u64 = 300;
const P99_MS: u64 = 600;

#[test]
fn latency() {
    if !wanted("latency") {
        return;
    }
    let kafka = Kafka::start(KafkaSpec::default()).expect("Kafka starts");
    let s3: &'static S3 = Box::leak(Box::new(S3::start().expect("the S3 server starts")));
    let mut cluster = Cluster::on(Services { brokers: kafka.brokers(), endpoint: s3.endpoint(), s3 }, "");
    cluster.start();
    let listen = cluster.listen();
    load(&listen, WARM);
    settle(&cluster, WARM);
    let began = Instant::now();
    load(&listen, MEASURED_FOR_CAPACITY);
    settle(&cluster, WARM + MEASURED_FOR_CAPACITY);
    let capacity = MEASURED_FOR_CAPACITY as f64 / began.elapsed().as_secs_f64();
    let rate = capacity / 3.0;
    let (histogram, events) = measure(&cluster, &listen, rate);
    let ms = |quantile: f64| histogram.value_at_quantile(quantile);
    println!(
        "capacity {capacity:.0} events/s; at {rate:.0} events/s ({events} events) from 2xx to a read_committed consumer: \
         p50 {} ms (bound {P50_MS}), p99 {} ms (bound {P99_MS}), max {} ms",
        ms(0.5),
        ms(0.99),
        histogram.max()
    );
    assert!(ms(0.5) < P50_MS && ms(0.99) < P99_MS);
}

/// Sends for `SECONDS` at `rate` events a second; milliseconds from each 2xx to when its first event was read, or 0 when that came first.
fn measure(cluster: &Cluster, listen: &str, rate: f64) -> (Histogram<u64>, u64) {
    let batches = (rate * SECONDS / EVENTS_PER_BATCH as f64) as u64 / SENDERS * SENDERS;
    let interval = Duration::from_secs_f64(EVENTS_PER_BATCH as f64 / rate);
    let first = WARM + MEASURED_FOR_CAPACITY;
    let (answered, done) = (Mutex::new(HashMap::new()), AtomicBool::new(false));
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_until(cluster, batches, &done));
        let start = Instant::now() + Duration::from_secs(1);
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let answered = &answered;
                scope.spawn(move || {
                    let mut stream = http::connect(listen).expect("connects");
                    for nth in (sender..batches).step_by(SENDERS as usize) {
                        std::thread::sleep((start + interval * nth as u32).saturating_duration_since(Instant::now()));
                        let body = batch(first + nth * EVENTS_PER_BATCH);
                        let length = body.len().to_string();
                        let headers = [("content-type", "application/json"), ("content-length", length.as_str())];
                        let mut request = http::head("POST", "/v1/batch", &headers).into_bytes();
                        request.extend_from_slice(&body);
                        stream.write_all(&request).expect("sent");
                        assert_eq!(http::read_answer(&mut stream, "POST").expect("an answer").status, 200);
                        answered.lock().expect("lock").insert(id_of(first + nth * EVENTS_PER_BATCH), Instant::now());
                    }
                })
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().expect("sent all"));
        done.store(true, Ordering::Relaxed);
        reader.join().expect("read all")
    });
    let mut histogram = Histogram::new(3).expect("a histogram");
    for (id, answered) in answered.into_inner().expect("lock") {
        let read = read.get(&id).unwrap_or_else(|| panic!("{id} was answered and not read"));
        histogram.record(read.saturating_duration_since(answered).as_millis() as u64).expect("recorded");
    }
    (histogram, batches * EVENTS_PER_BATCH)
}

/// When the first event of each of `batches` batches was read.
fn read_until(cluster: &Cluster, batches: u64, done: &AtomicBool) -> HashMap<String, Instant> {
    let log = KafkaLog::connect(options(cluster)).expect("opens");
    let mut readers = Vec::new();
    for partition in 0..log.partitions(Topic::Trusted) {
        let at = TopicPartition { topic: Topic::Trusted, partition };
        readers.push((at, log.reader(at, log.bounds(at).expect("bounds").end).expect("a reader")));
    }
    let mut seen = HashMap::new();
    let mut patience = Instant::now();
    while (seen.len() as u64) < batches {
        let mut read = 0;
        for (_, reader) in &mut readers {
            let records = reader.read(1 << 20, 10_000).expect("read");
            read += records.len();
            for event in records.iter().filter_map(|record| trusted::decode(record.value.as_ref()?).ok()) {
                if is_first(event.event_id.as_str()) {
                    seen.insert(event.event_id.as_str().to_owned(), Instant::now());
                }
            }
        }
        if !done.load(Ordering::Relaxed) || read > 0 {
            patience = Instant::now();
        }
        assert!(patience.elapsed() < Duration::from_secs(30), "{} of {batches} batches were read", seen.len());
        if read == 0 {
            let positions: Vec<_> = readers.iter().map(|(at, reader)| (*at, reader.position())).collect();
            log.wait_past(&positions, Duration::from_millis(50));
        }
    }
    seen
}

fn id_of(n: u64) -> String {
    format!("ajs-next-1796021382126-{n:012x}-d0cadef8-82e5")
}
/// Whether the event is the first of its batch.
fn is_first(id: &str) -> bool {
    let n = id.split('-').nth(3).and_then(|hex| u64::from_str_radix(hex, 16).ok());
    n.is_some_and(|n| n % EVENTS_PER_BATCH == 0)
}

fn settle(cluster: &Cluster, events: u64) {
    let totals = || Totals::of_metrics(&cluster.roles[ENRICHER].metrics());
    let started = Instant::now();
    while totals().sum() < events {
        assert!(started.elapsed() < Duration::from_secs(300), "{:?} of {events}\n{}", totals(), cluster.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}
