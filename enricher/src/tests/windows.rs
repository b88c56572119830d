//! Windows through faults and crashes: results are those of the log, whatever happened to the processes that told them.

use super::*;
use crate::progress::{NEVER, Progress};
use crate::testing::Fault;
use forebay_enricher_core::Options;
use forebay_enricher_core::combine::window::declare::{Declaration, Kind as WindowKind};
use forebay_schemas::topic::PUBLISHED_THROUGH;
use forebay_schemas::wire::late;
use forebay_schemas::wire::window as wire;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000;

fn declared(uid: &str, kind: WindowKind, key: &[&str], lateness: i64) -> Declaration {
    let values = [("n", "count"), ("sum", "sum(properties.quantity)")];
    Declaration {
        uid: uid.into(),
        kind,
        key: key.iter().map(|path| (*path).to_owned()).collect(),
        conditions: BTreeMap::new(),
        values: values.map(|(name, text)| (name.to_owned(), text.to_owned())).into(),
        lateness_micros: lateness * SECOND,
        update_micros: None,
    }
}

/// Size and slide in seconds, lateness.
const PANES: [(&str, i64, i64, i64); 3] = [("tumbling", 10, 10, 0), ("late", 10, 10, 15), ("sliding", 30, 10, 5)];
const SESSIONS: &str = "sessions";

fn pipeline() -> Arc<Pipeline> {
    let panes = PANES.map(|(uid, size, slide, lateness)| {
        let (size_micros, slide_micros) = (size * SECOND, slide * SECOND);
        let kind = if size == slide {
            WindowKind::Tumbling { size_micros, zone: None }
        } else {
            WindowKind::Sliding { size_micros, slide_micros, zone: None }
        };
        declared(uid, kind, if uid == "sliding" { &[] } else { &["anonymous_id", "event_type"] }, lateness)
    });
    let sessions = declared(SESSIONS, WindowKind::Session { gap_micros: 7 * SECOND }, &["anonymous_id"], 4);
    testing::pipeline_of(Options::default(), &[panes.as_slice(), &[sessions]].concat())
}

/// What happens to the log.
#[derive(Clone, Debug)]
enum Step {
    /// Somebody's event, so many seconds old; `again`: a copy of one before.
    Event {
        who: u8,
        age: i64,
        quantity: i64,
        again: bool,
    },
    Tick {
        partition: i32,
    },
    Pass(i64),
}

/// What happens to the process.
#[derive(Clone, Debug)]
enum Turn {
    Read(usize),
    Two(usize),
    Fault(Fault),
    Restart(Restart),
}

#[derive(Default)]
struct Script {
    ids: u32,
}

impl Script {
    fn step(&mut self, world: &World, step: &Step) {
        match step {
            Step::Event { who, age, quantity, again } => {
                // Copies keep their key, and so their partition.
                let partition = i32::from(*who) % PARTITIONS;
                self.ids += u32::from(!*again);
                let now = world.log.now();
                let (id, quantity) = if *again { (self.ids, 0) } else { (self.ids, *quantity) };
                let at = now.saturating_add_micros(-age * SECOND);
                world
                    .log
                    .append(vec![testing::fact(partition, id * 10 + u32::from(*who), &format!("w{who}"), quantity, at, now)])
                    .expect("fake");
            }
            Step::Tick { partition } => {
                world.log.append(vec![testing::tick(*partition, "g", world.log.now())]).expect("fake");
            }
            Step::Pass(seconds) => world.log.pass(Duration::from_secs(seconds.unsigned_abs())),
        }
    }

    /// Time goes on until nothing is open.
    fn finish(&mut self, world: &mut World) {
        for _ in 0..10 {
            self.step(world, &Step::Pass(10));
            (0..PARTITIONS).for_each(|partition| self.step(world, &Step::Tick { partition }));
            world.run().expect("commits");
        }
    }
}

type Row = (i64, bool, i64, String);

