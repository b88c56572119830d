//! `./x bench path`: CPU an event through the whole path, beside a floor of the same run. `enricher`, `latency`, `windows`: on Kafka.
//!
//! The floor is what any honest gateway and enricher must pay: read the body over HTTP, append it to a file and fsync, and for each event
//! one RocksDB get, one put and one plain append. It is frozen: tuning the product must not touch it.
//! Load: batches of 50 Segment events of about 600 bytes, fresh ids, over four connections, from this process (not counted).

pub mod enricher;
mod latency;
mod windows;

use crate::harness::{Dev, System, http};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const EVENTS_PER_BATCH: u64 = 50;
const CONNECTIONS: u64 = 4;
/// Clock ticks of /proc (USER_HZ) in a second: 100 on every Linux that we run on.
const TICKS: f64 = 100.0;

fn wanted(name: &str) -> bool {
    std::env::var("FOREBAY_SUITE").is_ok_and(|suite| suite == "bench")
        && std::env::var("FOREBAY_BENCH").map_or(true, |b| b.is_empty() || b == name)
}

fn event(n: u64) -> String {
    json!({"timestamp": "2026-11-30T06:49:42.126Z", "type": "track", "event": "Product Clicked", "messageId": format!("ajs-next-1796021382126-{n:012x}-d0cadef8-82e5"), "anonymousId": format!("e7916ca1-d0ca-4ef8-82e5-{:012x}", n % 5_000),
           "userId": format!("u-{}", n % 5_000), "properties": {"i": n % 100, "price": 19.99, "name": "Running shoe, blue", "product_id": format!("sku-{}", n % 900), "category": "Shoes", "position": 3},
           "context": {"page": {"path": "/shop/shoes", "referrer": "", "title": "Shop", "url": "https://shop.example/shop/shoes?utm_source=mail"}, "locale": "en-US", "library": {"name": "analytics.js", "version": "npm:next-1.84.3"}, "timezone": "UTC"}})
    .to_string()
}

fn batch(first: u64) -> Vec<u8> {
    let items: Vec<String> = (first..first + EVENTS_PER_BATCH).map(event).collect();
    format!("{{\"batch\":[{}],\"writeKey\":\"wk_bench\",\"sentAt\":\"2026-11-30T06:49:43.000Z\"}}", items.join(",")).into_bytes()
}

/// Sends `events` events to `address`; every answer must be 200.
fn load(address: &str, events: u64) {
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            scope.spawn(move || {
                let mut stream = http::connect(address).expect("connects");
                let share = events / CONNECTIONS;
                for first in (connection * share..(connection + 1) * share).step_by(EVENTS_PER_BATCH as usize) {
                    let body = batch(first);
                    let length = body.len().to_string();
                    let mut request =
                        http::head("POST", "/v1/batch", &[("content-type", "application/json"), ("content-length", &length)]).into_bytes();
                    request.extend_from_slice(&body);
                    stream.write_all(&request).expect("sent");
                    assert_eq!(http::read_answer(&mut stream, "POST").expect("an answer").status, 200);
                }
            });
        }
    });
}

/// User and system seconds of a process, whole and by thread name.
fn cpu(pid: u32) -> (f64, BTreeMap<String, f64>) {
    let parse = |path: String| -> Option<(String, f64)> {
        let text = std::fs::read_to_string(path).ok()?;
        let (head, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let ticks: f64 = fields[11].parse::<f64>().ok()? + fields[12].parse::<f64>().ok()?;
        Some((head.split_once('(')?.1.to_owned(), ticks / TICKS))
    };
    let whole = parse(format!("/proc/{pid}/stat")).expect("running").1;
    let mut threads = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).expect("running") {
        if let Some((name, seconds)) = parse(task.expect("an entry").path().join("stat").to_string_lossy().into_owned()) {
            *threads.entry(name).or_default() += seconds;
        }
    }
    (whole, threads)
}

