//! The log is away: what is acknowledged waits, in order; nobody is told too much; start and stop do not wait for it.

use super::*;
use crate::spool::dir::SpoolDir;
use forebay_gateway_core::{Limits, decode_again, harvest};
use forebay_schemas::partition::partition_of;
use forebay_schemas::wire::harvested::Content;
use std::collections::{BTreeMap, BTreeSet};

/// Event ids by partition, in the order in which they are to be on the log.
fn in_spool_order(raws: &[RawRequest]) -> BTreeMap<i32, Vec<String>> {
    let limits = Limits { wire_bytes: 20 << 20, inflated_bytes: 32 << 20, events: 10_000, event_bytes: 1 << 20 };
    let mut all: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    for raw in raws {
        for (key, event) in harvest::harvest(raw, &decode_again(raw), &limits) {
            all.entry(partition_of(key.as_bytes(), 4)).or_default().push(event.event_id.to_string());
        }
    }
    all
}

/// The same as the log has them; what was appended again counts where it was first.
fn in_log_order(log: &FakeLog) -> BTreeMap<i32, Vec<String>> {
    let (mut all, mut seen): (BTreeMap<i32, Vec<String>>, _) = (BTreeMap::new(), BTreeSet::new());
    let events = log.events();
    for ((at, _), event) in log.entries.lock().iter().filter(|(_, entry)| entry.value.is_some()).zip(events) {
        let id = event.event_id.to_string();
        if seen.insert(id.clone()) {
            all.entry(at.partition).or_default().push(id);
        }
    }
    all
}

/// No tick says more than was on the log before it.
fn check_ticks(log: &FakeLog) {
    let mut events = log.events().into_iter();
    let (mut seen, mut through, mut ticks) = (BTreeSet::new(), i64::MIN, 0);
    for (_, entry) in log.entries.lock().iter() {
        if entry.value.is_none() {
            through = through.max(std::str::from_utf8(&entry.headers[0].1).expect("text").parse().expect("a number"));
            ticks += 1;
        } else {
            let event = events.next().expect("as many");
            let new = seen.insert(event.event_id.to_string());
            assert!(!new || event.received_at.0 >= through, "an event of {} after a tick of {through}", event.received_at.0);
        }
    }
    assert!(ticks > 0);
}

/// Events that the spool cannot make small, of many devices.
fn large_batch(request: usize) -> String {
    let event = |n: usize| {
        let text: String = (0..200).map(|k| format!("{:08x}", (request * 7_919 + n * 104_729 + k * 1_299_709) as u32)).collect();
        format!(r#"{{"event_id":"r{request}-{n}","event_type":"page_viewed","anonymous_id":"a{n}","properties":{{"x":"{text}"}}}}"#)
    };
    format!("[{}]", (0..40).map(event).collect::<Vec<_>>().join(","))
}

#[tokio::test]
async fn a_backlog_goes_out_in_order_while_new_requests_are_taken() {
    let folder = tempfile::tempdir().expect("folder");
    let (log, objects): (Arc<FakeLog>, Arc<FakeObjects>) = Default::default();
    let little_memory = |config: &mut Config| {
        config.limits.wire_bytes = Size(256 << 10);
        config.limits.inflated_bytes = Size(256 << 10);
        config.limits.memory = Size(2 << 20);
        config.spool.segment_bytes = Size(1 << 20);
    };
    log.set(LogFault::Fails);
    let rig = Rig::start_with(folder.path(), vec![], little_memory, log.clone(), objects.clone()).await;
    for n in 0..400 {
        check(&rig.send(&post("/v1/events", "", large_batch(n).as_bytes())).await, 200);
    }
    assert_eq!(rig.gateway.ready(), Ok(()));
    let (landed_now, behind) = (objects.objects.lock().len(), rig.metric("forebay_gateway_backlog_bytes"));
    assert!(landed_now > 1 && behind > 3e6, "{landed_now} landed, {behind} bytes behind");
    assert!(rig.metric("forebay_gateway_backlog_seconds") > 0.0);

    // The log comes back, goes again, and the gateway is killed in the middle.
    let before = log.failed.load(Ordering::SeqCst);
    log.set(LogFault::WorksFor(2));
    until("the log has gone again", || log.failed.load(Ordering::SeqCst) > before + 1).await;
    drop(rig);
    assert!((1..16_000).contains(&log.ids().len()), "in the middle");

    log.set(LogFault::Works);
    let rig = Rig::start_with(folder.path(), vec![], little_memory, log.clone(), objects.clone()).await;
    for n in 400..450 {
        check(&rig.send(&post("/v1/events", "", large_batch(n).as_bytes())).await, 200);
    }
    until("caught up", || rig.metric("forebay_gateway_backlog_bytes") == 0.0).await;
    assert_eq!((rig.metric("forebay_gateway_backlog_seconds"), rig.gateway.notes()), (0.0, vec![]));
    assert_eq!(rig.drain().await, Leftover { segments: 0, bytes: 0 });

    let raws = landed(&objects, folder.path());
    assert_eq!(raws.len(), 450);
    assert!(raws.windows(2).all(|pair| pair[0].request_id < pair[1].request_id));
    assert!(in_log_order(&log) == in_spool_order(&raws), "in spool order by partition, and all of it");
    check_ticks(&log);
}

#[tokio::test]
async fn a_log_that_does_not_answer_holds_up_neither_start_nor_stop() {
    let folder = tempfile::tempdir().expect("folder");
    let (log, objects): (Arc<FakeLog>, Arc<FakeObjects>) = Default::default();
    log.set(LogFault::Hangs);
    let rig = Rig::start_with(folder.path(), vec![], |_| {}, log.clone(), objects.clone()).await;
    check(&rig.events(&["e1"]).await, 200);
    assert_eq!(rig.gateway.ready(), Ok(()));
    let left = rig.gateway.drain(Duration::from_millis(300)).await;
    assert_eq!((left.segments, left.bytes > 0), (1, true));

    log.set(LogFault::Works);
    until("the last append has ended", || SpoolDir::open(folder.path(), Arc::new(Disk::new())).is_ok()).await;
    let rig = Rig::start_with(folder.path(), vec![], |_| {}, log.clone(), objects).await;
    assert_eq!(rig.drain().await.segments, 0);
    let mut published = log.ids();
    published.dedup();
    assert_eq!(published, ["e1"]);
}

#[tokio::test]
async fn what_the_log_refuses_is_told_and_waits_until_somebody_has_seen_to_it() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::start(folder.path()).await;
    rig.log.set(LogFault::Refuses);
    check(&rig.events(&["e1"]).await, 200);
    until("a note", || !rig.gateway.notes().is_empty()).await;
    let notes = rig.gateway.notes();
    assert!(notes[0].contains("the log refuses: no such topic") && notes[1].contains("bytes of the spool are not on the log"), "{notes:?}");
    assert_eq!(rig.gateway.ready(), Ok(()), "the spool takes what comes");
    check(&rig.events(&["e2"]).await, 200);
    assert!(rig.metric("forebay_gateway_publish_errors_total") > 0.0);
    rig.log.set(LogFault::Works);
    let log = rig.log.clone();
    assert_eq!(rig.drain().await.segments, 0);
    assert_eq!(log.ids(), ["e1", "e2"]);
}