/// Results of a window in the order of each partition: key and start → (end, final, revision, values).
fn results(world: &World, uid: &str) -> BTreeMap<(String, i64), Vec<Row>> {
    let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for partition in 0..PARTITIONS {
        for record in world.log.records(Topic::Windows, partition) {
            let value = record.value.expect("a value");
            let row = wire::decode(&value).expect("decodes");
            assert_eq!(record.key, format!("{} {}", row.window, row.key));
            if row.window == uid {
                let told = (row.end.0, row.is_final, row.revision, row.values.into_owned());
                rows.entry((row.key.into_owned(), row.start.0)).or_default().push(told);
            }
        }
    }
    for (place, rows) in &rows {
        let revisions: Vec<i64> = rows.iter().map(|row| row.2).collect();
        assert_eq!(revisions, (1..=rows.len() as i64).collect::<Vec<_>>(), "{uid} {place:?}");
        let finals: Vec<usize> = (0..rows.len()).filter(|n| rows[*n].1).collect();
        assert_eq!(finals, [rows.len() - 1], "{uid} {place:?}: the last one is final, and no other");
    }
    rows
}

/// (window, offset of the event, start of the window, how late), in the order of each partition.
fn late_events(world: &World) -> Vec<(String, i32, i64, i64, i64)> {
    let of = |partition| world.log.records(Topic::Late, partition);
    let records = (0..PARTITIONS).flat_map(of).map(|record| {
        let value = record.value.expect("a value");
        let late = late::decode(&value).expect("decodes");
        let (missed, place) = (late.missed, late.event.provenance);
        (missed.window.into_owned(), place.partition, place.offset, missed.start.0, missed.by_micros)
    });
    records.collect()
}

