//! Ids are forgotten by log time, and what held them is given back.

use super::*;
use crate::state::key;
use std::ops::ControlFlow;

const NOW: Duration = Duration::ZERO;

fn ids_held(world: &mut World) -> usize {
    let (task, _) = &world.life().tasks[0];
    let mut held = 0;
    for (from, to) in key::uid_ranges(key::Uid::Seen) {
        let scanned = task.backend().scan(&from, &to, &mut |_, _| {
            held += 1;
            ControlFlow::Continue(())
        });
        scanned.expect("scans");
    }
    held
}

#[test]
fn whole_generations_go_when_their_time_is_over() {
    for kind in [Kind::Memory, Kind::RocksDb] {
        let mut world = World::new(kind, testing::pipeline(Duration::from_secs(8), Collision::Bad));
        world.start().expect("starts");
        let mut most = 0;
        for second in 0..60u32 {
            for n in 0..10 {
                world.event(0, second * 10 + n, Body::Fact(0), NOW);
            }
            world.run().expect("commits");
            most = most.max(ids_held(&mut world));
            // Copies in the last half second of their horizon, and in the first behind it.
            world.log.pass(Duration::from_millis(500));
            for ago in [7, 8].into_iter().filter(|ago| *ago <= second && second % 3 == 0) {
                world.event(0, (second - ago) * 10 + ago, Body::Fact(0), NOW);
            }
            world.run().expect("commits");
            world.log.pass(Duration::from_millis(500));
        }
        assert!((80..=120).contains(&most), "8 s of 10 ids a second and one generation more: {most}");
        world.check("while ids expire");
        world.end(Restart::FromDeltas);
        world.start().expect("starts");
        assert!(ids_held(&mut world) <= 120, "what the deltas put again is given back too");
        // Silence, then one record: all others are over.
        world.log.pass(Duration::from_secs(3600));
        world.event(0, 590, Body::Fact(1), NOW);
        world.run().expect("commits");
        assert_eq!(ids_held(&mut world), 1);
        world.check("after the silence");
    }
}

/// What is over by the clock of a commit that never was is not over: after the crash its records are judged again.
#[test]
fn nothing_is_reclaimed_before_its_commit_is_known() {
    let mut world = World::new(Kind::RocksDb, testing::pipeline(Duration::from_secs(8), Collision::Bad));
    world.start().expect("starts");
    world.event(0, 1, Body::Fact(0), NOW);
    world.run().expect("commits");
    world.log.pass(Duration::from_secs(7));
    world.event(0, 1, Body::Fact(0), NOW);
    world.log.pass(Duration::from_secs(3600));
    world.event(0, 2, Body::Fact(0), NOW);
    world.log.fault(crate::testing::Fault::DieBefore);
    world.life().turn(100).expect_err("dies");
    world.end(Restart::Stopped);
    world.start().expect("starts again");
    world.run().expect("commits");
    world.check("judged again");
}

/// Generations are as long as the TTL that made them says; another TTL must still find them.
#[test]
fn another_ttl_finds_what_the_last_one_kept() {
    let mut world = World::new(Kind::RocksDb, testing::pipeline(Duration::from_secs(100), Collision::Bad));
    world.start().expect("starts");
    for n in 0..50 {
        world.event(0, n, Body::Fact(0), NOW);
        world.run().expect("commits");
        world.log.pass(Duration::from_secs(1));
    }
    for (ttl, alive) in [(20, 20), (70, 20), (10, 10)] {
        world.end(Restart::Stopped);
        world.pipeline = testing::pipeline(Duration::from_secs(ttl), Collision::Bad);
        world.models.iter_mut().for_each(|model| model.ttl = ttl as i64 * 1_000_000);
        world.start().expect("starts");
        let before = world.models[0].trusted.len();
        for n in (50 - alive + 1)..50 {
            world.event(0, n, Body::Fact(0), NOW);
        }
        world.run().expect("commits");
        assert_eq!(world.models[0].trusted.len(), before, "all of them are alive under {ttl} s");
        world.check("under another ttl");
    }
    world.event(0, 0, Body::Fact(0), NOW);
    world.run().expect("commits");
    world.check("and the others are not");
}

/// A generation that begins with one of a shorter TTL lasts as long as its own TTL says.
#[test]
fn a_longer_ttl_makes_a_generation_longer() {
    let (short, long) = (Duration::from_secs(20), Duration::from_secs(100));
    for kind in [Kind::Memory, Kind::RocksDb] {
        let mut world = World::new(kind, testing::pipeline(short, Collision::Bad));
        // Where generations of both begin.
        let span = long.as_micros() as i64 / 4;
        world.log.set_now(Micros((testing::START.0 / span + 1) * span));
        world.start().expect("starts");
        world.event(0, 1, Body::Fact(0), NOW);
        world.run().expect("commits");
        world.end(Restart::Stopped);
        world.pipeline = testing::pipeline(long, Collision::Bad);
        world.models.iter_mut().for_each(|model| model.ttl = long.as_micros() as i64);
        world.start().expect("starts");
        world.log.pass(Duration::from_secs(20));
        world.event(0, 2, Body::Fact(0), NOW);
        world.run().expect("commits");
        world.log.pass(Duration::from_secs(90));
        for id in [3, 2] {
            world.event(0, id, Body::Fact(0), NOW);
            world.run().expect("commits");
        }
        world.check("within the longer horizon");
    }
}
