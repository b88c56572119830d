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
fn h26_a_missing_delta_stops_the_task() {
    for kind in [Kind::Memory, Kind::RocksDb] {
        let mut world = world(kind, 6);
        world.end(Restart::FromDeltas);
        // Offsets of deltas are 0, 2, 4 …: each is followed by a marker. The first is the one that took the task.
        world.log.remove(DELTA, 6);
        let error = refused(&mut world);
        assert!(matches!(error, RecoveryError::Chain(_)), "{error}");
        [8, 10, 12].into_iter().for_each(|offset| world.log.remove(DELTA, offset));
        let error = refused(&mut world);
        assert!(matches!(error, RecoveryError::DeltasEnd { committed: 7, found: 3 }), "{error}");
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
fn h40_offsets_that_expired_or_were_deleted_are_taken_from_the_deltas() {
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
fn h40_state_without_a_log_is_refused_and_a_new_start_is_not() {
    let mut world = world(Kind::RocksDb, 4);
    world.log.recreate();
    let error = refused(&mut world);
    assert!(matches!(error, RecoveryError::Orphan { seq: 5 }), "{error}");
    world.end(Restart::FromDeltas);
    world.start().expect("a new start");
}

#[test]
fn h2_h38_state_of_another_log_or_ahead_of_this_one_is_rebuilt() {
    let mut world = world(Kind::RocksDb, 5);
    // The log lost its last commit, as an unclean leader election does it.
    world.log.remove(DELTA, 10);
    let metadata = "seq=5;fp=x;partitions=2".to_owned();
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
    let error = lies(&mut world, 3, "seq=6;fp=x;partitions=2");
    assert!(matches!(error, RecoveryError::OffsetMoved { seq: 6, committed: 3, delta: 5 }), "{error}");
    let error = lies(&mut world, 5, "seq=6;fp=x;partitions=3");
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
fn h25_input_that_retention_took_stops_the_task() {
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

/// A commit of these ids, its delta cut as if a message held a kilobyte.
fn commit_in_parts(world: &mut World, ids: std::ops::Range<u32>) {
    ids.for_each(|n| world.event(0, n, Body::Fact(n), NOW));
    world.life().read(usize::MAX).expect("reads");
    let mut cuts = world.life().cut();
    let outputs = &mut cuts[0].outputs;
    let (_, delta) = outputs.pop().expect("the delta");
    let whole = forebay_schemas::wire::delta::decode(delta.value.as_ref().expect("has a value")).expect("decodes");
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
    let (messages, _) = crate::delta::messages(&head, world.format, whole.ops, 1_000);
    assert!(messages.len() > 5);
    let part = |message: Vec<u8>| forebay_stores::log::Entry { value: Some(message.into()), ..delta.clone() };
    outputs.extend(messages.into_iter().map(|message| (DELTA, part(message))));
    world.life().commit(cuts).expect("commits");
}

#[test]
fn h43_a_commit_larger_than_a_message_comes_back() {
    let mut world = World::new(Kind::RocksDb, testing::pipeline(TTL, Collision::Bad));
    world.start().expect("starts");
    commit_in_parts(&mut world, 0..200);
    world.end(Restart::FromDeltas);
    is_whole(&mut world, 0..200);
}

/// Retention goes by messages, not by commits: what is left of one begins no chain.
#[test]
fn h43_a_chain_begins_at_the_first_commit_of_which_all_is_kept() {
    let mut world = World::new(Kind::RocksDb, testing::pipeline(TTL, Collision::Bad));
    world.start().expect("starts");
    commit_in_parts(&mut world, 0..200);
    world.log.pass(Duration::from_secs(1));
    go_on(&mut world, 200, 60);
    // The first delta took the task; each commit ends with a marker.
    world.log.drop_before(DELTA, 4);
    world.end(Restart::FromDeltas);
    is_whole(&mut world, 230..260);
}

/// A start while deltas are hidden that show themselves once it has looked for them.
fn late_deltas(world: &World) -> Result<Life, LaneError> {
    let plan = Plan { patience: Duration::from_secs(30), ..world.plan() };
    let (log, before) = (world.log.clone(), world.log.asked(DELTA));
    std::thread::scope(|scope| {
        let recovered = scope.spawn(|| Life::of(&plan));
        // Each look asks for the bounds; those that found nothing have been followed by another.
        super::threads::until("it waits", || log.asked(DELTA) > before + 8 || recovered.is_finished());
        log.show_up_to(DELTA, None);
        recovered.join().expect("no panic")
    })
}

/// The offsets' partition may show a commit before the deltas' does: recovery waits for its `seq`, not for an offset.
#[test]
fn h23_deltas_that_show_late_are_waited_for() {
    let mut world = world(Kind::RocksDb, 4);
    world.end(Restart::FromDeltas);
    let end = world.log.bounds(DELTA).expect("fake").end;
    for shown in [end - 2, end - 4, 0] {
        world.log.show_up_to(DELTA, Some(shown));
        world.life = Some(late_deltas(&world).expect("recovers"));
        world.check("after the wait");
        world.end(Restart::FromDeltas);
    }
    // Markers make offsets without records, at the end too: a target is a `seq` (H22).
    world.log.show_up_to(DELTA, Some(end - 2));
    let error = refused(&mut world);
    assert!(matches!(error, RecoveryError::DeltasEnd { committed: 5, found: 4 }), "{error}");
}

/// An offset and a delta of one commit that tell of two places, wherever that shows first.
#[test]
fn h38_a_place_that_the_deltas_or_the_state_contradict_is_refused() {
    let lie = |world: &World| {
        let true_one = world.log.committed(LANE, INPUT).expect("fake").expect("committed");
        world.log.set_committed(LANE, INPUT, Committed { offset: true_one.offset - 1, ..true_one });
    };
    // By the local state alone, whose deltas are all gone.
    let mut world = world(Kind::RocksDb, 4);
    lie(&world);
    world.log.drop_before(DELTA, world.log.bounds(DELTA).expect("fake").end);
    let error = refused(&mut world);
    assert!(matches!(error, RecoveryError::OffsetMoved { seq: 5, committed: 3, delta: 4 }), "{error}");
    // By a delta that shows late.
    let mut world = self::world(Kind::RocksDb, 4);
    world.end(Restart::FromDeltas);
    lie(&world);
    world.log.show_up_to(DELTA, Some(world.log.bounds(DELTA).expect("fake").end - 2));
    let error = late_deltas(&world).map(drop).expect_err("refused");
    let moved = matches!(error, LaneError::Recovery { error: RecoveryError::OffsetMoved { seq: 5, committed: 3, delta: 4 }, .. });
    assert!(moved, "{error}");
}

/// State of an operator that this version does not know, in the store and in a delta.
#[test]
fn h34_state_of_an_unknown_operator_stops_the_task() {
    let unknown = || forebay_schemas::wire::delta::Op { key: vec![0, 1, 0x7f, 9], value: Some(vec![1]) };
    let is_told = |error: &RecoveryError| matches!(error, RecoveryError::State(crate::state::StateError::UnknownUid(0x7f)));
    let mut world = world(Kind::RocksDb, 3);
    world.start().expect("starts");
    let backend = world.life().tasks[0].0.backend().clone();
    let meta = backend.meta().expect("readable").expect("there is one");
    backend.apply(&[unknown()], &meta).expect("applies");
    drop(backend);
    world.end(Restart::Stopped);
    let error = refused(&mut world);
    assert!(is_told(&error), "{error}");
    world.end(Restart::FromDeltas);
    let record = world.log.records(Topic::Delta, 0).pop().expect("a delta");
    let mut delta = forebay_schemas::wire::delta::decode(record.value.as_ref().expect("has a value")).expect("decodes");
    delta.ops.push(unknown());
    world.log.replace(DELTA, record.offset, forebay_schemas::wire::delta::encode(&delta).into());
    let error = refused(&mut world);
    assert!(is_told(&error), "{error}");
}

/// Where offsets are gone, the deltas still say of which layout and which input they are.
#[test]
fn h28_h38_deltas_alone_tell_another_number_of_partitions_and_another_input() {
    let mut world = world(Kind::RocksDb, 4);
    world.log.forget_offsets();
    let records = world.log.records(Topic::Delta, 0);
    let told = String::from_utf8(records[4].headers[0].1.to_vec()).expect("text");
    for (field, instead) in [("partitions=2", "partitions=3"), ("input=harvested-0", "input=another")] {
        let mut last = records[4].clone();
        last.headers[0].1 = told.replace(field, instead).into();
        world.log.remove(DELTA, 8);
        let entry = forebay_stores::log::Entry { key: last.key, value: last.value, headers: last.headers };
        world.log.append(vec![(DELTA, entry)]).expect("fake");
        let error = refused(&mut world);
        match &error {
            RecoveryError::Partitions { committed: 3, found: 2 } => assert!(instead.starts_with("partitions")),
            RecoveryError::OtherInput { seq: 5, other, found } => assert_eq!((other.as_str(), found.as_str()), ("another", "harvested-0")),
            other => panic!("another error: {other}"),
        }
        let end = world.log.bounds(DELTA).expect("fake").end;
        world.log.remove(DELTA, end - 1);
    }
}

/// A harvested topic that was made anew: the old place means nothing in it, even when it has as many records.
#[test]
fn h38_a_harvested_topic_made_anew_is_refused() {
    for kind in [Kind::Memory, Kind::RocksDb] {
        let mut world = world(kind, 4);
        world.log.recreate_topic(Topic::Harvested);
        (0..10).for_each(|n| world.log.append(vec![testing::event(0, n, Body::Fact(n), world.log.now())]).expect("fake"));
        let error = refused(&mut world);
        assert!(matches!(&error, RecoveryError::OtherInput { seq: 5, found, .. } if found == "harvested-1"), "{error}");
    }
}

/// Two starts of one machine: the later waits until the earlier has let its state go.
#[test]
fn local_state_that_another_process_holds_is_waited_for_and_told() {
    let mut world = world(Kind::RocksDb, 2);
    world.start().expect("starts");
    let held = Life::of(&world.plan()).map(drop).expect_err("held");
    assert!(held.to_string().contains("another process holds the local state in"), "{held}");
    let plan = Plan { patience: Duration::from_secs(30), ..world.plan() };
    let first = world.life.take();
    let life = std::thread::scope(|scope| {
        let second = scope.spawn(|| Life::of(&plan));
        let fenced = || world.log.opened()[LANE] == 4;
        super::threads::until("the second has fenced the first", fenced);
        drop(first);
        second.join().expect("no panic").expect("recovers")
    });
    world.life = Some(life);
    world.check("after the first has gone");
}

/// A folder that was copied from another system looks right in all but the ids of its topics.
#[test]
fn h38_a_state_folder_of_another_log_is_not_used() {
    let other = world(Kind::RocksDb, 3);
    let mut world = World::new(Kind::RocksDb, testing::pipeline(TTL, Collision::Bad));
    world.log.recreate();
    world.start().expect("starts");
    go_on(&mut world, 100, 6);
    world.end(Restart::FromDeltas);
    crate::state::tests::copy(other.dir.path(), world.dir.path());
    is_whole(&mut world, 100..106);
    // The topic of deltas alone made anew: what the folder has cannot be told from the log any more.
    world.event(1, 200, Body::Fact(0), NOW);
    world.run().expect("commits, so that both tasks are its own by their offsets");
    world.end(Restart::Stopped);
    world.log.recreate_topic(Topic::Delta);
    let error = refused(&mut world);
    assert!(matches!(error, RecoveryError::DeltasEnd { found: 0, .. }), "{error}");
}