/// By definition, of what the log holds: key and start → (count, sum); and who was late.
fn reference(
    world: &World,
    uid: &str,
    size: i64,
    slide: i64,
    lateness: i64,
) -> (BTreeMap<(String, i64), (i64, i64)>, Vec<(String, i32, i64, i64, i64)>) {
    let (size, slide, lateness) = (size * SECOND, slide * SECOND, lateness * SECOND);
    let (mut windows, mut missed) = (BTreeMap::new(), Vec::new());
    for partition in 0..PARTITIONS {
        let rules = world.plan().rules.time;
        let trusted: BTreeMap<i64, (i64, i64, String)> = world
            .log
            .records(Topic::Trusted, partition)
            .into_iter()
            .map(|record| {
                let value = record.value.expect("a value");
                let event = trusted::decode(&value).expect("decodes");
                let quantity = event.properties.trim_start_matches(r#"{"quantity":"#).trim_end_matches('}').parse().expect("a number");
                let key = if uid == "sliding" {
                    "{}".to_owned()
                } else {
                    let who = event.anonymous_id.as_deref().expect("somebody");
                    format!(r#"{{"anonymous_id":"{who}","event_type":"product_viewed"}}"#)
                };
                (event.provenance.offset, (event.event_time.0, quantity, key))
            })
            .collect();
        let mut progress = Progress::default();
        for record in world.log.records(Topic::Harvested, partition) {
            if record.value.is_none() {
                let (_, through) = record.headers.iter().find(|(name, _)| name == PUBLISHED_THROUGH).expect("a tick");
                let through = Micros(std::str::from_utf8(through).expect("text").parse().expect("a number"));
                progress.advance(record.timestamp, Some(through));
                progress.tick("g", through, rules);
            } else {
                progress.advance(record.timestamp, Some(record.timestamp));
            }
            let Some((at, quantity, key)) = trusted.get(&record.offset) else { continue };
            let watermark = progress.watermark.unwrap_or(NEVER).0;
            let last = at.div_euclid(slide) * slide;
            let mut newest_missed = None;
            for start in (0..size / slide).map(|n| last - n * slide) {
                if (start + size).saturating_add(lateness) > watermark {
                    let (count, sum) = windows.entry((key.clone(), start)).or_insert((0, 0));
                    (*count, *sum) = (*count + 1, *sum + quantity);
                } else if newest_missed.is_none() {
                    newest_missed = Some((uid.to_owned(), partition, record.offset, start, watermark - (start + size)));
                }
            }
            missed.extend(newest_missed);
        }
    }
    (windows, missed)
}

fn check(world: &World) {
    let late = late_events(world);
    for (uid, size, slide, lateness) in PANES {
        let (windows, missed) = reference(world, uid, size, slide, lateness);
        let told: BTreeMap<(String, i64), (i64, String)> = results(world, uid)
            .into_iter()
            .map(|(place, rows)| (place, rows.last().map(|row| (row.0, row.3.clone())).expect("told")))
            .collect();
        let expected = windows
            .into_iter()
            .map(|((key, start), (count, sum))| ((key, start), (start + size * SECOND, format!(r#"{{"n":{count},"sum":{sum}}}"#))));
        assert_eq!(told, expected.collect(), "{uid}");
        assert_eq!(late.iter().filter(|late| late.0 == uid).cloned().collect::<Vec<_>>(), missed, "{uid}");
    }
    let life = world.life.as_ref().expect("started");
    let counted: u64 = life.tasks.iter().flat_map(|(task, _)| task.totals().everything().late).map(|(_, count)| count).sum();
    assert_eq!(counted, late.len() as u64, "each late event is counted once");
    assert_eq!(life.tasks.iter().map(|(task, _)| task.windows().timers()).sum::<usize>(), 0, "nothing is left open");
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let event = (0..4_u8, prop_oneof![4 => 0..15_i64, 1 => 0..90_i64], -50..50_i64, prop::bool::weighted(0.1))
        .prop_map(|(who, age, quantity, again)| Step::Event { who, age, quantity, again });
    let tick = (0..PARTITIONS).prop_map(|partition| Step::Tick { partition });
    let step = prop_oneof![6 => event, 3 => tick, 2 => prop_oneof![Just(1_i64), 1..15_i64].prop_map(Step::Pass)];
    prop::collection::vec(step, 1..80)
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let fault =
        prop::sample::select(vec![Fault::Abort, Fault::UnknownApplied, Fault::UnknownNotApplied, Fault::DieBefore, Fault::DieAfter]);
    let turn = prop_oneof![
        5 => (1..20_usize).prop_map(Turn::Read),
        3 => (1..20_usize).prop_map(Turn::Two),
        1 => fault.prop_map(Turn::Fault),
        1 => prop::sample::select(Restart::ALL.to_vec()).prop_map(Turn::Restart),
    ];
    prop::collection::vec(turn, 1..40)
}

/// One record at a time, and nothing goes wrong.
fn calm(pipeline: &Arc<Pipeline>, steps: &[Step]) -> World {
    let (mut world, mut script) = (World::new(Kind::Memory, pipeline.clone()), Script::default());
    world.start().expect("starts");
    for step in steps {
        script.step(&world, step);
        while world.life().turn(1).expect("commits") {}
    }
    script.finish(&mut world);
    world
}

/// The same log, read in other pieces, by processes that come and go.
fn stormy(kind: Kind, pipeline: &Arc<Pipeline>, steps: &[Step], turns: &[Turn]) -> World {
    let (mut world, mut script) = (World::new(kind, pipeline.clone()), Script::default());
    world.start().expect("starts");
    let mut turns = turns.iter().cycle();
    for (n, step) in steps.iter().enumerate() {
        script.step(&world, step);
        if n % 3 == 0 {
            turn(&mut world, turns.next().expect("at least one"));
        }
    }
    while world.log.has_faults() {
        turn(&mut world, &Turn::Read(5));
        script.step(&world, &Step::Tick { partition: 0 });
    }
    script.finish(&mut world);
    world
}

fn turn(world: &mut World, turn: &Turn) {
    let ended = match turn {
        Turn::Read(records) => world.life().turn(*records).map(drop),
        Turn::Two(records) => world.life().two_turns(*records),
        Turn::Fault(fault) => {
            world.log.fault(*fault);
            Ok(())
        }
        Turn::Restart(restart) => {
            world.end(*restart);
            world.start()
        }
    };
    if ended.is_err() {
        world.end(Restart::Killed);
        world.start().expect("starts again");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn results_are_those_of_the_log(steps in steps(), turns in turns(), kind in prop::sample::select(vec![Kind::Memory, Kind::RocksDb])) {
        let pipeline = pipeline();
        let calm = calm(&pipeline, &steps);
        check(&calm);
        let stormy = stormy(kind, &pipeline, &steps, &turns);
        // The storm's faults are outlived by ticks of its own; those of before are the same.
        if calm.log.records(Topic::Harvested, 0).len() == stormy.log.records(Topic::Harvested, 0).len() {
            prop_assert_eq!(results(&calm, SESSIONS), results(&stormy, SESSIONS));
            prop_assert_eq!(late_events(&calm), late_events(&stormy));
        }
        check(&stormy);
    }
}
