//! What recovery accepts, and what it refuses with a reason.

use super::*;
use crate::error::RecoveryError;
use forebay_stores::log::{Committed, TopicPartition};

const DELTA: TopicPartition = TopicPartition { topic: Topic::Delta, partition: 0 };
const INPUT: TopicPartition = TopicPartition { topic: Topic::Harvested, partition: 0 };
const NOW: Duration = Duration::ZERO;
const TTL: Duration = Duration::from_secs(40);

/// A world with `commits` commits of one event each in partition 0, a second apart, all flushed by a stop.
fn world(kind: Kind, commits: u32) -> World {
    let mut world = World::new(kind, testing::pipeline(TTL, Collision::Bad));
    world.start().expect("starts");
    go_on(&mut world, 0, commits);
    world.end(Restart::Stopped);
    world
}

fn go_on(world: &mut World, first: u32, commits: u32) {
    for n in first..first + commits {
        world.event(0, n, Body::Fact(n), NOW);
        world.run().expect("commits");
        world.log.pass(Duration::from_secs(1));
    }
}

fn refused(world: &mut World) -> RecoveryError {
    match world.start().expect_err("refused") {
        LaneError::Recovery { error, .. } => error,
        other => panic!("another error: {other}"),
    }
}

/// All ids again: duplicates, if the state is all there.
fn is_whole(world: &mut World, ids: std::ops::Range<u32>) {
    world.start().expect("starts");
    ids.for_each(|n| world.event(0, n, Body::Fact(n), NOW));
    world.run().expect("commits");
    world.check("whole");
}

#[test]
fn a_missing_delta_stops_the_task() {
    for kind in [Kind::Memory, Kind::RocksDb] {
        let mut world = world(kind, 6);
        world.end(Restart::FromDeltas);
        // Offsets of deltas are 0, 2, 4 …: each is followed by a marker.
        world.log.remove(DELTA, 6);
        let error = refused(&mut world);
        assert!(matches!(error, RecoveryError::Chain(_)), "{error}");
        world.log.remove(DELTA, 8);
        world.log.remove(DELTA, 10);
        let error = refused(&mut world);
        assert!(matches!(error, RecoveryError::DeltasEnd { committed: 6, found: 3 }), "{error}");
    }
}

#[test]
fn local_state_needs_only_the_deltas_after_it() {
    let mut world = world(Kind::RocksDb, 6);
    world.start().expect("starts");
    go_on(&mut world, 6, 3);
    world.end(Restart::Killed);
    world.log.drop_before(DELTA, 12);
    is_whole(&mut world, 0..9);
    // Without it, the rest is too young to be all there is.
    world.end(Restart::FromDeltas);
    let error = refused(&mut world);
    assert!(matches!(error, RecoveryError::DeltasTooYoung { prev_seq: 6, .. }), "{error}");
}

#[test]
fn a_state_may_begin_at_deltas_that_are_old_enough() {
    let mut world = world(Kind::RocksDb, 3);
    world.start().expect("starts");
    // The TTL is 40 s, all without one is put again each 10 s.
    go_on(&mut world, 3, 52);
    world.log.drop_before(DELTA, 8);
    for restart in Restart::ALL {
        world.end(restart);
        is_whole(&mut world, 20..55);
    }
}

#[test]
fn local_state_that_is_too_old_is_rebuilt() {
    let mut world = world(Kind::RocksDb, 3);
    world.start().expect("starts");
    go_on(&mut world, 3, 60);
    world.end(Restart::Killed);
    world.log.drop_before(DELTA, 14);
    is_whole(&mut world, 30..63);
}

#[test]
fn offsets_that_expired_are_taken_from_the_deltas() {
    for restart in Restart::ALL {
        let mut world = world(Kind::RocksDb, 4);
        world.end(restart);
        world.log.forget_offsets();
        is_whole(&mut world, 0..4);
        // And what it then commits under its own name counts again.
        world.end(restart);
        is_whole(&mut world, 0..6);
    }
}

#[test]
fn state_without_a_log_is_refused_and_a_new_start_is_not() {
    let mut world = world(Kind::RocksDb, 4);
    world.log.recreate();
    let error = refused(&mut world);
    assert!(matches!(error, RecoveryError::Orphan { seq: 4 }), "{error}");
    world.end(Restart::FromDeltas);
    world.start().expect("a new start");
}

