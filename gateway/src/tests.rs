//! The gateway as a client sees it: real sockets and files, a log and an object store that fail on demand.

use crate::config::{Config, SourceConfig};
use crate::find;
use crate::gateway::{Gateway, Leftover};
use crate::testing::{Disk, DiskFault, FakeLog, FakeObjects, LogFault};
use forebay_schemas::limit;
use forebay_schemas::quantity::{Size, Span};
use forebay_schemas::wire::raw_request::RawRequest;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

mod acks;
mod backlog;

struct Rig {
    gateway: Gateway,
    log: Arc<FakeLog>,
    objects: Arc<FakeObjects>,
    disk: Disk,
    registry: prometheus::Registry,
}

impl Rig {
    async fn start(path: &Path) -> Rig {
        Rig::start_with(path, vec![], |_| {}, Arc::default(), Arc::default()).await
    }

    async fn start_with(
        path: &Path,
        sources: Vec<SourceConfig>,
        change: impl FnOnce(&mut Config),
        log: Arc<FakeLog>,
        objects: Arc<FakeObjects>,
    ) -> Rig {
        let mut config = Config { listen: SocketAddr::from(([127, 0, 0, 1], 0)), name: Some("g1".to_owned()), ..Config::default() };
        config.spool.dir = Some(path.to_owned());
        change(&mut config);
        let (disk, registry) = (Disk::new(), prometheus::Registry::new());
        let started = Gateway::start_on(config, sources, log.clone(), objects.clone(), &registry, Arc::new(disk.clone()));
        Rig { gateway: started.await.expect("starts"), log, objects, disk, registry }
    }

    /// Sends on a connection of its own and reads until the gateway closes it.
    async fn send(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.gateway.addr()).await.expect("connects");
        stream.write_all(request).await.expect("sends");
        answer(&mut stream).await
    }

    async fn events(&self, ids: &[&str]) -> String {
        self.send(&post("/v1/events", "", batch(ids).as_bytes())).await
    }

    async fn drain(self) -> Leftover {
        self.gateway.drain(Duration::from_secs(20)).await
    }

    fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().filter(|family| family.name() == name);
        family.flat_map(|family| family.get_metric()).map(|m| m.get_counter().get_value() + m.get_gauge().get_value()).sum()
    }
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let reading = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes));
    reading.await.expect("an answer in time").expect("reads");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn head(path: &str, headers: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nOrigin: https://shop.example\r\nConnection: close\r\n{headers}")
}

fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!("{}Content-Length: {}\r\n\r\n", head(path, headers), body.len()).into_bytes();
    request.extend_from_slice(body);
    request
}

