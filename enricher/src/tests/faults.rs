//! Every way in which a commit can end, times every way to start again, for both backends.

use super::*;
use crate::testing::Fault;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const NOW: Duration = Duration::ZERO;

fn feed(world: &mut World, first: u32) {
    for n in first..first + 20 {
        for partition in 0..PARTITIONS {
            // Each id twice, the second time among the next ids.
            world.event(partition, n, Body::Fact(n), NOW);
            world.event(partition, n.saturating_sub(3), Body::Fact(n.saturating_sub(3)), NOW);
        }
        match n % 10 {
            3 => world.event(0, n, Body::Broken, NOW),
            4 => world.event(1, n, Body::Poison, NOW),
            5 => world.event(0, n, Body::Fact(n + 1), NOW),
            6 => world.event(1, 1000 + n, Body::Odd(n), NOW),
            7 => world.event(1, n, Body::Foreign, NOW),
            8 => world.tick(0, "g"),
            _ => {}
        }
        world.log.pass(Duration::from_millis(10));
    }
}

#[test]
fn h1_h12_whatever_becomes_of_a_commit_each_fact_is_told_once() {
    let pipeline = testing::pipeline(Duration::from_secs(3600), Collision::Bad);
    for kind in [Kind::Memory, Kind::RocksDb] {
        for fault in [Fault::Abort, Fault::UnknownApplied, Fault::UnknownNotApplied, Fault::Fence, Fault::DieBefore, Fault::DieAfter] {
            for restart in Restart::ALL {
                let what = format!("{kind:?} {fault:?} {restart:?}");
                let mut world = World::new(kind, pipeline.clone());
                feed(&mut world, 0);
                world.start().expect("starts");
                world.life().turn(7).expect("commits");
                world.life().committer.flush_all().expect("flushes");
                world.life().turn(5).expect("commits");
                world.log.fault(fault);
                let survived = world.life().two_turns(6);
                assert_eq!(survived.is_err(), matches!(fault, Fault::Fence | Fault::DieBefore | Fault::DieAfter), "{what}: {survived:?}");
                if survived.is_ok() {
                    world.run().expect("goes on");
                    world.check(&what);
                }
                world.end(restart);
                feed(&mut world, 15);
                world.start().expect("starts again");
                world.run().expect("goes on");
                world.check(&what);
            }
        }
    }
}

#[test]
fn a_fenced_lane_stops_and_says_so() {
    let mut world = World::new(Kind::Memory, testing::pipeline(SECOND, Collision::Bad));
    feed(&mut world, 0);
    world.start().expect("starts");
    world.life().turn(5).expect("commits");
    let _other = world.log.lane(LANE).expect("fake");
    let error = world.life().turn(5).expect_err("fenced");
    assert!(matches!(error, LaneError::Fenced(_)), "{error}");
}

/// A life that has committed once and stands still with its next batch in hand.
fn mid_commit() -> (World, Life, Vec<Cut>) {
    let mut world = World::new(Kind::Memory, testing::pipeline(SECOND, Collision::Bad));
    feed(&mut world, 0);
    world.start().expect("starts");
    world.life().turn(5).expect("commits");
    let mut life = world.life.take().expect("started");
    life.read(5).expect("reads");
    let cuts = life.cut();
    (world, life, cuts)
}

/// A zombie whose commit's outcome is unknown finds that its successor has moved on, and does not fight it.
#[test]
fn whoever_finds_another_commit_than_its_own_stops() {
    let (mut world, mut zombie, cuts) = mid_commit();
    world.start().expect("the successor starts");
    world.run().expect("and works");
    world.log.fault(Fault::UnknownNotApplied);
    // As if the answer to the zombie's last try, made before it was fenced, got lost.
    zombie.committer.lane = world.log.lane(LANE).expect("fake");
    let error = zombie.commit(cuts).expect_err("stops");
    assert!(matches!(error, LaneError::Moved { .. }), "{error}");
    world.check("successor");
}

