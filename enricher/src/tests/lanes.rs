//! Lanes under layouts: who may commit a task when processes of several layouts live at once.

use super::threads::{total, until};
use super::*;
use crate::error::RecoveryError;
use crate::{Config, Enricher};
use forebay_stores::log::{Committed, TopicPartition};
use proptest::prelude::*;
use std::path::Path;

const NOW: Duration = Duration::ZERO;
/// So many that layouts of 1, 2 and 3 lanes are three.
const PARTITIONS: i32 = 4;

/// A process: all lanes of a layout, its state in memory.
struct Process {
    lives: Vec<Life>,
}

impl Process {
    fn start(world: &World, lanes: u32) -> Result<Process, LaneError> {
        let plans: Vec<Plan> = (0..lanes as i32).map(|lane| world.plan_of(lanes, lane)).collect();
        plans.iter().try_for_each(take)?;
        Ok(Process { lives: plans.iter().map(Life::of).collect::<Result<_, _>>()? })
    }

    /// One commit of each lane; a lane that fails is gone.
    fn turn(&mut self, records: usize) {
        self.lives.retain_mut(|life| life.turn(records).is_ok());
    }
}

fn world() -> World {
    World::of(Kind::Memory, testing::pipeline(Duration::from_secs(3600), Collision::Bad), PARTITIONS)
}

fn feed(world: &mut World, ids: std::ops::Range<u32>) {
    for n in ids {
        for partition in 0..PARTITIONS {
            world.event(partition, n, Body::Fact(0), NOW);
            world.event(partition, n.saturating_sub(2), Body::Fact(0), NOW);
        }
    }
}

/// The world ends well: one process takes in what is left, and everything is as the model says.
fn settle(world: &mut World, what: &str) {
    world.start().expect("starts");
    world.run().expect("commits");
    world.check(what);
    for partition in 0..PARTITIONS {
        let deltas = world.log.records(Topic::Delta, partition);
        let seqs =
            deltas.iter().map(|record| forebay_schemas::wire::delta::decode(record.value.as_ref().expect("a delta")).expect("decodes"));
        assert!(seqs.map(|delta| (delta.prev_seq, delta.seq)).eq((0..deltas.len() as i64).map(|n| (n, n + 1))), "{what}: one chain");
    }
}

/// The offset of the last holder shows before its last deltas do: who takes over waits for them.
#[test]
fn h16_h23_the_last_deltas_of_the_holder_are_waited_for() {
    let mut world = world();
    feed(&mut world, 0..6);
    let mut holder = Process::start(&world, 1).expect("starts");
    holder.turn(5);
    holder.turn(5);
    drop(holder);
    let delta = |partition| TopicPartition { topic: Topic::Delta, partition };
    for partition in 0..PARTITIONS {
        let end = world.log.bounds(delta(partition)).expect("fake").end;
        world.log.show_up_to(delta(partition), Some(end - 2));
    }
    let plans: Vec<Plan> = (0..2).map(|lane| Plan { patience: Duration::from_secs(30), ..world.plan_of(2, lane) }).collect();
    // Of those that are another lane's now: it is looked for again and again.
    let (log, before) = (world.log.clone(), world.log.asked(delta(1)));
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| plans.iter().try_for_each(take));
        until("it waits", || log.asked(delta(1)) > before + 16 || taken.is_finished());
        assert!(!taken.is_finished(), "it waits for what it was told of");
        (0..PARTITIONS).for_each(|partition| log.show_up_to(delta(partition), None));
        taken.join().expect("no panic").expect("takes over");
    });
    let mut successor = Process { lives: plans.iter().map(Life::of).collect::<Result<_, _>>().expect("recovers") };
    (0..10).for_each(|_| successor.turn(5));
    drop(successor);
    settle(&mut world, "after late deltas");
}