fn batch(ids: &[&str]) -> String {
    let event = |id: &&str| format!(r#"{{"event_id":"{id}","event_type":"page_viewed","anonymous_id":"a-{id}"}}"#);
    format!("[{}]", ids.iter().map(event).collect::<Vec<_>>().join(","))
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next().unwrap_or("");
    head.lines().find_map(|line| line.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

#[track_caller]
fn check(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "expected {status}: {answer}");
    assert!(header(answer, "forebay-request-id").is_some_and(|id| id.len() == 36), "{answer}");
    assert_eq!(header(answer, "access-control-allow-origin"), Some("https://shop.example"), "{answer}");
    assert_eq!(header(answer, "retry-after").is_some(), status == 503, "{answer}");
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn landed(rig: &FakeObjects, spool: &Path) -> Vec<RawRequest> {
    let all = find::requests(spool, rig, &|_| true, None, None).expect("reads");
    all.into_iter().map(|found| found.raw).collect()
}

#[tokio::test]
async fn kept_published_landed_and_deleted() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::start(folder.path()).await;
    let first = rig.events(&["e1", "e2"]).await;
    check(&first, 200);
    check(&rig.events(&["e3"]).await, 200);
    let (log, objects) = (rig.log.clone(), rig.objects.clone());
    assert_eq!(rig.metric("forebay_gateway_events_accepted_total"), 3.0);
    assert_eq!(rig.drain().await, Leftover { segments: 0, bytes: 0 });

    assert_eq!(log.ids(), ["e1", "e2", "e3"]);
    let raws = landed(&objects, folder.path());
    assert_eq!(raws.iter().map(|raw| raw.request_id.to_string()).next().as_deref(), header(&first, "forebay-request-id"));
    assert_eq!(raws[0].body, batch(&["e1", "e2"]).as_bytes());
    assert_eq!(raws[0].client_ip.as_deref(), Some("127.0.0.1"));
    let newest = raws[1].received_at.0;
    let ticks = log.ticks();
    assert_eq!(ticks.iter().rev().take(4).map(|(partition, _)| *partition).collect::<Vec<_>>(), [3, 2, 1, 0]);
    assert!(ticks.last().is_some_and(|(_, through)| *through >= newest), "the last tick is past the last request");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("lists").map(|e| e.expect("entry").file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with("avro") && !name.to_string_lossy().ends_with("ledger")), "{left:?}");
}

/// What never becomes a request for us is answered by the protocol layer, and must read like our answers all the same.
#[tokio::test]
async fn refusals_of_the_protocol_layer_have_reason_and_cors() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::start(folder.path()).await;
    let get = |target: &str, headers: &str| format!("GET {target} HTTP/1.1\r\nHost: x\r\n{headers}Origin: https://shop.example\r\n\r\n");
    let long = |length: usize| format!("/i?e=pv&x={}", "y".repeat(length - "/i?e=pv&x=".len()));
    for (request, status, reason) in [
        (get(&long(limit::TARGET_BYTES + 1), ""), 414, "target_too_long"),
        (get(&long(100 << 10), ""), 414, "target_too_long"),
        (get("/v1/limits", &"a: b\r\n".repeat(300)), 431, "headers_too_large"),
        (get("/v1/limits", "a b: c\r\n"), 400, ""),
    ] {
        let answer = rig.send(request.as_bytes()).await;
        check(&answer, status);
        let body = answer.split_once("\r\n\r\n").expect("a head").1;
        assert_eq!(header(&answer, "content-length"), Some(&*body.len().to_string()), "{answer}");
        assert!(body.contains(reason), "{answer}");
    }
    assert_eq!(rig.metric("forebay_gateway_events_refused_total"), 3.0);
    let taken = rig.send(get(&long(limit::TARGET_BYTES), "Connection: close\r\n").as_bytes()).await;
    check(&taken, 200);
    rig.drain().await;
}

#[tokio::test]
async fn a_tick_never_leads_what_is_published() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::start(folder.path()).await;
    until("an idle tick", || rig.log.ticks().len() >= 4).await;
    rig.log.set(LogFault::Fails);
    check(&rig.events(&["e1"]).await, 200);
    until("refused appends", || rig.log.failed.load(Ordering::SeqCst) > 3).await;
    rig.log.set(LogFault::Works);
    until("published", || rig.log.ids().contains(&"e1".to_owned())).await;
    let (log, objects) = (rig.log.clone(), rig.objects.clone());
    assert_eq!(rig.drain().await.segments, 0);
    let received = landed(&objects, folder.path())[0].received_at.0;
    let entries = log.entries.lock();
    let event = entries.iter().rposition(|(_, entry)| entry.value.is_some()).expect("published");
    for (_, tick) in entries[..event].iter().filter(|(_, entry)| entry.value.is_none()) {
        let through: i64 = std::str::from_utf8(&tick.headers[0].1).expect("text").parse().expect("a number");
        assert!(through <= received, "{through} is after {received}");
    }
}