/// Opening the lane to settle a commit would end the successor: a look that fences nobody comes first.
#[test]
fn a_zombie_sees_its_successor_and_leaves_it_alone() {
    let (mut world, mut zombie, cuts) = mid_commit();
    zombie.committer.overtaken(&cuts).expect("nobody has overtaken it yet");
    world.start().expect("the successor starts");
    world.life().turn(5).expect("and commits");
    let error = zombie.committer.overtaken(&cuts).expect_err("it is seen");
    assert!(matches!(error, LaneError::Moved { .. }), "{error}");
    // It looks by itself after a commit that took long.
    zombie.committer.long = Duration::ZERO;
    world.log.fault(Fault::UnknownNotApplied);
    let error = zombie.commit(cuts).expect_err("stops");
    assert!(matches!(error, LaneError::Moved { .. }), "{error}");
    world.run().expect("the successor works on");
    world.check("successor");
}

/// E5: while a commit is not known to have happened, no backend has anything of it.
#[test]
fn h1_a_backend_has_nothing_of_a_commit_before_it_is_known() {
    for kind in [Kind::Memory, Kind::RocksDb] {
        for fault in [None, Some(Fault::Abort), Some(Fault::UnknownNotApplied), Some(Fault::Fence)] {
            let mut world = World::new(kind, testing::pipeline(SECOND, Collision::Bad));
            feed(&mut world, 0);
            world.start().expect("starts");
            world.life().turn(5).expect("commits");
            let backend = world.life().tasks[0].0.backend().clone();
            let seq = move || backend.meta().expect("readable").map(|meta| meta.seq);
            let before = seq();
            fault.into_iter().for_each(|fault| world.log.fault(fault));
            let (seen, is) = (Arc::new(std::sync::Mutex::new(None)), seq.clone());
            let told = seen.clone();
            world.log.before_commit(LANE, move || *told.lock().expect("whole") = is());
            let done = world.life().turn(5);
            assert_eq!(*seen.lock().expect("whole"), before, "{kind:?} {fault:?}: before the commit");
            assert_eq!(seq() != before, done.is_ok(), "{kind:?} {fault:?}: after it");
        }
    }
}

/// A successor that came to the same place has committed something else: it was another life.
#[test]
fn a_commit_of_another_life_is_not_ones_own() {
    let (mut world, mut zombie, cuts) = mid_commit();
    world.start().expect("the successor starts");
    world.life().turn(5).expect("and commits the same records");
    let found = world.log.committed(LANE, crate::commit::input(0)).expect("fake").expect("committed");
    assert_eq!((found.offset, crate::commit::number(&found.metadata, "seq")), (cuts[0].committed.offset, Some(cuts[0].meta.seq)));
    world.log.fault(Fault::UnknownNotApplied);
    zombie.committer.lane = world.log.lane(LANE).expect("fake");
    let error = zombie.commit(cuts).expect_err("stops");
    assert!(matches!(error, LaneError::Moved { .. }), "{error}");
}

/// Tasks of one lane are committed in one transaction: what is found is all of it or nothing, or somebody else was here.
#[test]
fn a_commit_of_which_a_part_is_found_stops_the_lane() {
    let pair = || {
        let mut world = World::new(Kind::Memory, testing::pipeline(SECOND, Collision::Bad));
        feed(&mut world, 0);
        world.start().expect("starts");
        world.life().turn(5).expect("commits");
        world.log.fault(Fault::UnknownNotApplied);
        world
    };
    let mut world = pair();
    world.life().read(5).expect("reads");
    let cuts = world.life().cut();
    let (log, committed) = (world.log.clone(), cuts[0].committed.clone());
    world.log.before_lane(LANE, move || log.set_committed(LANE, crate::commit::input(0), committed));
    let error = world.life().commit(cuts).expect_err("stops");
    assert!(matches!(error, LaneError::Torn { .. }), "{error}");
    // A task that the commit leaves alone has moved.
    let mut world = pair();
    world.life().read(5).expect("reads");
    let mut cuts = world.life().cut();
    let other = cuts.pop().expect("two tasks");
    assert_eq!((cuts.len(), other.partition), (1, 1));
    world.log.set_committed(LANE, crate::commit::input(1), other.committed);
    let error = world.life().commit(cuts).expect_err("stops");
    assert!(matches!(error, LaneError::Moved { task: 1, .. }), "{error}");
}

