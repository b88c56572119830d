//! What a request costs in the gateway: CPU by thread, per event, with a log and an object store that take everything.
//! `cargo run -p forebay-gateway --example cost -- [requests] [connections] [events a request]`

mod load;

use forebay_gateway::{Config, Gateway};
use load::{Sink, runtime, send};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn main() {
    let argument = |n: usize, default: usize| std::env::args().nth(n).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (requests, connections, events) = (argument(1, 4_000), argument(2, 16), argument(3, 50));
    let folder = std::env::temp_dir().join(format!("forebay-cost-{}", std::process::id()));
    let server = runtime("server");
    let client = runtime("client");
    let mut config = Config { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..Config::default() };
    config.spool.dir = Some(folder.clone());
    let (log, objects) = (Arc::new(Sink::default()), Arc::new(Sink::default()));
    let registry = prometheus::Registry::new();
    let gateway = server.block_on(Gateway::start(config, vec![], log.clone(), objects, &registry)).expect("starts");
    let addr = gateway.addr();

    let before = cpu();
    let begun = Instant::now();
    client.block_on(async {
        let tasks: Vec<_> =
            (0..connections).map(|n| client.spawn(send(addr, n, requests / connections, events, Duration::ZERO, || true))).collect();
        for task in tasks {
            task.await.expect("sends");
        }
    });
    let took = begun.elapsed();
    let expected = (requests / connections * connections * events) as u64;
    while log.records.load(Ordering::Relaxed) < expected {
        std::thread::sleep(Duration::from_millis(5));
    }
    let after = cpu();
    let left = server.block_on(gateway.drain(Duration::from_secs(60)));
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(left.segments, 0);

    let all = log.records.load(Ordering::Relaxed);
    println!("{all} events in {took:?}, {} bytes each on the log; CPU µs per event:", log.bytes.load(Ordering::Relaxed) / all.max(1));
    let mut sum = 0.0;
    for (thread, us) in after {
        let us = (us - before.get(&thread).copied().unwrap_or(0.0)) / all as f64;
        println!("  {thread:<16} {us:>8.3}");
        sum += if thread == "client" { 0.0 } else { us };
    }
    println!("  {:<16} {sum:>8.3}", "gateway");
    let status = std::fs::read_to_string("/proc/self/status").expect("reads");
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
}

/// CPU time of each group of threads, µs.
fn cpu() -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").expect("lists").flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let nanoseconds: f64 = read("schedstat").split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0);
        *all.entry(read("comm").trim().to_owned()).or_insert(0.0) += nanoseconds / 1_000.0;
    }
    all
}