#[tokio::test]
async fn slow_half_and_large_bodies_are_not_kept() {
    let folder = tempfile::tempdir().expect("folder");
    let small = |config: &mut Config| {
        config.limits.body_idle_timeout = Span(Duration::from_millis(100));
        config.limits.wire_bytes = Size(1 << 20);
    };
    let rig = Rig::start_with(folder.path(), vec![], small, Arc::default(), Arc::default()).await;

    let slow = format!("{}Content-Length: 50\r\n\r\n[", head("/v1/events", ""));
    check(&rig.send(slow.as_bytes()).await, 408);

    let mut half = TcpStream::connect(rig.gateway.addr()).await.expect("connects");
    let whole = post("/v1/events", "", batch(&["half"]).as_bytes());
    half.write_all(&whole[..whole.len() - 9]).await.expect("sends");
    half.shutdown().await.expect("closes its half");
    check(&answer(&mut half).await, 400);

    let large = vec![b' '; 3 << 20];
    check(&rig.send(&post("/v1/events", "", &large)).await, 413);
    let mut chunked = format!("{}Transfer-Encoding: chunked\r\n\r\n", head("/v1/events", "")).into_bytes();
    chunked.extend(format!("{:x}\r\n", large.len()).into_bytes());
    chunked.extend(&large);
    chunked.extend(b"\r\n0\r\n\r\n");
    check(&rig.send(&chunked).await, 413);
    let announced = format!("{}Content-Length: 3000000\r\nExpect: 100-continue\r\n\r\n", head("/v1/events", ""));
    check(&rig.send(announced.as_bytes()).await, 413);

    let welcome = format!("{}Content-Length: {}\r\nExpect: 100-continue\r\n\r\n", head("/v1/events", ""), batch(&["e1"]).len());
    let mut stream = TcpStream::connect(rig.gateway.addr()).await.expect("connects");
    stream.write_all(welcome.as_bytes()).await.expect("sends");
    let mut leave = [0; 25];
    stream.read_exact(&mut leave).await.expect("leave to send");
    assert_eq!(&leave, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(batch(&["e1"]).as_bytes()).await.expect("sends");
    check(&answer(&mut stream).await, 200);

    let log = rig.log.clone();
    assert_eq!(rig.drain().await.segments, 0);
    assert_eq!(log.ids(), ["e1"]);
}

#[tokio::test]
async fn a_bomb_is_refused_and_the_next_request_taken() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::start(folder.path()).await;
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..200 {
        bomb.write_all(&vec![b' '; 1 << 20]).expect("compresses");
    }
    let bomb = bomb.finish().expect("compresses");
    check(&rig.send(&post("/v1/events", "Content-Encoding: gzip\r\n", &bomb)).await, 413);
    let nested = "[".repeat(100_000);
    let answer = rig.send(&post("/v1/events", "", nested.as_bytes())).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    check(&rig.events(&["e1"]).await, 200);
    assert_eq!(rig.drain().await.segments, 0);
}

#[tokio::test]
async fn too_many_at_once_get_503_before_their_bodies_are_read() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::start_with(folder.path(), vec![], |c| c.limits.in_flight = 1, Arc::default(), Arc::default()).await;
    let body = batch(&["e1"]);
    let request = post("/v1/events", "", body.as_bytes());
    let mut first = TcpStream::connect(rig.gateway.addr()).await.expect("connects");
    first.write_all(&request[..request.len() - 5]).await.expect("sends");
    until("in flight", || rig.metric("forebay_gateway_in_flight") == 1.0).await;
    check(&rig.events(&["e2"]).await, 503);
    first.write_all(&request[request.len() - 5..]).await.expect("sends");
    check(&answer(&mut first).await, 200);
    let log = rig.log.clone();
    assert_eq!(rig.drain().await.segments, 0);
    assert_eq!(log.ids(), ["e1"]);
}