#[test]
fn h16_a_zombie_of_another_layout_is_fenced() {
    for old in 1..=3 {
        for new in 1..=3 {
            let what = format!("from {old} lanes to {new}");
            let mut world = world();
            feed(&mut world, 0..6);
            let mut zombie = Process::start(&world, old).expect("starts");
            zombie.turn(5);
            // In mid-batch when it is stopped.
            for life in &mut zombie.lives {
                life.read(4).expect("reads");
            }
            let mut successor = Process::start(&world, new).expect("starts");
            successor.turn(3);
            for mut life in zombie.lives {
                let cuts = life.cut();
                let error = life.commit(cuts).expect_err("fenced");
                assert!(matches!(error, LaneError::Fenced(_)), "{what}: {error}");
            }
            successor.turn(3);
            assert_eq!(successor.lives.len(), new as usize, "{what}: nobody fences the successor");
            drop(successor);
            settle(&mut world, &what);
        }
    }
}

/// A process may stand still between any two steps of its start; if another layout came meanwhile, it never begins.
#[test]
fn who_has_not_taken_its_tasks_over_cannot_commit_them() {
    let mut world = world();
    feed(&mut world, 0..6);
    Process::start(&world, 1).expect("starts").turn(2);
    // Stands still when it holds its tasks but has not opened its lanes.
    let late: Vec<Plan> = (0..2).map(|lane| world.plan_of(2, lane)).collect();
    late.iter().for_each(|plan| take(plan).expect("takes over"));
    let mut other = Process::start(&world, 1).expect("starts");
    let refused = Life::of(&late[1]).map(drop).expect_err("not its task any more");
    assert!(
        matches!(&refused, LaneError::Recovery { task: 1, error: RecoveryError::HeldByAnother { holder } } if holder == "job/0"),
        "{refused}"
    );
    // Stands still when it has opened them too: the other takes over from the very name.
    late.iter().for_each(|plan| take(plan).expect("takes over"));
    other.turn(2);
    assert_eq!(other.lives.len(), 0, "fenced by the take-over");
    let mut opened = Life::of(&late[1]).expect("opens");
    let mut last = Process::start(&world, 1).expect("starts");
    let error = opened.turn(2).expect_err("fenced");
    assert!(matches!(error, LaneError::Fenced(_)), "{error}");
    last.turn(2);
    assert_eq!(last.lives.len(), 1);
    drop(last);
    settle(&mut world, "at the end");
}

/// Between the look at who holds a task and the fence, somebody else may have taken it, under a name that is not fenced.
#[test]
fn who_holds_a_task_is_looked_at_again_after_the_fence() {
    let mut world = world();
    feed(&mut world, 0..6);
    Process::start(&world, 2).expect("starts").turn(2);
    // Task 1 goes from the second of two lanes to the one lane there is; two do that at once.
    let faster = world.plan_of(1, 0);
    let log = world.log.clone();
    world.log.before_lane("job/1", move || {
        take(&faster).expect("takes over");
        let mut life = Life::of(&faster).expect("opens");
        // Whoever commits under the old name now, commits beside this one.
        log.before_commit("job/1", move || assert!(life.turn(4).expect("commits")));
    });
    let mut slower = Process::start(&world, 1).expect("takes over from who was faster");
    slower.turn(4);
    assert_eq!(slower.lives.len(), 1);
    drop(slower);
    settle(&mut world, "after two take-overs");
}

#[test]
fn a_new_job_takes_its_tasks_once_and_an_old_log_is_taken_over() {
    let mut world = world();
    feed(&mut world, 0..3);
    world.start().expect("starts");
    world.run().expect("commits");
    let opened = world.log.opened();
    assert_eq!(opened.iter().map(|(id, n)| (id.as_str(), *n)).collect::<Vec<_>>(), [("job/0", 1), ("job/unclaimed", 1)]);
    world.end(Restart::Killed);
    world.start().expect("starts");
    assert_eq!(world.log.opened()["job/unclaimed"], 1, "a held task is not taken again");
    world.end(Restart::Killed);
    // Commits of a version that did not tell the layout.
    for partition in 0..PARTITIONS {
        let input = TopicPartition { topic: Topic::Harvested, partition };
        let delta = TopicPartition { topic: Topic::Delta, partition };
        world.log.strip_headers(delta);
        let Committed { offset, metadata } = world.log.committed(LANE, input).expect("fake").expect("committed");
        let metadata: Vec<&str> =
            metadata.split(';').filter(|field| !field.starts_with("lanes=") && !field.starts_with("input=")).collect();
        world.log.set_committed(LANE, input, Committed { offset, metadata: metadata.join(";") });
    }
    feed(&mut world, 3..6);
    settle(&mut world, "after an older version");
    assert_eq!(world.log.opened()["job/unclaimed"], 2);
}