#[tokio::test]
async fn an_event_too_large_for_the_log_does_not_hold_up_those_behind_it() {
    let folder = tempfile::tempdir().expect("folder");
    let rig = Rig::start(folder.path()).await;
    rig.log.record_max.store(100_000, Ordering::SeqCst);
    let large = format!(r#"{{"event_id":"e2","event_type":"page_viewed","properties":{{"x":"{}"}}}}"#, "y".repeat(300_000));
    let body = format!("[{},{large},{}]", &batch(&["e1"])[1..].trim_end_matches(']'), &batch(&["e3"])[1..].trim_end_matches(']'));
    check(&rig.send(&post("/v1/events", "", body.as_bytes())).await, 200);
    until("published", || rig.log.ids().len() == 3).await;
    assert_eq!(rig.gateway.notes(), [""; 0]);

    // Nothing can be made so small: it waits, and is told.
    rig.log.record_max.store(10, Ordering::SeqCst);
    check(&rig.events(&["e4"]).await, 200);
    until("a note", || !rig.gateway.notes().is_empty()).await;
    rig.log.record_max.store(usize::MAX, Ordering::SeqCst);
    let log = rig.log.clone();
    assert_eq!(rig.drain().await.segments, 0);
    let events = log.events();
    assert_eq!(log.ids(), ["e1", "e2", "e3", "e4"]);
    let told: Vec<_> = events.iter().map(|event| (event.content, event.full_length)).collect();
    let whole = (Content::Json, None);
    assert_eq!(told, [whole, (Content::Bytes, Some(large.len() as u64)), whole, whole]);
    assert_eq!(events[1].payload, large.as_bytes()[..limit::CUT_BYTES]);
}

#[tokio::test]
async fn a_damaged_segment_is_kept_and_told_and_holds_up_nobody() {
    let folder = tempfile::tempdir().expect("folder");
    let (log, objects): (Arc<FakeLog>, Arc<FakeObjects>) = Default::default();
    let small = |config: &mut Config| config.spool.segment_bytes = Size(1);
    log.set(LogFault::Fails);
    let rig = Rig::start_with(folder.path(), vec![], small, log.clone(), objects.clone()).await;
    for id in ["e1", "e2", "e3"] {
        check(&rig.events(&[id]).await, 200);
    }
    drop(rig);
    log.entries.lock().clear();
    log.set(LogFault::Works);
    let mut names = crate::spool::dir::names(folder.path()).expect("lists");
    names.sort_by_key(|name| name.first);
    let second = folder.path().join(names[1].file());
    let mut bytes = std::fs::read(&second).expect("reads");
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    std::fs::write(&second, &bytes).expect("writes");

    let rig = Rig::start_with(folder.path(), vec![], small, log.clone(), objects).await;
    until("the others are published", || log.ids() == ["e1", "e3"]).await;
    assert_eq!(rig.metric("forebay_gateway_spool_errors_total"), 1.0);
    until("the rest is finished", || rig.metric("forebay_gateway_spool_bytes") == bytes.len() as f64).await;
    assert!(rig.metric("forebay_gateway_backlog_bytes") > 0.0, "as long as it is there");
    check(&rig.events(&["e4"]).await, 200);
    assert_eq!(rig.drain().await, Leftover { segments: 1, bytes: bytes.len() as u64 });
    assert_eq!((log.ids(), second.exists()), (vec!["e1".into(), "e3".into(), "e4".into()], true));
}
