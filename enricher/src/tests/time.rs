//! Clocks that are wrong, and records that break a stage: neither changes what becomes of the others.

use super::*;
use crate::testing::START;

const NOW: Duration = Duration::ZERO;
const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn h41_a_brokers_wrong_clock_expires_nothing() {
    for kind in [Kind::Memory, Kind::RocksDb] {
        let mut world = World::new(kind, testing::pipeline(Duration::from_secs(3600), Collision::Bad));
        world.start().expect("starts");
        world.event(0, 1, Body::Fact(1), NOW);
        world.tick(0, "g");
        world.run().expect("commits");
        // The partition's leader moves to a broker that is a day ahead; the gateways are not.
        world.log.pass(DAY);
        for id in [2, 1, 2] {
            world.event(0, id, Body::Fact(1), DAY);
            world.run().expect("commits");
        }
        let held = |world: &mut World| world.life().tasks[0].0.progress().held;
        assert_eq!(held(&mut world), 3, "counted for the alarm");
        for restart in Restart::ALL {
            world.end(restart);
            world.start().expect("starts");
            world.event(0, 1, Body::Fact(1), DAY);
            world.run().expect("commits");
        }
        assert_eq!(held(&mut world), 6);
        // And back: time goes on from where the gateways are.
        world.log.set_now(START);
        world.log.pass(Duration::from_secs(1_800));
        world.event(0, 1, Body::Fact(1), NOW);
        world.run().expect("commits");
        assert_eq!(world.trusted(0).len(), 2, "each fact once");
        world.log.pass(Duration::from_secs(1_801));
        world.event(0, 1, Body::Fact(1), NOW);
        world.run().expect("commits");
        assert_eq!(world.trusted(0).len(), 3, "and it is forgotten when its time is over by the right clock");
        world.check("after the wrong clock");
    }
}

#[test]
fn h10_a_record_that_breaks_a_stage_is_bad_and_leaves_no_trace() {
    for restart in Restart::ALL {
        let mut world = World::new(Kind::RocksDb, testing::pipeline(Duration::from_secs(3600), Collision::Bad));
        world.start().expect("starts");
        for n in 0..4 {
            world.event(0, n, Body::Fact(1), NOW);
            world.event(0, n + 1, Body::Poison, NOW);
        }
        world.run().expect("no crash");
        world.end(restart);
        world.start().expect("no crash loop");
        // The broken ones' ids are free.
        world.event(0, 4, Body::Fact(1), NOW);
        world.run().expect("commits");
        world.check("beside poison");
        let panics: Vec<Reason> = world.bad(0).into_iter().map(|(_, reason)| reason).collect();
        assert_eq!(panics, [Reason::ProcessingPanic; 4]);
        assert_eq!(world.trusted(0).len(), 5);
    }
}