#[derive(Clone, Debug)]
enum Step {
    Event { partition: i32, id: u32, body: Body, received_ago: Duration },
    Tick(i32),
    Pass(Duration),
    Turn { records: usize, ahead: bool },
    Flush,
    Fault(Fault),
    End(Restart),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let body = prop_oneof![
        20 => (0u32..3).prop_map(Body::Fact),
        2 => (0u32..3).prop_map(Body::Odd),
        2 => Just(Body::Broken),
        1 => Just(Body::Poison),
        1 => Just(Body::Foreign),
    ];
    let ago = prop_oneof![9 => Just(NOW), 1 => Just(Duration::from_secs(600))];
    let fault = prop_oneof![
        Just(Fault::Abort),
        Just(Fault::UnknownApplied),
        Just(Fault::UnknownNotApplied),
        Just(Fault::DieBefore),
        Just(Fault::DieAfter)
    ];
    let restart = prop_oneof![Just(Restart::Killed), Just(Restart::Stopped), Just(Restart::FromDeltas)];
    let step = prop_oneof![
        30 => (0..PARTITIONS, 0u32..12, body, ago)
            .prop_map(|(partition, id, body, received_ago)| Step::Event { partition, id, body, received_ago }),
        3 => (0..PARTITIONS).prop_map(Step::Tick),
        6 => (0u64..3_000).prop_map(|ms| Step::Pass(Duration::from_millis(ms))),
        10 => (1usize..9, any::<bool>()).prop_map(|(records, ahead)| Step::Turn { records, ahead }),
        1 => Just(Step::Flush),
        3 => fault.prop_map(Step::Fault),
        2 => restart.prop_map(Step::End),
    ];
    prop::collection::vec(step, 1..120)
}

fn walk(kind: Kind, pipeline: &Arc<Pipeline>, steps: Vec<Step>) {
    let mut world = World::new(kind, pipeline.clone());
    world.start().expect("starts");
    for step in steps {
        match step {
            Step::Event { partition, id, body, received_ago } => world.event(partition, id, body, received_ago),
            Step::Tick(partition) => world.tick(partition, "g"),
            Step::Pass(time) => world.log.pass(time),
            Step::Fault(fault) => world.log.fault(fault),
            Step::Flush => world.life().committer.flush_all().expect("flushes"),
            Step::Turn { records, ahead } => {
                let life = world.life();
                let done = if ahead { life.two_turns(records) } else { life.turn(records).map(drop) };
                if done.is_err() {
                    world.end(Restart::Killed);
                    world.start().expect("starts again");
                }
            }
            Step::End(restart) => {
                world.end(restart);
                world.start().expect("starts again");
            }
        }
    }
    while world.run().is_err() {
        world.end(Restart::Killed);
        world.start().expect("starts again");
    }
    world.check("at the end");
    world.end(Restart::FromDeltas);
    world.start().expect("starts again");
    world.check("from deltas");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn any_history_equals_the_model(steps in steps()) {
        walk(Kind::Memory, &testing::pipeline(4 * SECOND, Collision::Bad), steps);
    }
    #[test]
    fn any_history_equals_the_model_when_collisions_are_rekeyed(steps in steps()) {
        walk(Kind::Memory, &testing::pipeline(4 * SECOND, Collision::Rekey), steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_history_equals_the_model_on_disk(steps in steps()) {
        walk(Kind::RocksDb, &testing::pipeline(4 * SECOND, Collision::Bad), steps);
    }
}
