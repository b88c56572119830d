//! What a record costs on Kafka: appended one by one and in batches, committed by a lane, read again. CPU of this process;
//! the broker, on the same machine, is not counted.
//!
//! `cargo run -p forebay-stores --example kafka_bench -- [records] [bytes] [outputs of a commit] ["name = value" of log.client]`

use bytes::Bytes;
use forebay_schemas::topic::Topic;
use forebay_services::Kafka;
use forebay_stores::config::LogConfig;
use forebay_stores::log::kafka::{KafkaLog, topics};
use forebay_stores::log::{Committed, Entry, Log, TopicPartition, Transaction};
use std::time::{Duration, Instant};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |nth: usize, default: usize| arguments.get(nth).map_or(default, |text| text.parse().expect("a number"));
    let (records, bytes, outputs) = (number(0, 200_000), number(1, 900), number(2, 8_000));
    let client = arguments.get(3).map_or_else(String::new, |line| format!("client = {{ {line} }}\n"));
    let brokers = Kafka::shared().brokers();
    let text = format!("kind = \"kafka\"\nbrokers = [{brokers:?}]\nreplicas = 1\nmin_insync_replicas = 1\n{client}");
    let options = toml::from_str::<LogConfig>(&text).expect("parses").kafka().expect("a log on Kafka");
    topics::apply(&options, false).expect("topics");
    let log = KafkaLog::connect(options).expect("connected");

    let at = |topic, nth: usize| TopicPartition { topic, partition: nth as i32 % 4 };
    let entry = |nth: usize| {
        // Half of it does not compress.
        let mut noise = nth as u64 + 1;
        let value = (0..bytes).map(|place| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if place % 2 == 0 { (noise >> 56) as u8 } else { b'x' }
        });
        Entry { key: Bytes::from(format!("anonymous-{:012}", nth % 5_000)), value: Some(value.collect()), headers: Vec::new() }
    };
    let many: Vec<(TopicPartition, Entry)> = (0..outputs).map(|nth| (at(Topic::Trusted, nth), entry(nth))).collect();
    let to_append =
        |first: usize, count: usize| (first..first + count).map(|nth| (at(Topic::Harvested, nth), many[nth % outputs].1.clone()));
    log.append(to_append(0, 100).collect()).expect("warm");

    let mut each = Vec::new();
    for nth in 0..500 {
        let began = Instant::now();
        log.append(to_append(nth, 1).collect()).expect("append");
        each.push(began.elapsed());
    }
    print_times("append of one record", &mut each);
    let (began, spent) = (Instant::now(), cpu());
    for first in (0..records).step_by(2_000) {
        let began = Instant::now();
        log.append(to_append(first, 2_000).collect()).expect("append");
        each.push(began.elapsed());
    }
    print_times("append of 2,000 records", &mut each);
    print_rate("appended", records, began.elapsed(), cpu() - spent);

    let mut lane = log.lane("bench/0").expect("lane");
    let (began, spent) = (Instant::now(), cpu());
    let commits = records.div_ceil(outputs).max(10);
    for seq in 0..commits {
        let offsets = (0..4).map(|nth| (at(Topic::Harvested, nth), Committed { offset: seq as i64, metadata: format!("seq={seq}") }));
        let transaction = Transaction { outputs: many.clone(), offsets: offsets.collect() };
        let began = Instant::now();
        lane.commit(transaction).expect("commit");
        each.push(began.elapsed());
    }
    print_times(&format!("commit of {outputs} outputs"), &mut each);
    print_rate("committed", commits * outputs, began.elapsed(), cpu() - spent);
    for seq in 0..200 {
        let offsets = vec![(at(Topic::Harvested, 0), Committed { offset: seq, metadata: String::new() })];
        let transaction = Transaction { outputs: many[..10].to_vec(), offsets };
        let began = Instant::now();
        lane.commit(transaction).expect("commit");
        each.push(began.elapsed());
    }
    print_times("commit of 10 outputs", &mut each);

    let (began, spent, mut read) = (Instant::now(), cpu(), 0);
    for partition in 0..4 {
        let end = log.bounds(at(Topic::Trusted, partition)).expect("bounds").end;
        let mut reader = log.reader(at(Topic::Trusted, partition), 0).expect("reader");
        loop {
            let records = reader.read_to(end, 1 << 20, usize::MAX).expect("read");
            if records.is_empty() {
                break;
            }
            read += records.len();
        }
    }
    print_rate("read", read, began.elapsed(), cpu() - spent);
}

/// User and system time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let ticks: u64 =
        stat.rsplit(')').next().expect("fields").split(' ').skip(12).take(2).map(|field| field.parse::<u64>().expect("ticks")).sum();
    Duration::from_millis(ticks * 10)
}

fn print_times(what: &str, each: &mut Vec<Duration>) {
    each.sort();
    let (p50, p99) = (each[each.len() / 2], each[each.len() * 99 / 100]);
    println!("{what:<28} p50 {:>8.1} ms   p99 {:>8.1} ms", p50.as_secs_f64() * 1e3, p99.as_secs_f64() * 1e3);
    each.clear();
}

fn print_rate(what: &str, records: usize, took: Duration, spent: Duration) {
    let million = records as f64 / 1e6;
    let (wall, cpu) = (records as f64 / took.as_secs_f64() / 1e3, spent.as_secs_f64() / million);
    println!("{what:<28} {wall:>8.0} k records/s   {cpu:>6.2} s of CPU a million");
}