#[derive(Clone, Debug)]
enum Step {
    Feed,
    Start { process: usize, lanes: u32 },
    Turn { process: usize, records: usize },
    Fault(testing::Fault),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use testing::Fault;
    let fault = prop_oneof![Just(Fault::Abort), Just(Fault::UnknownApplied), Just(Fault::UnknownNotApplied), Just(Fault::DieAfter)];
    let step = prop_oneof![
        3 => Just(Step::Feed),
        3 => (0usize..3, 1u32..4).prop_map(|(process, lanes)| Step::Start { process, lanes }),
        12 => (0usize..3, 1usize..6).prop_map(|(process, records)| Step::Turn { process, records }),
        2 => fault.prop_map(Step::Fault),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    /// Three machines that start under any layout at any time, each a zombie to the others.
    #[test]
    fn any_processes_under_any_layouts_tell_each_fact_once(steps in steps()) {
        let mut world = world();
        let mut processes: [Option<Process>; 3] = [None, None, None];
        let mut fed = 0;
        for step in steps {
            match step {
                Step::Feed => {
                    feed(&mut world, fed..fed + 4);
                    fed += 4;
                }
                // A start that meets a fault has failed; whoever runs the machine would start it again.
                Step::Start { process, lanes } => processes[process] = Process::start(&world, lanes).ok(),
                Step::Turn { process, records } => processes[process].iter_mut().for_each(|process| process.turn(records)),
                Step::Fault(fault) => world.log.fault(fault),
            }
        }
        while world.log.has_faults() {
            let _ = Process::start(&world, 2).map(|mut process| process.turn(1));
            feed(&mut world, fed..fed + 1);
            fed += 1;
        }
        settle(&mut world, "at the end");
    }
}

fn enricher(log: &FakeLog, dir: &Path, pipeline: &Arc<Pipeline>, lanes: u32, assign: Option<Vec<u32>>) -> Enricher {
    let mut config = Config::new(Kind::RocksDb);
    (config.lanes, config.assign) = (lanes, assign);
    config.commit_interval = "2ms".parse().expect("a span");
    Enricher::start(config, pipeline.clone(), Arc::new(log.clone()), dir, &prometheus::Registry::new()).expect("starts")
}

fn append(log: &FakeLog, partitions: i32, ids: std::ops::Range<u32>) {
    for n in ids {
        let partition = n as i32 % partitions;
        log.append(vec![testing::event(partition, n, Body::Fact(0), log.now())]).expect("fake");
    }
}

fn trusted_ids(log: &FakeLog, partitions: i32) -> Vec<String> {
    let records = (0..partitions).flat_map(|partition| log.records(Topic::Trusted, partition));
    let mut ids: Vec<String> = records.map(|record| String::from_utf8(record.key.to_vec()).expect("text")).collect();
    ids.sort();
    ids
}

fn ids(of: std::ops::Range<u32>) -> Vec<String> {
    let mut ids: Vec<String> = of.map(testing::event_id).collect();
    ids.sort();
    ids
}

#[test]
fn h17_processes_with_disjoint_lanes_work_side_by_side_with_one_producer_a_lane() {
    let log = FakeLog::new(5);
    let pipeline = testing::pipeline(Duration::from_secs(3600), Collision::Bad);
    let dirs = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let start = |n: usize, assign: &[u32]| enricher(&log, dirs[n].path(), &pipeline, 3, Some(assign.to_vec()));
    let (one, other) = (start(0, &[0, 2]), start(1, &[1]));
    until("both run", || one.ready().is_ok() && other.ready().is_ok());
    append(&log, 5, 0..200);
    until("everything is told", || total(&one, Outcome::Trusted) + total(&other, Outcome::Trusted) == 200);
    assert_eq!(total(&other, Outcome::Trusted), 80, "partitions 1 and 4");
    assert_eq!(trusted_ids(&log, 5), ids(0..200));
    let mut opened = log.opened();
    opened.remove("forebay/unclaimed");
    assert_eq!(opened.into_iter().collect::<Vec<_>>(), ["forebay/0", "forebay/1", "forebay/2"].map(|id| (id.to_owned(), 1)));
    // The rest of a layout is nothing to one that restarts.
    one.stop().expect("stops");
    let one = start(0, &[0, 2]);
    append(&log, 5, 200..300);
    until("everything is told", || total(&one, Outcome::Trusted) + total(&other, Outcome::Trusted) == 300);
    one.stop().expect("stops");
    other.stop().expect("was never fenced");
}

#[test]
fn a_lane_that_two_processes_claim_is_the_later_ones() {
    let log = FakeLog::new(4);
    let pipeline = testing::pipeline(Duration::from_secs(3600), Collision::Bad);
    let dirs = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let first = enricher(&log, dirs[0].path(), &pipeline, 2, None);
    append(&log, 4, 0..50);
    until("the first works", || total(&first, Outcome::Trusted) == 50);
    let second = enricher(&log, dirs[1].path(), &pipeline, 2, Some(vec![1]));
    until("the second runs", || second.ready().is_ok());
    append(&log, 4, 50..100);
    until("the first is fenced", || first.failed().is_some_and(|why| why.contains("another process runs this lane")));
    until("all is told", || trusted_ids(&log, 4).len() == 100);
    assert_eq!(trusted_ids(&log, 4), ids(0..100));
    assert!(first.stop().expect_err("fenced").starts_with("lane forebay/1: "));
    second.stop().expect("stops");
}

/// Starts under any layout at the same time, on real threads: at most one of them works in the end, nothing is told twice.
#[test]
fn starts_that_race_leave_one_chain() {
    let log = FakeLog::new(3);
    let pipeline = testing::pipeline(Duration::from_secs(3600), Collision::Bad);
    std::thread::scope(|scope| {
        for machine in 0..3u32 {
            let (log, pipeline) = (log.clone(), pipeline.clone());
            scope.spawn(move || {
                let dir = tempfile::tempdir().expect("a folder");
                for round in 0..8 {
                    let enricher = enricher(&log, dir.path(), &pipeline, 1 + (machine + round) % 3, None);
                    append(&log, 3, (machine * 1_000 + round * 20)..(machine * 1_000 + round * 20 + 20));
                    until("it runs or is beaten", || enricher.ready().is_ok() || enricher.failed().is_some());
                    let _beaten = enricher.stop();
                }
            });
        }
    });
    let dir = tempfile::tempdir().expect("a folder");
    let last = enricher(&log, dir.path(), &pipeline, 2, None);
    until("everything is counted", || total(&last, Outcome::Trusted) == 480);
    last.stop().expect("stops");
    let mut all: Vec<String> = (0..3).flat_map(|machine| ids(machine * 1_000..machine * 1_000 + 160)).collect();
    all.sort();
    assert_eq!(trusted_ids(&log, 3), all);
}

#[test]
fn lanes_without_partitions_are_refused_at_the_start() {
    let mut config = Config::new(Kind::Memory);
    (config.lanes, config.assign) = (4, Some(vec![3]));
    let pipeline = testing::pipeline(Duration::from_secs(1), Collision::Bad);
    let started = Enricher::start(config, pipeline, Arc::new(FakeLog::new(3)), Path::new(""), &prometheus::Registry::new()).map(drop);
    assert!(started.expect_err("refused").to_string().starts_with("enricher.assign: "));
}
