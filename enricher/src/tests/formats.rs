//! A roll-forward to the next format and back, with every kind of restart in between.

use super::*;
use crate::progress::Progress;
use crate::state::{Meta, Origin};
use forebay_stores::log::TopicPartition;
use std::ops::ControlFlow;

const DELTA: TopicPartition = TopicPartition { topic: Topic::Delta, partition: 0 };
const NOW: Duration = Duration::ZERO;

/// A version whose newest format is 1 is told nothing of format 2.
const OLD: Format = Format::of_a_version(1);

fn feed(world: &mut World, ids: std::ops::Range<u32>) {
    for n in ids {
        for partition in 0..PARTITIONS {
            world.event(partition, n, Body::Fact(0), NOW);
            world.event(partition, n.saturating_sub(5), Body::Fact(0), NOW);
            world.tick(partition, "g");
        }
        world.log.pass(Duration::from_millis(50));
    }
}

#[test]
fn versions_roll_forward_and_back_and_each_fact_is_told_once() {
    let new = Format::writing;
    for kind in [Kind::Memory, Kind::RocksDb] {
        for restart in Restart::ALL {
            let mut world = World::new(kind, testing::pipeline(Duration::from_secs(3600), Collision::Bad));
            let mut fed = 0;
            for (n, format) in [OLD, new(1), new(2), OLD, new(2), new(1), OLD].into_iter().enumerate() {
                let what = format!("{kind:?} {restart:?}, version {n}: {format:?}");
                world.format = format;
                world.start().unwrap_or_else(|error| panic!("{what}: {error}"));
                for _ in 0..4 {
                    feed(&mut world, fed..fed + 5);
                    fed += 5;
                    world.life().two_turns(7).expect("commits");
                    world.life().committer.flush_all().expect("flushes");
                }
                world.run().expect("commits");
                world.check(&what);
                // A batch in mid-air at the roll.
                feed(&mut world, fed..fed + 2);
                fed += 2;
                world.life().read(3).expect("reads");
                world.end(restart);
            }
            let formats: Vec<i32> = world.log.records(Topic::Delta, 0).iter().map(format_of).collect();
            assert!(formats.contains(&1) && formats.contains(&2));
        }
    }
}

fn format_of(record: &forebay_stores::log::Record) -> i32 {
    forebay_schemas::wire::delta::decode(record.value.as_ref().expect("a delta")).expect("decodes").format
}

/// What two formats on has is no longer this version's to read: local state is rebuilt, a delta stops the task.
#[test]
fn a_format_that_is_no_neighbours_is_refused() {
    let format = Format::writing(2);
    assert_eq!([0, 1, 2, 3, 4].map(|found| format.reads(found)), [false, true, true, true, false]);
    assert_eq!([0, 1, 2, 3].map(|found| OLD.reads(found)), [false, true, true, false]);
}

/// A value of the next format, with fields that nobody here knows, is read as far as it is known.
#[test]
fn the_next_formats_additions_are_passed_over() {
    let ahead = Format::ahead();
    let here = Format::writing(2);
    let origin = Origin { harvested: "h".into(), delta: "d".into(), partitions: 4 };
    let meta = Meta { seq: 7, offset: 70, origin, deltas_from: Some(12) };
    let mut progress = Progress::default();
    progress.advance(testing::START, Some(testing::START));
    let longer = |mut value: Vec<u8>| {
        value.extend_from_slice(b"what a later version appended");
        value
    };
    assert_eq!(Meta::decode(&longer(meta.encode(ahead)), here), Ok(meta.clone()));
    assert_eq!(Progress::decode(&longer(progress.encode(ahead)), here), Ok(progress.clone()));
    assert_eq!(Meta::decode(&meta.encode(here), OLD), Ok(Meta { deltas_from: None, ..meta.clone() }));
    assert_eq!(Meta::decode(&meta.encode(OLD), here), Ok(Meta { deltas_from: None, ..meta.clone() }));
    // Of its own format a value is read to its end, or it is broken.
    assert!(Meta::decode(&longer(meta.encode(here)), here).is_err());
    assert!(Progress::decode(&longer(progress.encode(here)), here).is_err());
}

/// In format 2 the store remembers where its deltas go on; in format 1 they are found from the end.
#[test]
fn a_start_reads_few_deltas_to_find_the_first_one() {
    let opened = |format: Format| {
        let mut world = World::new(Kind::RocksDb, testing::pipeline(Duration::from_secs(3600), Collision::Bad));
        world.format = format;
        world.start().expect("starts");
        let mut fed = 0;
        let mut go_on = |world: &mut World, commits: u32| {
            for _ in 0..commits {
                feed(world, fed..fed + 1);
                fed += 1;
                world.life().turn(100).expect("commits");
            }
        };
        go_on(&mut world, 300);
        // As the flush of each minute does it.
        for standing in world.life().committer.tasks.values_mut() {
            standing.flushed_at -= Duration::from_secs(61);
        }
        go_on(&mut world, 3);
        world.life().committer.flush_all().expect("flushes");
        go_on(&mut world, 20);
        let mut counts = Vec::new();
        for restart in [Restart::Killed, Restart::Stopped] {
            world.end(restart);
            let before = world.log.readers_opened();
            world.start().expect("starts");
            counts.push(world.log.readers_opened() - before);
            world.check("after the restart");
        }
        counts
    };
    // A task: in custody and in recovery one reader for the last delta, one for the input; behind: one to go on, one to search.
    assert_eq!(opened(Format::writing(2)), [2 * 4, 2 * 3]);
    assert_eq!(opened(Format::writing(1)), [2 * 5, 2 * 3]);
}

/// A remembered place that the topic no longer has is not used.
#[test]
fn a_remembered_place_that_is_gone_is_searched_for() {
    let mut world = World::new(Kind::RocksDb, testing::pipeline(Duration::from_secs(3600), Collision::Bad));
    world.format = Format::writing(2);
    world.start().expect("starts");
    feed(&mut world, 0..5);
    world.run().expect("commits");
    for standing in world.life().committer.tasks.values_mut() {
        standing.deltas_from = Some(1);
    }
    feed(&mut world, 5..10);
    world.life().turn(100).expect("commits");
    world.life().committer.flush_all().expect("flushes");
    feed(&mut world, 10..15);
    world.life().turn(100).expect("commits");
    world.end(Restart::Killed);
    world.log.drop_before(DELTA, 5);
    world.start().expect("starts");
    world.check("without the remembered place");
    let (task, _) = &world.life().tasks[0];
    let mut held = 0;
    for (from, to) in crate::state::key::uid_ranges(crate::state::key::Uid::Seen) {
        let scanned = task.backend().scan(&from, &to, &mut |_, _| {
            held += 1;
            ControlFlow::Continue(())
        });
        scanned.expect("scans");
    }
    assert_eq!(held, 15);
}