#[tokio::test]
async fn every_status_carries_cors_and_an_id() {
    let folder = tempfile::tempdir().expect("folder");
    let keyed: SourceConfig = serde_json::from_value(serde_json::json!({
        "name": "shop", "dialects": ["segment"], "ip": "drop",
        // SHA-256 of "wk".
        "write_keys": ["sha256:ccf3aac864e8767e23e54e114b68691e1ea6d3fc73dae6136efd370b47c665dc"],
    }))
    .expect("a source");
    let rig = Rig::start_with(folder.path(), vec![keyed], |_| {}, Arc::default(), Arc::default()).await;
    check(&rig.events(&["e1"]).await, 401);
    check(&rig.send(&post("/v1/events", "X-Write-Key: other\r\n", batch(&["e1"]).as_bytes())).await, 401);
    check(&rig.send(&post("/no/such/path/at/all", "", b"")).await, 404);
    let get = String::from_utf8(post("/v1/events", "", b"")).expect("text").replacen("POST", "GET", 1);
    check(&rig.send(get.as_bytes()).await, 405);
    let limits = String::from_utf8(post("/v1/limits", "", b"")).expect("text").replacen("POST", "GET", 1);
    check(&rig.send(limits.as_bytes()).await, 200);
    let long = format!("{}{}: {}\r\nContent-Length: 0\r\n\r\n", head("/v1/events", ""), "X-Long", "x".repeat(70 << 10));
    check(&rig.send(long.as_bytes()).await, 431);
    let preflight = String::from_utf8(post("/v1/events", "Access-Control-Request-Method: POST\r\n", b"")).expect("text");
    let answer = rig.send(preflight.replacen("POST", "OPTIONS", 1).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
    assert_eq!(header(&answer, "access-control-allow-origin"), Some("https://shop.example"));
    assert_eq!(rig.drain().await.segments, 0);
}

#[tokio::test]
async fn many_small_requests_do_not_use_up_the_memory_of_large_ones() {
    let folder = tempfile::tempdir().expect("folder");
    let small = |config: &mut Config| {
        config.limits.wire_bytes = Size(64 << 10);
        config.limits.inflated_bytes = Size(64 << 10);
        config.limits.memory = Size(128 << 10);
    };
    let rig = Rig::start_with(folder.path(), vec![], small, Arc::default(), Arc::default()).await;
    rig.log.set(LogFault::Fails);
    for n in 0..600 {
        check(&rig.events(&[&format!("e{n}")]).await, 200);
    }
    rig.log.set(LogFault::Works);
    let log = rig.log.clone();
    assert_eq!(rig.drain().await.segments, 0);
    let mut published = log.ids();
    published.dedup();
    assert_eq!(published.len(), 600);
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::start(folder.path()).await;
    let keep =
        |id: &str| String::from_utf8(post("/v1/events", "", batch(&[id]).as_bytes())).expect("text").replace("Connection: close\r\n", "");
    let both = format!("{}{}", keep("e1"), String::from_utf8(post("/v1/events", "", batch(&["e2"]).as_bytes())).expect("text"));
    let answers = rig.send(both.as_bytes()).await;
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 2, "{answers}");
    assert_eq!(rig.drain().await.segments, 0);
}

