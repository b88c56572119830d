//! A log that does not answer, refuses, shows late, or has let go what was still needed.

use super::threads::{shown, start, total, until};
use super::*;
use crate::testing::Fault;
use crate::{Config, Enricher, StartError};
use forebay_stores::log::{LogError, TopicPartition};

const INPUT: TopicPartition = TopicPartition { topic: Topic::Harvested, partition: 0 };

fn append(log: &FakeLog, ids: std::ops::Range<u32>) {
    ids.for_each(|n| log.append(vec![testing::event(0, n, Body::Fact(0), log.now())]).expect("fake"));
}

#[test]
fn a_start_without_a_log_waits_for_it_and_an_outage_passes() {
    let log = FakeLog::new(1);
    append(&log, 0..10);
    log.outage(true);
    let dir = tempfile::tempdir().expect("a folder");
    let pipeline = testing::pipeline(Duration::from_secs(60), Collision::Bad);
    let (enricher, registry) = start(&log, dir.path(), &pipeline, 1);
    until("it says what it waits for", || enricher.ready() == Err("is starting: the log does not answer: no broker".to_owned()));
    log.outage(false);
    until("the lane runs", || enricher.ready().is_ok());
    until("everything is told", || total(&enricher, Outcome::Trusted) == 10);
    log.outage(true);
    until("it says that the log is away", || enricher.ready().is_err_and(|why| why.contains("no broker")));
    append(&log, 10..20);
    assert_eq!(enricher.failed(), None);
    log.outage(false);
    until("it is ready again", || enricher.ready().is_ok());
    until("everything is told", || total(&enricher, Outcome::Trusted) == 20);
    until("lag is told", || shown(&registry, r#"forebay_task_lag_records{task="0"} 0"#));
    enricher.stop().expect("stops");
    assert_eq!(log.records(Topic::Trusted, 0).len(), 20);
}

#[test]
fn an_enricher_that_waits_for_its_log_can_be_stopped() {
    let log = FakeLog::new(1);
    log.outage(true);
    let dir = tempfile::tempdir().expect("a folder");
    let (enricher, _) = start(&log, dir.path(), &testing::pipeline(Duration::from_secs(60), Collision::Bad), 1);
    until("it waits", || enricher.ready().is_err_and(|why| why.contains("no broker")));
    enricher.stop().expect("nothing was begun");
}

#[test]
fn h11_what_the_log_refuses_stops_and_says_so() {
    let log = FakeLog::new(1);
    log.refuse(Some("topic forebay.harvested is missing; run `forebay topics apply`"));
    let dir = tempfile::tempdir().expect("a folder");
    let pipeline = testing::pipeline(Duration::from_secs(60), Collision::Bad);
    let registry = prometheus::Registry::new();
    let refused = Enricher::start(Config::new(Kind::Memory), pipeline.clone(), Arc::new(log.clone()), dir.path(), &registry).map(drop);
    assert!(matches!(refused, Err(StartError::Log(LogError::Refused(_)))), "{refused:?}");
    log.refuse(None);
    let (enricher, registry) = start(&log, dir.path(), &pipeline, 1);
    until("the lane runs", || enricher.ready().is_ok());
    log.fault(Fault::Refuse);
    append(&log, 0..1);
    until("the lane stops", || enricher.failed().is_some());
    assert_eq!(enricher.failed().as_deref(), Some("lane forebay/0: the log refuses: on demand"));
    assert!(shown(&registry, r#"forebay_commits_total{result="refused"} 1"#));
    assert!(enricher.stop().is_err());
    assert_eq!(log.records(Topic::Trusted, 0).len(), 0);
}

#[test]
fn h13_a_hanging_commit_is_seen_from_outside() {
    let mut world = World::new(Kind::Memory, testing::pipeline(Duration::from_secs(60), Collision::Bad));
    world.start().expect("starts");
    world.event(0, 1, Body::Fact(0), Duration::ZERO);
    world.log.fault(Fault::Hang);
    let (mut life, log) = (world.life.take().expect("started"), world.log.clone());
    let status = life.committer.status.clone();
    assert_eq!(status.commit_since(), None);
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| life.turn(10));
        until("the commit hangs", || log.hanging() == 1);
        let since = status.commit_since();
        log.release();
        assert!(since.is_some(), "readiness counts from here");
        assert!(commit.join().expect("no panic").expect("commits"));
    });
    assert_eq!(status.commit_since(), None);
    world.life = Some(life);
    world.check("after the wait");
}

#[test]
fn h25_input_that_retention_takes_from_a_running_lane_stops_it() {
    let log = FakeLog::new(1);
    append(&log, 0..5);
    let dir = tempfile::tempdir().expect("a folder");
    let (enricher, _) = start(&log, dir.path(), &testing::pipeline(Duration::from_secs(60), Collision::Bad), 1);
    until("the lane works", || total(&enricher, Outcome::Trusted) == 5);
    // All at once, so that the lane cannot be faster.
    log.append_and_drop(INPUT, (5..10).map(|n| testing::event(0, n, Body::Fact(0), log.now())).collect(), 8);
    until("the lane stops", || enricher.failed().is_some());
    let why = enricher.failed().expect("failed");
    assert!(why.contains("record 5 is next, but the log holds [8, 10)"), "{why}");
    assert!(enricher.stop().is_err());
    assert_eq!(log.records(Topic::Trusted, 0).len(), 5, "nothing is skipped");
}

#[test]
fn h40_an_idle_lane_commits_now_and_then() {
    let world = World::new(Kind::Memory, testing::pipeline(Duration::from_secs(60), Collision::Bad));
    let plan = world.plan();
    take(&plan).expect("takes over");
    let seq = || {
        let committed = world.log.committed(LANE, INPUT).expect("fake");
        committed.map_or(0, |committed| crate::commit::number(&committed.metadata, "seq").expect("has a seq"))
    };
    let run = |plan: Plan, what: &str, done: &dyn Fn() -> bool| {
        let stop = plan.stop.clone();
        let running = std::thread::spawn(move || lane::run(&plan));
        until(what, done);
        stop.set();
        running.join().expect("no panic").expect("runs");
    };
    run(plan, "it has told its place at once, though nothing came", &|| seq() == 2);
    run(Plan { idle_commit: Duration::from_millis(5), ..world.plan() }, "and again and again", &|| seq() >= 5);
    assert_eq!(world.log.records(Topic::Trusted, 0).len(), 0);
}
