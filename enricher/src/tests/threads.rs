//! The whole shell with its threads, on the log that fails on demand.

use super::*;
use crate::testing::Fault;
use crate::{Config, Enricher};
use prometheus::{Encoder, Registry, TextEncoder};
use std::time::Instant;

pub fn start(log: &FakeLog, dir: &std::path::Path, pipeline: &Arc<Pipeline>, lanes: u32) -> (Enricher, Registry) {
    let mut config = Config::new(Kind::RocksDb);
    config.lanes = lanes;
    config.commit_interval = "5ms".parse().expect("a span");
    let registry = Registry::new();
    (Enricher::start(config, pipeline.clone(), Arc::new(log.clone()), dir, &registry).expect("starts"), registry)
}

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(30), "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn total(enricher: &Enricher, outcome: Outcome) -> u64 {
    enricher.totals().iter().filter(|total| total.outcome == outcome).map(|total| total.count).sum()
}

pub fn shown(registry: &Registry, line: &str) -> bool {
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text).expect("encodes");
    String::from_utf8(text).expect("text").lines().any(|shown| shown == line)
}

#[test]
fn lanes_work_through_faults_and_count_on_after_a_restart() {
    let pipeline = testing::pipeline(Duration::from_secs(3600), Collision::Bad);
    let log = FakeLog::new(3);
    let dir = tempfile::tempdir().expect("a folder");
    for (life, lanes) in [(0u32, 1), (1, 2), (2, 3)] {
        let (enricher, registry) = start(&log, dir.path(), &pipeline, lanes);
        until("all lanes run", || enricher.ready().is_ok());
        for fault in [Fault::Abort, Fault::UnknownApplied, Fault::UnknownNotApplied] {
            log.fault(fault);
        }
        for n in 0..300 {
            let partition = n % 3;
            log.append(vec![testing::event(partition, life * 200 + n as u32 / 2, Body::Fact(0), log.now())]).expect("fake");
            log.append(vec![testing::tick(partition, "g", log.now())]).expect("fake");
        }
        let harvested = u64::from(life + 1) * 300;
        until("everything is counted", || total(&enricher, Outcome::Trusted) + total(&enricher, Outcome::Duplicate) == harvested);
        let trusted: usize = (0..3).map(|partition| log.records(Topic::Trusted, partition).len()).sum();
        assert_eq!(trusted as u64, total(&enricher, Outcome::Trusted));
        let line = format!(r#"forebay_events_total{{outcome="trusted",reason="",source="web"}} {trusted}"#);
        until("the metric equals the state", || shown(&registry, &line));
        enricher.stop().expect("stops");
    }
}

#[test]
fn a_lane_that_is_fenced_fails_and_says_why() {
    let log = FakeLog::new(1);
    let dir = tempfile::tempdir().expect("a folder");
    let pipeline = testing::pipeline(Duration::from_secs(60), Collision::Bad);
    let (enricher, _) = start(&log, dir.path(), &pipeline, 1);
    until("the lane runs", || enricher.ready().is_ok());
    log.fault(Fault::Fence);
    log.append(vec![testing::event(0, 1, Body::Fact(0), log.now())]).expect("fake");
    until("the lane fails", || enricher.failed().is_some());
    let why = enricher.failed().expect("failed");
    assert!(why.contains("another process runs this lane"), "{why}");
    assert_eq!(enricher.ready(), Err(why.replacen("lane forebay/0: ", "lane forebay/0 ", 1)));
    assert_eq!(enricher.stop(), Err(why));
}

#[test]
fn ticks_alone_are_not_committed_at_once() {
    let log = FakeLog::new(1);
    let dir = tempfile::tempdir().expect("a folder");
    let pipeline = testing::pipeline(Duration::from_secs(60), Collision::Bad);
    let (enricher, registry) = start(&log, dir.path(), &pipeline, 1);
    until("the lane has told its place", || log.records(Topic::Delta, 0).len() == 2);
    for _ in 0..20 {
        log.append(vec![testing::tick(0, "g", log.now())]).expect("fake");
    }
    until("the ticks are taken in", || shown(&registry, r#"forebay_task_lag_records{task="0"} 0"#));
    assert_eq!(log.records(Topic::Delta, 0).len(), 2);
    enricher.stop().expect("stops");
}