struct Floor {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Floor {
    /// This test binary again, as the floor's server, so that its CPU is its own.
    fn start() -> Floor {
        let folder = tempfile::tempdir().expect("a folder");
        let address = crate::harness::free_address();
        let child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["bench::floor_server", "--exact", "--nocapture"])
            .env("FOREBAY_FLOOR", &address)
            .env("FOREBAY_FLOOR_DIR", folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("starts");
        let started = Instant::now();
        while TcpStream::connect(&address).is_err() {
            assert!(started.elapsed() < Duration::from_secs(10), "the floor does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Floor { child, address, _folder: folder }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The floor. Does nothing unless it was started as one.
#[test]
fn floor_server() {
    let Ok(address) = std::env::var("FOREBAY_FLOOR") else { return };
    let folder = std::path::PathBuf::from(std::env::var("FOREBAY_FLOOR_DIR").expect("a folder"));
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    let db = rocksdb::DB::open(&options, folder.join("db")).expect("opens");
    let append = |name: &str| std::fs::OpenOptions::new().create(true).append(true).open(folder.join(name)).expect("opens");
    let (spool, log) = (append("spool"), append("log"));
    let listener = TcpListener::bind(address).expect("binds");
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            let (db, spool, log) = (&db, &spool, &log);
            scope.spawn(move || floor_connection(stream.expect("a connection"), db, spool, log));
        }
    });
}

fn floor_connection(mut stream: TcpStream, db: &rocksdb::DB, mut spool: &std::fs::File, mut log: &std::fs::File) {
    let mut bytes = Vec::new();
    let mut chunk = vec![0u8; 64 << 10];
    loop {
        let head = loop {
            if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            match stream.read(&mut chunk) {
                Ok(0) | Err(_) => return,
                Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            }
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
        let length: usize =
            text.split("content-length: ").nth(1).and_then(|t| t.split('\r').next()).and_then(|t| t.parse().ok()).expect("a length");
        while bytes.len() < head + length {
            let n = stream.read(&mut chunk).expect("the body");
            bytes.extend_from_slice(&chunk[..n]);
        }
        let body = &bytes[head..head + length];
        spool.write_all(body).expect("appends");
        spool.sync_data().expect("syncs");
        let share = body.len() / EVENTS_PER_BATCH as usize;
        for event in body.chunks_exact(share).take(EVENTS_PER_BATCH as usize) {
            // The event's own bytes as its key: 16 of them, hashed apart, as a dedup key is.
            let key = crc(event);
            if db.get(key).expect("reads").is_none() {
                db.put(key, [0u8; 16]).expect("writes");
            }
            log.write_all(event).expect("appends");
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").expect("answers");
        bytes.drain(..head + length);
    }
}

fn crc(event: &[u8]) -> [u8; 16] {
    use sha2::Digest;
    let hash = sha2::Sha256::digest(event);
    hash[..16].try_into().expect("16 of 32 bytes")
}

#[test]
fn path() {
    if !wanted("path") {
        return;
    }
    let events = 200_000;
    let floor = Floor::start();
    load(&floor.address, 10_000);
    let before = cpu(floor.child.id()).0;
    load(&floor.address, events);
    let floor_us = (cpu(floor.child.id()).0 - before) / events as f64 * 1e6;
    drop(floor);

    let dev = Dev::fresh();
    load(&dev.listen, 10_000);
    settle(&dev, 10_000);
    let (before, threads_before) = cpu(dev.pid());
    let started = Instant::now();
    load(&dev.listen, events);
    settle(&dev, events + 10_000);
    let wall = started.elapsed();
    std::thread::sleep(Duration::from_secs(6));
    let (after, threads) = cpu(dev.pid());
    let path_us = (after - before) / events as f64 * 1e6;
    println!(
        "floor {floor_us:.1} µs CPU an event; path {path_us:.1} µs; ratio {:.2} (bound 5); {:.0} events/s",
        path_us / floor_us,
        events as f64 / wall.as_secs_f64()
    );
    println!("| thread | µs an event | of the path |\n|---|---|---|");
    let mut rows: Vec<(String, f64)> = threads
        .iter()
        .map(|(name, s)| (name.clone(), (s - threads_before.get(name).copied().unwrap_or(0.0)) / events as f64 * 1e6))
        .collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (name, us) in rows.iter().filter(|(_, us)| *us >= 0.05) {
        println!("| {name} | {us:.2} | {:.0} % |", us / path_us * 100.0);
    }
    assert!(path_us <= 5.0 * floor_us, "the path costs more than five floors");
}

fn settle(dev: &Dev, events: u64) {
    let started = Instant::now();
    while dev.totals().sum() < events {
        assert!(started.elapsed() < Duration::from_secs(300), "{:?} of {events}\n{}", dev.totals(), dev.log());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// RSS stays under 400 MB while a million events pass.
#[test]
fn memory() {
    if !(wanted("memory") || crate::harness::soak()) {
        return;
    }
    let events = 1_000_000;
    let dev = Dev::fresh();
    load(&dev.listen, events);
    settle(&dev, events);
    let status = std::fs::read_to_string(format!("/proc/{}/status", dev.pid())).expect("running");
    let peak: u64 = status
        .lines()
        .find(|l| l.starts_with("VmHWM"))
        .and_then(|l| l.split_whitespace().nth(1))
        .and_then(|n| n.parse().ok())
        .expect("VmHWM");
    println!("peak RSS {} MiB after {events} events", peak >> 10);
    assert!(peak < 400 << 10, "peak RSS {} MiB", peak >> 10);
}
