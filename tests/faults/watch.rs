//! A reader of the trusted topic that looks, at each event, whether its offset is committed (law E4).

use crate::bench::enricher::options;
use crate::harness::cluster::Cluster;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::trusted;
use forebay_stores::log::kafka::KafkaLog;
use forebay_stores::log::{Log, LogError, Reader, TopicPartition};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LANES: i32 = 2;

pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Watch {
    /// Reads from `brokers`, which nobody cuts off from it.
    pub fn start(cluster: &Cluster, brokers: String) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, job) = (stop.clone(), cluster.name.clone());
        let mut options = options(cluster);
        options.brokers = brokers.split(',').map(str::to_owned).collect();
        let log = KafkaLog::connect(options).expect("opens");
        Watch { stop, thread: std::thread::spawn(move || watch(&log, &job, &stopped)) }
    }

    /// How many events it saw; panics if one was ahead of its offset.
    pub fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(seen) => seen,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn watch(log: &dyn Log, job: &str, stop: &AtomicBool) -> u64 {
    let places = (0..log.partitions(Topic::Trusted)).map(|partition| TopicPartition { topic: Topic::Trusted, partition });
    let mut readers: Vec<_> = places.map(|at| (at, insist(|| log.reader(at, log.bounds(at)?.start)))).collect();
    let mut seen = 0;
    loop {
        // Looked at before reading: what was there when it was set is read below.
        let last = stop.load(Ordering::Relaxed);
        let mut newest: BTreeMap<i32, i64> = BTreeMap::new();
        for (at, reader) in &mut readers {
            let records = if last { to_the_end(log, *at, &mut **reader) } else { insist(|| reader.read(1 << 20, 10_000)) };
            for record in &records {
                let event = trusted::decode(record.value.as_ref().expect("a value")).expect("a trusted event");
                let (partition, offset) = (event.provenance.partition, event.provenance.offset);
                assert_eq!(partition, at.partition, "outputs stand in the partition of their inputs");
                newest.entry(partition).and_modify(|newest| *newest = offset.max(*newest)).or_insert(offset);
                seen += 1;
            }
        }
        for (partition, offset) in newest {
            let lane = format!("{job}/{}", partition % LANES);
            let committed = insist(|| log.committed(&lane, TopicPartition { topic: Topic::Harvested, partition }));
            let committed = committed.map_or(0, |committed| committed.offset);
            assert!(committed > offset, "partition {partition}: offset {offset} is visible, but {committed} is committed");
        }
        if last {
            return seen;
        }
        let positions: Vec<_> = readers.iter().map(|(at, reader)| (*at, reader.position())).collect();
        log.wait_past(&positions, Duration::from_millis(100));
    }
}

fn to_the_end(log: &dyn Log, at: TopicPartition, reader: &mut dyn Reader) -> Vec<forebay_stores::log::Record> {
    let end = insist(|| log.bounds(at)).end;
    let mut all = Vec::new();
    loop {
        let records = insist(|| reader.read_to(end, 1 << 20, 10_000));
        if records.is_empty() {
            return all;
        }
        all.extend(records);
    }
}

/// Brokers die while this watches.
fn insist<T>(mut ask: impl FnMut() -> Result<T, LogError>) -> T {
    let began = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(LogError::Io(_)) if began.elapsed() < Duration::from_secs(120) => std::thread::sleep(Duration::from_millis(100)),
            Err(error) => panic!("{error}"),
        }
    }
}
