//! What a 2xx means is the source's choice: on disk, on the log, or in the raw landing.

use super::*;
use crate::config::Ack;

async fn start(path: &Path, ack: Ack, change: impl FnOnce(&mut Config)) -> Rig {
    let sources = vec![SourceConfig { ack, ..SourceConfig::dev() }];
    Rig::start_with(path, sources, change, Arc::default(), Arc::default()).await
}

fn durability(answer: &str) -> String {
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    body["durability"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn who_asks_for_the_log_is_answered_when_the_log_has_it() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = start(folder.path(), Ack::Log, |_| {}).await;
    let first = rig.events(&["a"]).await;
    check(&first, 200);
    assert_eq!((durability(&first), rig.log.ids()), ("log".to_owned(), vec!["a".to_owned()]));
    // While the log is away nobody is answered, and nobody holds up the others' places.
    rig.log.set(LogFault::Hangs);
    let sent: Vec<_> = (0..50)
        .map(|n| {
            let (addr, request) = (rig.gateway.addr(), post("/v1/events", "", batch(&[&format!("b{n}")]).as_bytes()));
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(addr).await.expect("connects");
                stream.write_all(&request).await.expect("sends");
                answer(&mut stream).await
            })
        })
        .collect();
    until("all are on disk and wait", || rig.metric("forebay_gateway_acks_waiting") == 50.0).await;
    assert_eq!((rig.metric("forebay_gateway_in_flight"), rig.log.ids().len()), (0.0, 1));
    rig.log.set(LogFault::Works);
    for sent in sent {
        check(&sent.await.expect("answered"), 200);
    }
    assert_eq!(rig.log.ids().len(), 51);
    assert_eq!(rig.drain().await, Leftover::default());
}

#[tokio::test]
async fn who_waits_in_vain_hears_what_is_durable_and_is_published_once_all_the_same() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = start(folder.path(), Ack::Log, |config| config.limits.log_ack_timeout = Span(Duration::from_millis(50))).await;
    rig.log.set(LogFault::Hangs);
    let answer = rig.events(&["a"]).await;
    check(&answer, 503);
    assert!(answer.contains("\"reason\":\"ack_timeout\"") && answer.contains("durable in the gateway's spool"), "{answer}");
    assert_eq!((rig.metric("forebay_gateway_events_accepted_total"), rig.metric("forebay_gateway_events_refused_total")), (0.0, 1.0));
    rig.log.set(LogFault::Works);
    until("it is on the log", || rig.log.ids() == ["a"]).await;
    check(&rig.events(&["b"]).await, 200);
    assert_eq!(rig.drain().await, Leftover::default());
}

#[tokio::test]
async fn who_asks_for_the_landing_is_answered_when_it_is_there() {
    let folder = tempfile::tempdir().expect("folder");
    let soon = |config: &mut Config| {
        config.spool.segment_age = Span(Duration::from_millis(20));
        config.limits.object_ack_timeout = Span(Duration::from_millis(1_500));
    };
    let rig = start(folder.path(), Ack::Object, soon).await;
    let answer = rig.events(&["a"]).await;
    check(&answer, 200);
    assert_eq!((durability(&answer), rig.objects.objects.lock().len()), ("object".to_owned(), 1));
    rig.objects.fails.store(true, Ordering::SeqCst);
    check(&rig.events(&["b"]).await, 503);
    rig.objects.fails.store(false, Ordering::SeqCst);
    check(&rig.events(&["c"]).await, 200);
    assert_eq!(rig.drain().await, Leftover::default());
}

/// A segment that is not old enough is sealed when the gateway stops: nobody waits for the hour.
#[tokio::test]
async fn a_drain_answers_those_who_wait_for_the_landing() {
    let folder = tempfile::tempdir().expect("folder");
    let hours = |config: &mut Config| {
        config.spool.segment_age = Span(Duration::from_secs(3_600));
        config.limits.object_ack_timeout = Span(Duration::from_secs(7_200));
    };
    let rig = start(folder.path(), Ack::Object, hours).await;
    let mut stream = TcpStream::connect(rig.gateway.addr()).await.expect("connects");
    stream.write_all(&post("/v1/events", "", batch(&["a"]).as_bytes())).await.expect("sends");
    until("it is on disk and waits", || rig.metric("forebay_gateway_acks_waiting") == 1.0).await;
    let objects = rig.objects.clone();
    let (left, answer) = tokio::join!(rig.drain(), answer(&mut stream));
    check(&answer, 200);
    assert_eq!((left, objects.objects.lock().len()), (Leftover::default(), 1));
}
