//! What a record costs on the embedded log: appended in synced batches, read at once by a consumer that keeps up, read
//! again later from disk. CPU of the whole process, so flushes and compactions count.
//!
//! `cargo run -p forebay-stores --example log_bench -- [records] [bytes] [batch] [folder]`

use bytes::Bytes;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use forebay_stores::log::embedded::{EmbeddedLog, EmbeddedOptions};
use forebay_stores::log::{Committed, Entry, Log, Reader, TopicPartition, Transaction};
use std::path::PathBuf;
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |nth: usize, default: usize| arguments.get(nth).map_or(default, |text| text.parse().expect("a number"));
    let (records, bytes, batch) = (number(0, 1_000_000), number(1, 900), number(2, 500));
    let dir = arguments.get(3).map_or_else(|| std::env::temp_dir().join(format!("log-bench-{}", std::process::id())), PathBuf::from);
    let log = EmbeddedLog::open(&dir, EmbeddedOptions::default()).expect("open");
    let partitions: Vec<TopicPartition> = (0..4).map(|partition| TopicPartition { topic: Topic::Harvested, partition }).collect();
    let events: Vec<Bytes> = (0..1_000u64).map(|nth| event(nth, bytes)).collect();

    let make = |nth: usize, at: TopicPartition| {
        let entry = Entry {
            key: Bytes::from(format!("anonymous-{:012}", nth % 5_000)),
            value: Some(events[nth % events.len()].clone()),
            headers: Vec::new(),
        };
        (at, entry)
    };
    let mut readers: Vec<Box<dyn Reader>> = partitions.iter().map(|at| log.reader(*at, 0).expect("reader")).collect();
    let mut measure = Measure::begin();
    let (mut append, mut read) = (Spent::default(), Spent::default());
    let mut batches: Vec<_> = Vec::new();
    for first in (0..records).step_by(batch) {
        batches.push((first..first + batch).map(|nth| make(nth, partitions[nth % 4])).collect::<Vec<_>>());
        if batches.len() < 20 {
            continue;
        }
        let made = std::mem::take(&mut batches);
        measure.lap();
        for batch in made {
            log.append(batch).expect("append");
        }
        append += measure.lap();
        for reader in &mut readers {
            while !reader.read(1 << 20, usize::MAX).expect("read").is_empty() {}
        }
        read += measure.lap();
    }
    append.print("append, synced each batch", records);
    read.print("read by one who keeps up", records);

    measure.lap();
    for at in &partitions {
        let mut reader = log.reader(*at, 0).expect("reader");
        while !reader.read(1 << 20, usize::MAX).expect("read").is_empty() {}
    }
    measure.lap().print("read again, all", records);

    let mut lane = log.lane("bench/0").expect("lane");
    let (mut commit, commits) = (Spent::default(), records / 4 / 2_000);
    for nth in 0..commits {
        let trusted = |nth| make(nth, TopicPartition { topic: Topic::Trusted, partition: 0 });
        let outputs = (0..2_000).map(trusted).collect();
        let offsets = vec![(partitions[0], Committed { offset: nth as i64, metadata: format!("seq={nth}") })];
        measure.lap();
        lane.commit(Transaction { outputs, offsets }).expect("commit");
        commit += measure.lap();
    }
    commit.print("commit of 2,000 outputs", commits * 2_000);
    drop((lane, readers));

    println!("{:28} {:>8} MiB", "on disk", disk(&dir) >> 20);
    println!("{:28} {:>8} MiB", "largest resident set", status_kib("VmHWM:") >> 10);
    measure.lap();
    log.retain(Micros(i64::MAX), &|_| None).expect("retain");
    drop(log);
    measure.lap().print("retain everything, close", records);
    let log = EmbeddedLog::open(&dir, EmbeddedOptions::default()).expect("open");
    measure.lap().print("open", records);
    println!("{:28} {:>8} MiB", "on disk", disk(&dir) >> 20);
    drop(log);
    std::fs::remove_dir_all(&dir).expect("remove");
}

/// Looks like an event: JSON names that repeat, values that do not.
fn event(seed: u64, bytes: usize) -> Bytes {
    let mut noise = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::from("{\"type\":\"track\",\"event\":\"Product Viewed\",\"properties\":{");
    while text.len() + 60 < bytes {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text += &format!("\"property_{}\":\"{:016x}\",\"currency\":\"EUR\",", noise % 12, noise);
    }
    while text.len() + 2 < bytes {
        text.push(' ');
    }
    text += "}}";
    Bytes::from(text)
}

#[derive(Default, Clone, Copy)]
struct Spent {
    wall_us: u128,
    cpu_us: u128,
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Spent) {
        self.wall_us += other.wall_us;
        self.cpu_us += other.cpu_us;
    }
}

impl Spent {
    fn print(self, what: &str, records: usize) {
        let each = |us: u128| us as f64 / records.max(1) as f64;
        println!(
            "{what:28} {:>8.2} µs CPU {:>8.2} µs wall a record ({} ms in all)",
            each(self.cpu_us),
            each(self.wall_us),
            self.wall_us / 1_000
        );
    }
}

struct Measure {
    wall: Instant,
    cpu_us: u128,
}

impl Measure {
    fn begin() -> Measure {
        Measure { wall: Instant::now(), cpu_us: cpu_us() }
    }
    fn lap(&mut self) -> Spent {
        let now = Measure::begin();
        let spent = Spent { wall_us: (now.wall - self.wall).as_micros(), cpu_us: now.cpu_us - self.cpu_us };
        *self = now;
        spent
    }
}

/// Of all threads that run now (RocksDB's live as long as the process).
fn cpu_us() -> u128 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let nanos = tasks.filter_map(|task| {
        let schedstat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        schedstat.split(' ').next()?.parse::<u128>().ok()
    });
    nanos.sum::<u128>() / 1_000
}

fn status_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

fn disk(dir: &std::path::Path) -> u64 {
    std::fs::read_dir(dir).map_or(0, |files| files.filter_map(|file| file.ok()?.metadata().ok()).map(|meta| meta.len()).sum())
}