#[test]
fn state_of_another_log_or_ahead_of_this_one_is_rebuilt() {
    let mut world = world(Kind::RocksDb, 5);
    // The log lost its last commit, as an unclean leader election does it.
    world.log.remove(DELTA, 8);
    let metadata = "seq=4;fp=x;partitions=2".to_owned();
    world.log.set_committed(LANE, INPUT, Committed { offset: 4, metadata });
    world.models[0].trusted.push((4, "e4".to_owned()));
    world.start().expect("starts");
    world.run().expect("takes in the fifth again");
    assert_eq!(world.trusted(0), world.models[0].trusted);
    world.end(Restart::Stopped);
    let lies = |world: &mut World, offset, metadata: &str| {
        world.log.set_committed(LANE, INPUT, Committed { offset, metadata: metadata.to_owned() });
        refused(world)
    };
    let error = lies(&mut world, 3, "seq=5;fp=x;partitions=2");
    assert!(matches!(error, RecoveryError::OffsetMoved { seq: 5, committed: 3, delta: 5 }), "{error}");
    let error = lies(&mut world, 5, "seq=5;fp=x;partitions=3");
    assert!(matches!(error, RecoveryError::Partitions { committed: 3, found: 2 }), "{error}");
    let error = lies(&mut world, 5, "by hand");
    assert!(matches!(error, RecoveryError::Metadata(_)), "{error}");
}

#[test]
fn deltas_of_another_job_are_not_this_ones() {
    let mut world = world(Kind::Memory, 2);
    let records = world.log.records(Topic::Delta, 0);
    world.log.drop_before(DELTA, 4);
    let others = records
        .into_iter()
        .map(|record| (DELTA, forebay_stores::log::Entry { key: "other".into(), value: record.value, headers: Vec::new() }));
    world.log.append(others.collect()).expect("fake");
    let error = refused(&mut world);
    assert!(matches!(&error, RecoveryError::OtherJob { found } if found == "other"), "{error}");
}

#[test]
fn input_that_retention_took_stops_the_task() {
    let mut world = world(Kind::RocksDb, 4);
    for n in 4..8 {
        world.event(0, n, Body::Fact(n), NOW);
    }
    world.log.drop_before(INPUT, 6);
    let error = refused(&mut world);
    assert!(matches!(error, RecoveryError::InputGone { offset: 4, start: 6, end: 8, .. }), "{error}");
}

#[test]
fn another_number_of_lanes_goes_on_from_the_deltas() {
    let mut world = world(Kind::RocksDb, 4);
    let stale = world.log.committed(LANE, INPUT).expect("fake").expect("committed");
    world.start().expect("starts");
    go_on(&mut world, 4, 2);
    world.end(Restart::Stopped);
    // What a lane of before `lanes` was changed had committed last.
    world.log.set_committed(LANE, INPUT, stale);
    is_whole(&mut world, 0..6);
}

#[test]
fn a_commit_larger_than_a_message_comes_back() {
    let mut world = World::new(Kind::RocksDb, testing::pipeline(TTL, Collision::Bad));
    world.start().expect("starts");
    for n in 0..200 {
        world.event(0, n, Body::Fact(n), NOW);
    }
    world.life().read(200).expect("reads");
    let mut cuts = world.life().cut();
    // Cut again as if the bound were a kilobyte.
    let outputs = &mut cuts[0].outputs;
    let whole =
        forebay_schemas::wire::delta::decode(outputs.pop().expect("the delta").1.value.as_ref().expect("has a value")).expect("decodes");
    let head = crate::delta::Head {
        task: 0,
        seq: whole.seq,
        prev_seq: whole.prev_seq,
        from_offset: whole.from_offset,
        to_offset: whole.to_offset,
        watermark: whole.watermark,
        clock: whole.clock,
        pipeline: whole.pipeline,
    };
    let (messages, _) = crate::delta::messages(&head, whole.ops, 1_000);
    assert!(messages.len() > 5);
    outputs.extend(
        messages.into_iter().map(|message| {
            (DELTA, forebay_stores::log::Entry { key: testing::JOB.into(), value: Some(message.into()), headers: Vec::new() })
        }),
    );
    world.life().commit(cuts).expect("commits");
    world.end(Restart::FromDeltas);
    is_whole(&mut world, 0..200);
}
