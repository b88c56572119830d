//! What a request costs in the gateway: CPU by thread, per event, with a log and an object store that take everything.
//! `cargo run -p forebay-gateway --example cost -- [requests] [connections] [events a request]`

use forebay_gateway::{Config, Gateway};
use forebay_schemas::topic::Topic;
use forebay_stores::log::{Bounds, Committed, Entry, Lane, Log, LogError, Reader, TopicPartition};
use forebay_stores::objects::{Content, ObjectInfo, Objects, ObjectsError, Put};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Default)]
struct Sink {
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Log for Sink {
    fn partitions(&self, _: Topic) -> i32 {
        4
    }
    fn topic_id(&self, _: Topic) -> Result<String, LogError> {
        Ok(String::new())
    }
    fn append(&self, entries: Vec<(TopicPartition, Entry)>) -> Result<(), LogError> {
        let values = || entries.iter().filter_map(|(_, entry)| entry.value.as_ref());
        self.records.fetch_add(values().count() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(values().map(|value| value.len() as u64).sum(), Ordering::Relaxed);
        Ok(())
    }
    fn bounds(&self, _: TopicPartition) -> Result<Bounds, LogError> {
        Ok(Bounds { start: 0, end: 0 })
    }
    fn reader(&self, _: TopicPartition, _: i64) -> Result<Box<dyn Reader>, LogError> {
        Err(LogError::Io("nothing is kept".to_owned()))
    }
    fn lane(&self, _: &str) -> Result<Box<dyn Lane>, LogError> {
        Err(LogError::Io("nothing is kept".to_owned()))
    }
    fn committed(&self, _: &str, _: TopicPartition) -> Result<Option<Committed>, LogError> {
        Ok(None)
    }
    fn wait_past(&self, _: &[(TopicPartition, i64)], _: Duration) {}
}

impl Objects for Sink {
    fn put_if_absent(&self, _: &str, _: Content<'_>) -> Result<Put, ObjectsError> {
        Ok(Put::Created)
    }
    fn get(&self, name: &str) -> Result<Vec<u8>, ObjectsError> {
        Err(ObjectsError::NotFound(name.to_owned()))
    }
    fn get_range(&self, name: &str, _: Range<u64>) -> Result<Vec<u8>, ObjectsError> {
        Err(ObjectsError::NotFound(name.to_owned()))
    }
    fn size(&self, name: &str) -> Result<u64, ObjectsError> {
        Err(ObjectsError::NotFound(name.to_owned()))
    }
    fn delete(&self, _: &str) -> Result<(), ObjectsError> {
        Ok(())
    }
    fn list(&self, _: &str, _: Option<&str>, _: usize) -> Result<Vec<ObjectInfo>, ObjectsError> {
        Ok(Vec::new())
    }
}

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
        let tasks: Vec<_> = (0..connections).map(|n| client.spawn(send(addr, n, requests / connections, events))).collect();
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

fn runtime(name: &str) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name(name).enable_all().build().expect("a runtime")
}

async fn send(addr: SocketAddr, connection: usize, requests: usize, events: usize) {
    let mut stream = TcpStream::connect(addr).await.expect("connects");
    stream.set_nodelay(true).expect("a socket");
    let mut answer = vec![0; 1 << 16];
    for n in 0..requests {
        let body = batch(connection, n, events);
        let head =
            format!("POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.expect("sends");
        let length = stream.read(&mut answer).await.expect("an answer");
        assert!(answer[..length].starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer[..length]));
    }
}

/// Events of about 600 bytes, as Segment's SDKs send them.
fn batch(connection: usize, request: usize, events: usize) -> String {
    let event = |n: usize| {
        format!(
            r#"{{"timestamp":"2026-11-30T06:48:29.348Z","integrations":{{}},"event":"Product Clicked","type":"track","properties":{{"product_id":"p-{n}","category":"shoes","price":{n}.5,"currency":"EUR","position":{n},"list_id":"spring"}},"anonymousId":"6f1c{connection:04x}-{request:04x}-4c1b-9a55-0d2f5b7c{n:04x}","messageId":"node-next-{connection}-{request}-{n}-6a0f6ef9-2a7d-4a1f-9b1e","context":{{"library":{{"name":"@segment/analytics-node","version":"2.3.0"}},"page":{{"url":"https://shop.example/p/{n}?q=1","title":"Product {n}"}},"locale":"de-DE"}},"_metadata":{{"nodeVersion":"20.1.0","jsRuntime":"node"}}}}"#
        )
    };
    let all: Vec<String> = (0..events).map(event).collect();
    format!(r#"{{"batch":[{}],"writeKey":"wk_demo","sentAt":"2026-11-30T06:48:29.350Z"}}"#, all.join(","))
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
