//! What the examples share: a log and an object store that take everything, and a sender of Segment's batches.

#![allow(dead_code, reason = "each example uses a part of it")]

use forebay_schemas::topic::Topic;
use forebay_stores::log::kafka::KafkaLog;
use forebay_stores::log::{Bounds, Committed, Entry, Lane, Log, LogError, Reader, TopicPartition};
use forebay_stores::objects::{Content, ObjectInfo, Objects, ObjectsError, Put};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Default)]
pub struct Sink {
    pub records: AtomicU64,
    pub bytes: AtomicU64,
    pub appends: AtomicU64,
    /// Of one append, ms.
    pub takes_ms: AtomicU64,
    pub down: AtomicBool,
    /// Where it goes on to, if anywhere.
    pub kafka: Option<KafkaLog>,
}

impl Log for Sink {
    fn partitions(&self, _: Topic) -> i32 {
        4
    }
    fn topic_id(&self, _: Topic) -> Result<String, LogError> {
        Ok(String::new())
    }
    fn append(&self, entries: Vec<(TopicPartition, Entry)>) -> Result<(), LogError> {
        std::thread::sleep(Duration::from_millis(self.takes_ms.load(Ordering::Relaxed)));
        if self.down.load(Ordering::Relaxed) {
            return Err(LogError::Io("down".to_owned()));
        }
        self.appends.fetch_add(1, Ordering::Relaxed);
        let values = || entries.iter().filter_map(|(_, entry)| entry.value.as_ref());
        let (records, bytes) = (values().count() as u64, values().map(|value| value.len() as u64).sum());
        self.kafka.as_ref().map_or(Ok(()), |kafka| kafka.append(entries))?;
        self.records.fetch_add(records, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
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

pub fn runtime(name: &str) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name(name).enable_all().build().expect("a runtime")
}

/// Sends until `requests` are answered or `goes_on` says no, at most one each `every`; how long each waited for its answer.
pub async fn send(
    addr: SocketAddr,
    connection: usize,
    requests: usize,
    events: usize,
    every: Duration,
    goes_on: impl Fn() -> bool,
) -> Vec<Duration> {
    let mut stream = TcpStream::connect(addr).await.expect("connects");
    stream.set_nodelay(true).expect("a socket");
    let mut answer = vec![0; 1 << 16];
    let mut waits = Vec::new();
    let mut due = Instant::now();
    for n in 0..requests {
        if !goes_on() {
            break;
        }
        tokio::time::sleep_until(due.into()).await;
        due += every;
        let body = batch(connection, n, events);
        let head =
            format!("POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        let begun = Instant::now();
        stream.write_all(format!("{head}{body}").as_bytes()).await.expect("sends");
        let length = stream.read(&mut answer).await.expect("an answer");
        assert!(answer[..length].starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer[..length]));
        waits.push(begun.elapsed());
    }
    waits
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