#[tokio::test]
async fn sources_decide_who_may_send_and_what_is_kept_of_addresses() {
    let folder = tempfile::tempdir().expect("folder");
    let open: SourceConfig =
        serde_json::from_value(serde_json::json!({"name": "web", "default": true, "dialects": ["native"], "ip": "truncate",
            "origins": ["https://shop.example"]}))
        .expect("a source");
    let rig = Rig::start_with(folder.path(), vec![open], |c| c.proxy_hops = 1, Arc::default(), Arc::default()).await;
    check(&rig.send(&post("/v1/events", "X-Forwarded-For: 203.0.113.77\r\n", batch(&["e1"]).as_bytes())).await, 200);
    check(&rig.send(&post("/v1/events", "X-Forwarded-For: 203.0.113.77\r\nSP-Anonymous: *\r\n", batch(&["e2"]).as_bytes())).await, 200);
    let segment = br#"{"batch":[{"type":"track","event":"x","messageId":"m","anonymousId":"a"}],"writeKey":"k"}"#;
    check(&rig.send(&post("/v1/batch", "", segment)).await, 403);
    let elsewhere = String::from_utf8(post("/v1/events", "", batch(&["e3"]).as_bytes())).expect("text").replace("shop.", "evil.");
    let refused = rig.send(elsewhere.as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 403 ") && header(&refused, "access-control-allow-origin").is_none(), "{refused}");
    let objects = rig.objects.clone();
    assert_eq!(rig.drain().await.segments, 0);
    let raws = landed(&objects, folder.path());
    let kept: Vec<_> = raws.iter().map(|raw| (raw.peer.as_str(), raw.client_ip.as_deref())).collect();
    assert_eq!(kept, [("127.0.0.0", Some("203.0.113.0")), ("", None)]);
    let shown = format!("{:?}", raws.iter().map(|raw| &raw.headers).collect::<Vec<_>>());
    assert!(!shown.contains("203.0.113.77"), "{shown}");
}

/// One source cannot take what the others need: beyond its rate it is refused, by the key in its head before its body is read.
#[tokio::test]
async fn a_source_is_held_to_its_rate() {
    let folder = tempfile::tempdir().expect("folder");
    let source = |name: &str, rate: Option<u32>| {
        let hash = <sha2::Sha256 as sha2::Digest>::digest(name.as_bytes());
        let key = crate::config::WriteKey::Plain(crate::config::KeyHash(hash.into()));
        SourceConfig { name: name.to_owned(), write_keys: vec![key], default: false, rate, ..SourceConfig::dev() }
    };
    let sources = vec![source("slow", Some(2)), source("free", None)];
    let rig = Rig::start_with(folder.path(), sources, |_| {}, Arc::default(), Arc::default()).await;
    let send = async |key: &str, path: &str, ids: &[&str]| {
        let keyed = format!("Authorization: Bearer {key}\r\n");
        rig.send(&post(path, &keyed, batch(ids).as_bytes())).await
    };
    check(&send("slow", "/v1/events", &["a", "b", "c", "d", "e", "f"]).await, 200);
    let refused = send("slow", "/v1/events", &["g"]).await;
    assert!(refused.starts_with("HTTP/1.1 429 ") && refused.contains("\"reason\":\"rate_limited\""), "{refused}");
    let seconds: u32 = header(&refused, "retry-after").expect("says when").parse().expect("seconds");
    assert!((1..=3).contains(&seconds), "{refused}");
    // PostHog's SDKs drop on 429.
    check(&send("slow", "/batch", &["g"]).await, 503);
    // A body that never comes is not waited for.
    let head = head("/v1/events", "Authorization: Bearer slow\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n");
    assert!(rig.send(head.as_bytes()).await.starts_with("HTTP/1.1 429 "));
    // A key in the body is found too late for that, and refused all the same.
    let body = r#"{"write_key":"slow","batch":[{"event_id":"h","event_type":"x"}]}"#;
    assert!(rig.send(&post("/v1/events", "", body.as_bytes())).await.starts_with("HTTP/1.1 429 "));
    check(&send("free", "/v1/events", &["i"]).await, 200);
    let began = Instant::now();
    while !send("slow", "/v1/events", &["j"]).await.starts_with("HTTP/1.1 200 ") {
        assert!(began.elapsed() < Duration::from_secs(20), "it may never send again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(rig.drain().await, Leftover::default());
}

#[tokio::test]
async fn a_full_disk_gets_503_and_passes() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::start(folder.path()).await;
    check(&rig.events(&["e1"]).await, 200);
    rig.disk.set(DiskFault::Full);
    check(&rig.events(&["e2"]).await, 503);
    assert!(rig.gateway.ready().is_err());
    check(&rig.events(&["e3"]).await, 503);
    rig.disk.set(DiskFault::Works);
    until("ready", || rig.gateway.ready().is_ok()).await;
    check(&rig.events(&["e4"]).await, 200);
    let log = rig.log.clone();
    assert_eq!(rig.drain().await.segments, 0);
    assert_eq!(log.ids(), ["e1", "e4"]);
}

#[tokio::test]
async fn log_and_store_may_be_away_and_the_bound_holds() {
    let folder = tempfile::tempdir().expect("folder");
    let tiny = |config: &mut Config| {
        config.spool.segment_bytes = Size(1);
        config.spool.max_bytes = Size(20_000);
    };
    let rig = Rig::start_with(folder.path(), vec![], tiny, Arc::default(), Arc::default()).await;
    rig.log.set(LogFault::Fails);
    rig.objects.fails.store(true, Ordering::SeqCst);
    let mut kept = Vec::new();
    loop {
        let id = format!("e{}", kept.len());
        let answer = rig.events(&[&id]).await;
        if answer.starts_with("HTTP/1.1 503 ") {
            check(&answer, 503);
            break;
        }
        check(&answer, 200);
        kept.push(id);
        assert!(kept.len() < 100, "the bound holds");
    }
    assert!(kept.len() > 1);
    rig.log.set(LogFault::Works);
    rig.objects.fails.store(false, Ordering::SeqCst);
    until("room again", || rig.gateway.ready().is_ok()).await;
    check(&rig.events(&["last"]).await, 200);
    kept.push("last".to_owned());
    let (log, objects) = (rig.log.clone(), rig.objects.clone());
    assert_eq!(rig.drain().await.segments, 0);
    let mut published = log.ids();
    published.dedup();
    assert_eq!(published, kept);
    assert_eq!(landed(&objects, folder.path()).len(), kept.len());
}

#[tokio::test]
async fn after_a_kill_everything_acknowledged_is_published_with_the_same_ids() {
    let folder = tempfile::tempdir().expect("folder");
    let (log, objects): (Arc<FakeLog>, Arc<FakeObjects>) = Default::default();
    let mut answered = Vec::new();
    for round in 0..4 {
        let rig = Rig::start_with(folder.path(), vec![], |_| {}, log.clone(), objects.clone()).await;
        log.set(if round % 2 == 0 { LogFault::Fails } else { LogFault::Works });
        objects.fails.store(round < 2, Ordering::SeqCst);
        for n in 0..3 {
            let id = format!("r{round}n{n}");
            let body = format!(r#"[{{"event_type":"page_viewed"}},{{"event_id":"{id}","event_type":"page_viewed"}}]"#);
            let answer = rig.send(&post("/v1/events", "", body.as_bytes())).await;
            check(&answer, 200);
            answered.push((header(&answer, "forebay-request-id").unwrap_or("").to_owned(), id));
        }
        drop(rig);
    }
    log.set(LogFault::Works);
    objects.fails.store(false, Ordering::SeqCst);
    let rig = Rig::start_with(folder.path(), vec![], |_| {}, log.clone(), objects.clone()).await;
    assert_eq!(rig.drain().await.segments, 0);

    let mut seen = std::collections::BTreeMap::new();
    let mut first_sights = Vec::new();
    for event in log.events() {
        let place = (event.request_id.to_string(), event.index);
        let before = seen.insert(place.clone(), event.clone());
        assert!(before.as_ref().is_none_or(|before| *before == event), "published again, and not the same");
        if before.is_none() && event.index == 1 {
            first_sights.push((place.0, event.event_id.to_string()));
        }
    }
    assert_eq!(first_sights, answered, "in spool order");
    assert_eq!(seen.len(), 2 * answered.len());
    let raws = landed(&objects, folder.path());
    assert_eq!(
        raws.iter().map(|raw| raw.request_id.to_string()).collect::<Vec<_>>(),
        answered.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_taken_name_is_never_overwritten() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::start(folder.path()).await;
    check(&rig.events(&["e1"]).await, 200);
    let names = crate::spool::dir::names(folder.path()).expect("lists");
    let object = names[0].object();
    rig.objects.objects.lock().insert(object.clone(), b"other".to_vec());
    let (objects, registry) = (rig.objects.clone(), rig.registry.clone());
    assert_eq!(rig.drain().await.segments, 1);
    assert_eq!(objects.objects.lock().get(&object).map(Vec::as_slice), Some(&b"other"[..]));
    let families = registry.gather();
    let conflicts = families.iter().find(|family| family.name() == "forebay_gateway_land_conflicts_total").expect("counted");
    assert_eq!(conflicts.get_metric()[0].get_counter().get_value(), 1.0);
}

#[tokio::test]
async fn a_drain_that_cannot_finish_says_what_is_left() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::start(folder.path()).await;
    rig.log.set(LogFault::Fails);
    check(&rig.events(&["e1"]).await, 200);
    let left = rig.gateway.drain(Duration::from_millis(300)).await;
    assert_eq!(left.segments, 1);
    assert!(left.bytes > 0);
}
