//! What an outage of the log costs: how fast the backlog goes out afterwards, and how long new requests wait meanwhile.
//! `cargo run -p forebay-gateway --example backlog -- [ms an append takes] [seconds of a phase] [MiB of backlog] [broker]`

mod load;

use forebay_gateway::{Config, Gateway};
use forebay_stores::config::{LogConfig, LogKind};
use forebay_stores::log::kafka::KafkaLog;
use load::{Sink, runtime, send};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 8;
const EVENTS: usize = 50;

fn main() {
    let argument = |n: usize, default: u64| std::env::args().nth(n).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (takes_ms, seconds, backlog) = (argument(1, 10), argument(2, 5), argument(3, 300) << 20);
    let folder = std::env::temp_dir().join(format!("forebay-backlog-{}", std::process::id()));
    let server = runtime("server");
    let client = runtime("client");
    let mut config = Config { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..Config::default() };
    config.spool.dir = Some(folder.clone());
    let sink = Sink { kafka: std::env::args().nth(4).map(kafka), ..Sink::default() };
    let (log, objects, registry) = (Arc::new(sink), Arc::new(Sink::default()), prometheus::Registry::new());
    log.takes_ms.store(takes_ms, Ordering::Relaxed);
    let gateway = server.block_on(Gateway::start(config, vec![], log.clone(), objects, &registry)).expect("starts");
    let addr = gateway.addr();
    let gauge = |name: &str| registry.gather().iter().find(|f| f.name() == name).map_or(0.0, |f| f.get_metric()[0].get_gauge().get_value());
    let behind = || gauge("forebay_gateway_backlog_bytes");
    // Sends at `rate` events a second (0: as fast as it goes) until `holds` is false: events, how long it took, waits.
    let phase = |name: &str, rate: u64, holds: &dyn Fn() -> bool| {
        let goes_on = Arc::new(AtomicBool::new(true));
        let every = Duration::from_secs_f64(if rate == 0 { 0.0 } else { (CONNECTIONS * EVENTS) as f64 / rate as f64 });
        let (begun, records, appends) = (Instant::now(), log.records.load(Ordering::Relaxed), log.appends.load(Ordering::Relaxed));
        let tasks: Vec<_> = (0..CONNECTIONS)
            .map(|n| {
                let goes_on = goes_on.clone();
                client.spawn(send(addr, n, usize::MAX, EVENTS, every, move || goes_on.load(Ordering::Relaxed)))
            })
            .collect();
        while holds() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (took, left) = (begun.elapsed().as_secs_f64(), behind());
        let records = log.records.load(Ordering::Relaxed) - records;
        let appends = log.appends.load(Ordering::Relaxed) - appends;
        goes_on.store(false, Ordering::Relaxed);
        let mut waits: Vec<Duration> = tasks.into_iter().flat_map(|task| client.block_on(task).expect("sends")).collect();
        waits.sort();
        let at = |share: f64| waits.get((waits.len() as f64 * share) as usize).map_or(0.0, |wait| wait.as_secs_f64() * 1e3);
        let acked = (waits.len() * EVENTS) as f64 / took;
        println!(
            "{name:<22} {took:>6.1} s  acked {acked:>7.0}/s  on the log {:>7.0}/s in {appends:>5} appends  wait p50 {:>5.1} p99 {:>6.1} max {:>6.1} ms  left {:>5.0} MiB",
            records as f64 / took,
            at(0.5),
            at(0.99),
            at(1.0 - f64::EPSILON),
            left / f64::from(1 << 20),
        );
        acked
    };

    let lasts = |begun: Instant| move || begun.elapsed() < Duration::from_secs(seconds);
    phase("warm", 0, &lasts(Instant::now()));
    let steady = phase("log up, full load", 0, &lasts(Instant::now()));
    let third = (steady / 3.0) as u64;
    phase("log up, a third", third, &lasts(Instant::now()));
    log.down.store(true, Ordering::Relaxed);
    phase("log down, full load", 0, &|| behind() < backlog as f64);
    phase("log down, a third", third, &lasts(Instant::now()));
    log.down.store(false, Ordering::Relaxed);
    phase("catching up, a third", third, &|| behind() > f64::from(1 << 20));
    phase("log up, a third", third, &lasts(Instant::now()));
    let left = server.block_on(gateway.drain(Duration::from_secs(60)));
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(left.segments, 0);
    let status = std::fs::read_to_string("/proc/self/status").expect("reads");
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
}

/// With topics of one copy: of a broker on this machine.
fn kafka(broker: String) -> KafkaLog {
    let config = LogConfig { kind: LogKind::Kafka, brokers: vec![broker], ..LogConfig::default() };
    KafkaLog::connect(config.kafka().expect("a configuration")).expect("connects")
}
