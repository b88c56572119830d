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
/// A version that knows no format but the first, and one that knows two.
const FORMATS: [Format; 3] = [Format::of_a_version(1), Format::writing(1), Format::writing(2)];

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
    let mut sessions = declared(SESSIONS, WindowKind::Session { gap_micros: 7 * SECOND }, &["anonymous_id"], 4);
    sessions.values.insert("quantities".to_owned(), "distinct(properties.quantity)".to_owned());
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
    /// Under the next version, or the one before.
    Restart(Restart, Format),
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

/// Window, partition and offset of the event, start of the window, how late.
type LateRow = (String, i32, i64, i64, i64);

/// Key and start → count and sum.
type Sums = BTreeMap<(String, i64), (i64, i64)>;

/// Late events, in the order of each partition.
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
fn reference(world: &World, uid: &str, size: i64, slide: i64, lateness: i64) -> (Sums, Vec<LateRow>) {
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
        1 => (prop::sample::select(Restart::ALL.to_vec()), prop::sample::select(FORMATS.to_vec()))
            .prop_map(|(restart, format)| Turn::Restart(restart, format)),
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
        Turn::Restart(restart, format) => {
            world.end(*restart);
            world.format = *format;
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

fn tumbling(uid: &str) -> Declaration {
    declared(uid, WindowKind::Tumbling { size_micros: 10 * SECOND, zone: None }, &["anonymous_id"], 0)
}

fn world(kind: Kind, windows: &[Declaration]) -> World {
    let mut world = World::new(kind, testing::pipeline_of(Options::default(), windows));
    world.start().expect("starts");
    world
}

fn append(world: &World, partition: i32, id: u32, who: &str, ago: Duration) {
    let now = world.log.now();
    let at = now.saturating_add_micros(-(ago.as_micros() as i64));
    world.log.append(vec![testing::fact(partition, id, who, 1, at, now)]).expect("fake");
}

fn tick(world: &World, partition: i32, gateway: &str) {
    world.log.append(vec![testing::tick(partition, gateway, world.log.now())]).expect("fake");
}

/// Of all partitions: key, start, values; in no order.
fn told(world: &World, uid: &str) -> Vec<(String, i64, String)> {
    let rows = results(world, uid).into_iter();
    rows.map(|((key, start), rows)| (key, (start - testing::START.0) / SECOND, rows.last().expect("told").3.clone())).collect()
}

fn refused(world: &mut World) -> String {
    world.start().expect_err("refused").to_string()
}

#[test]
fn another_meaning_under_a_known_uid_is_refused_with_the_way_out() {
    for kind in [Kind::Memory, Kind::RocksDb] {
        let mut world = world(kind, &[tumbling("a"), tumbling("b")]);
        append(&world, 0, 1, "x", Duration::ZERO);
        world.run().expect("commits");
        let with = |world: &mut World, windows: &[Declaration]| {
            world.end(Restart::Stopped);
            world.pipeline = testing::pipeline_of(Options::default(), windows);
        };
        with(&mut world, &[tumbling("a"), declared("b", WindowKind::Session { gap_micros: SECOND }, &["user_id"], 0)]);
        let error = refused(&mut world);
        assert!(error.contains("window b is declared otherwise than before") && error.contains("--allow-dropped-state b"), "{error}");
        with(&mut world, &[tumbling("a")]);
        let error = refused(&mut world);
        assert!(error.contains("state holds window b") && error.contains("--allow-dropped-state b"), "{error}");
        // Let go, and never again.
        world.changes.dropped_windows = vec!["b".to_owned()];
        world.start().expect("starts");
        append(&world, 0, 2, "x", Duration::ZERO);
        world.run().expect("commits");
        let entries = |world: &mut World, part: &[u8]| {
            let mut count = 0;
            for (task, _) in &world.life().tasks {
                let each = &mut |key: &[u8], _: &[u8]| {
                    count += usize::from(key.windows(part.len()).any(|bytes| bytes == part));
                    std::ops::ControlFlow::Continue(())
                };
                task.backend().scan(&[0], &[0xff], each).expect("a scan");
            }
            count
        };
        assert_eq!((entries(&mut world, b"b\0{"), entries(&mut world, b"a\0{") > 0), (0, true));
        world.changes.dropped_windows.clear();
        for restart in Restart::ALL {
            world.end(restart);
            world.start().expect("starts, and need not be told again");
        }
        with(&mut world, &[tumbling("a"), tumbling("b")]);
        let error = refused(&mut world);
        assert!(error.contains("window b was let go before"), "{error}");
        with(&mut world, &[tumbling("a"), tumbling("c")]);
        world.start().expect("another uid is another window");
    }
}

/// The first version has not heard that clocks in London are set forward on 2027-03-28: by it they go as those in Abidjan.
#[test]
fn what_has_begun_keeps_its_bounds_when_the_rules_of_its_zone_change() {
    let day = |zone: &str| {
        let kind = WindowKind::Tumbling { size_micros: 86_400 * SECOND, zone: Some(zone.to_owned()) };
        testing::pipeline_of(Options::default(), &[declared("day", kind, &["event_type"], 0)]).windows().to_vec()
    };
    let next = day("Europe/London");
    let mut former = day("Africa/Abidjan");
    former[0].meaning.clone_from(&next[0].meaning);
    let time = |text: &str| Micros::parse_rfc3339(text).expect("a time");
    for (kind, restart) in [Kind::Memory, Kind::RocksDb].into_iter().flat_map(|kind| Restart::ALL.map(|restart| (kind, restart))) {
        let mut world = World::new(kind, testing::pipeline_having(Options::default(), former.clone()));
        world.start().expect("starts");
        let event = |world: &mut World, id: u32, at: &str| {
            world.log.set_now(time(at));
            append(world, 0, id, "x", Duration::ZERO);
            (0..PARTITIONS).for_each(|partition| tick(world, partition, "g"));
            world.run().expect("commits");
        };
        event(&mut world, 1, "2027-03-28T12:00:00Z");
        world.end(restart);
        world.pipeline = testing::pipeline_having(Options::default(), next.clone());
        let error = refused(&mut world);
        let parts =
            ["window day", "began at 2027-03-28T00:00:00", "end at 2027-03-29T00:00:00", "--zone-rules-since", "at 2027-03-30T00:00:00"];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        // Not before all that has begun is over.
        world.changes.zone_rules_since = Some(time("2027-03-28T12:00:00Z"));
        assert!(refused(&mut world).contains("--zone-rules-since"));
        world.changes.zone_rules_since = Some(time("2027-03-30T00:00:00Z"));
        world.start().expect("starts");
        event(&mut world, 2, "2027-03-28T22:30:00Z");
        event(&mut world, 3, "2027-03-28T23:30:00Z");
        // It is known from now on.
        world.changes = StateChanges::default();
        world.end(restart);
        world.start().expect("starts again");
        event(&mut world, 4, "2027-03-29T23:30:00Z");
        event(&mut world, 5, "2027-03-30T22:30:00Z");
        world.end(restart);
        world.start().expect("starts again");
        for (id, at) in [(6, "2027-03-30T23:30:00Z"), (7, "2027-04-01T12:00:00Z"), (8, "2027-04-02T12:00:00Z")] {
            event(&mut world, id, at);
        }
        let rows: Vec<(String, String, String)> = results(&world, "day")
            .into_iter()
            .map(|((_, start), rows)| (Micros(start).to_rfc3339(), Micros(rows[0].0).to_rfc3339(), rows[0].3.clone()))
            .collect();
        let expected = [
            ("2027-03-28T00", "2027-03-29T00", 3),
            ("2027-03-29T00", "2027-03-30T00", 1),
            // What is left of the day by the new rules.
            ("2027-03-30T00", "2027-03-30T23", 1),
            ("2027-03-30T23", "2027-03-31T23", 1),
            ("2027-03-31T23", "2027-04-01T23", 1),
        ];
        let hour = |hour: &str| format!("{hour}:00:00.000000Z");
        assert_eq!(
            rows,
            expected.map(|(start, end, n)| (hour(start), hour(end), format!(r#"{{"n":{n},"sum":{n}}}"#))),
            "{kind:?} {restart:?}"
        );
    }
}

/// A process with an older list must not pass over parts of a window that it does not know.
#[test]
fn a_part_of_an_unknown_window_stops_the_task() {
    let mut world = world(Kind::Memory, &[tumbling("a")]);
    append(&world, 0, 1, "x", Duration::ZERO);
    world.run().expect("commits");
    let part = forebay_schemas::wire::partials::encode(&forebay_schemas::wire::partials::Partials {
        format: 1,
        task: 1,
        watermark: world.log.now(),
        partials: vec![forebay_schemas::wire::partials::Partial {
            window: "newer".into(),
            key: "{}".into(),
            bucket: testing::START,
            since: None,
            kept: Vec::new().into(),
        }],
    });
    let at = forebay_stores::log::TopicPartition { topic: Topic::Repartition, partition: 0 };
    let append = |value: Option<Vec<u8>>| {
        let entry = forebay_stores::log::Entry { key: "1".into(), value: value.map(Into::into), headers: Vec::new() };
        world.log.append(vec![(at, entry)]).expect("fake");
    };
    append(Some(part));
    let error = world.run().expect_err("stops").to_string();
    assert!(error.contains("a part of window newer has come") && error.contains("the same [[window]] list"), "{error}");
    // What nobody can read neither; the local state is not blamed for it.
    let unreadable = forebay_schemas::wire::partials::encode(&forebay_schemas::wire::partials::Partials {
        format: 1,
        task: 1,
        watermark: world.log.now(),
        partials: vec![forebay_schemas::wire::partials::Partial {
            window: "a".into(),
            key: "{}".into(),
            bucket: testing::START,
            since: None,
            kept: vec![9].into(),
        }],
    });
    for value in [None, Some(vec![1, 2, 3]), Some(unreadable)] {
        let mut other = self::world(Kind::Memory, &[tumbling("a")]);
        let entry = forebay_stores::log::Entry { key: "1".into(), value: value.map(Into::into), headers: Vec::new() };
        other.log.append(vec![(at, entry)]).expect("fake");
        let error = other.run().expect_err("stops").to_string();
        assert!(error.contains("repartition topic, partition 0, offset 0"), "{error}");
    }
}

/// The brokers are away for two hours while the gateway acknowledges; then all of it comes at once, beside new events.
#[test]
fn h42_a_backlog_changes_no_result_and_is_not_late() {
    let windows = [tumbling("w"), declared("s", WindowKind::Session { gap_micros: 30 * SECOND }, &["anonymous_id"], 0)];
    let pipeline = testing::pipeline_of(Options::default(), &windows);
    let run = |outage: bool| {
        let mut world = World::new(Kind::Memory, pipeline.clone());
        world.start().expect("starts");
        let began = world.log.now();
        let mut backlog = Vec::new();
        // A tick is put on the log when all before it is: while the brokers are away there is none.
        for minute in 0..180_i64 {
            let received = began.saturating_add_micros(minute * 60 * SECOND);
            let is_away = outage && (20..140).contains(&minute);
            for partition in 0..PARTITIONS {
                let who = format!("p{partition}");
                let id = u32::try_from(minute * 2).expect("small") + u32::try_from(partition).expect("small");
                backlog.push(testing::fact(partition, id, &who, minute, received.saturating_add_micros(-2 * SECOND), received));
            }
            backlog.extend((0..PARTITIONS).map(|partition| testing::tick(partition, "g", received)));
            world.log.set_now(received);
            if !is_away {
                // Ten records at a time, so that old and new ones share batches.
                for some in std::mem::take(&mut backlog).chunks(10) {
                    world.log.append(some.to_vec()).expect("fake");
                    world.life().turn(7).expect("commits");
                }
            }
        }
        Script::default().finish(&mut world);
        world
    };
    let (calm, outage) = (run(false), run(true));
    assert_eq!(late_events(&outage), []);
    for uid in ["w", "s"] {
        assert!(told(&calm, uid).len() >= 360, "{}", told(&calm, uid).len());
        assert_eq!(told(&calm, uid), told(&outage, uid));
    }
}

/// One client a day ahead, one a year behind, one partition without events, one of three gateways dead.
#[test]
fn nobody_elses_clock_moves_a_result() {
    let pipeline = testing::pipeline_of(Options::default(), &[tumbling("w")]);
    let run = |strange: bool| {
        let mut world = World::new(Kind::Memory, pipeline.clone());
        world.start().expect("starts");
        for second in 0..1_200_u32 {
            world.log.pass(Duration::from_secs(1));
            if second % 5 == 0 {
                append(&world, 0, second * 10, "well", Duration::from_secs(1));
            }
            if strange && second % 7 == 0 {
                let now = world.log.now();
                let day = 86_400 * SECOND;
                let fact = |id, who, at: i64| testing::fact(0, id, who, 1, now.saturating_add_micros(at), now);
                world.log.append(vec![fact(second * 10 + 1, "ahead", day), fact(second * 10 + 2, "behind", -365 * day)]).expect("fake");
            }
            for gateway in ["g1", "g2", "g3"] {
                if gateway != "g3" || !strange || second < 300 {
                    (0..PARTITIONS).for_each(|partition| tick(&world, partition, gateway));
                }
            }
            world.life().turn(50).expect("commits");
        }
        world.run().expect("commits");
        world
    };
    let rows = |world: &World, key: &str| {
        told(world, "w").into_iter().filter(|(of, ..)| of == key).map(|(_, start, values)| (start, values)).collect::<Vec<_>>()
    };
    let (calm, world) = (run(false), run(true));
    let well = told(&calm, "w").pop().expect("told").0;
    assert_eq!(rows(&calm, &well), rows(&world, &well));
    let ends = |world: &World| told(world, "w").iter().map(|(_, start, _)| *start + 10).max();
    assert_eq!((ends(&calm), ends(&world)), (Some(1_190), Some(1_190)), "closed within the delay and two seconds of log time");
    assert_eq!(rows(&calm, &well).len(), 119);
    // A clock ahead is taken as the receiving time; one a year behind is late, and told so.
    let late = late_events(&world);
    assert_eq!(late.len(), 1_200_usize.div_ceil(7) - 1, "all but the one of before the first watermark");
}

/// Many results at once are told batch by batch, and what comes meanwhile waits.
#[test]
fn results_of_many_keys_are_told_within_the_bounds_of_a_commit() {
    const KEYS: u32 = 200_000;
    let mut world =
        world(Kind::Memory, &[declared("w", WindowKind::Tumbling { size_micros: 10 * SECOND, zone: None }, &["anonymous_id"], 0)]);
    for id in 0..KEYS {
        append(&world, (id % 2).cast_signed(), id, &format!("somebody-{id}"), Duration::ZERO);
    }
    world.run().expect("commits");
    assert_eq!(world.life().tasks.iter().map(|(task, _)| task.windows().timers()).sum::<usize>(), KEYS as usize);
    world.log.pass(Duration::from_secs(30));
    (0..PARTITIONS).for_each(|partition| tick(&world, partition, "g"));
    let mut turns = 0;
    while world.life().turn(100).expect("commits") {
        turns += 1;
        let bytes = |partition| {
            world.log.records(Topic::Delta, partition).last().map_or(0, |record| record.value.as_ref().map_or(0, bytes::Bytes::len))
        };
        assert!((0..PARTITIONS).all(|partition| bytes(partition) <= limit::MESSAGE_BYTES));
    }
    assert!(turns > 4, "{turns} commits");
    assert_eq!(told(&world, "w").len(), KEYS as usize);
}

/// What has no TTL is put again before the deltas that held it go.
#[test]
fn open_windows_outlive_the_deltas_that_opened_them() {
    let week = WindowKind::Tumbling { size_micros: 7 * 86_400 * SECOND, zone: None };
    let mut world = World::new(
        Kind::Memory,
        testing::pipeline_of(Options { dedup_ttl_micros: 20 * SECOND, ..Options::default() }, &[declared("w", week, &["anonymous_id"], 0)]),
    );
    world.start().expect("starts");
    (0..PARTITIONS).for_each(|partition| tick(&world, partition, "g"));
    for id in 0..50 {
        append(&world, 0, id, &format!("w{id}"), Duration::ZERO);
    }
    world.run().expect("commits");
    for _ in 0..60 {
        world.log.pass(Duration::from_secs(1));
        (0..PARTITIONS).for_each(|partition| tick(&world, partition, "g"));
        world.run().expect("commits");
    }
    // Retention takes all but the last 35 seconds of deltas: longer than the TTL and a round of putting again.
    for partition in 0..PARTITIONS {
        let at = forebay_stores::log::TopicPartition { topic: Topic::Delta, partition };
        let kept = world.log.now().saturating_add_micros(-35 * SECOND);
        let first = world.log.records(Topic::Delta, partition).into_iter().find(|record| record.timestamp >= kept).expect("a delta");
        world.log.drop_before(at, first.offset);
    }
    world.end(Restart::FromDeltas);
    world.start().expect("starts from deltas");
    world.log.pass(Duration::from_secs(8 * 86_400));
    (0..PARTITIONS).for_each(|partition| tick(&world, partition, "g"));
    world.run().expect("commits");
    assert_eq!(told(&world, "w").len(), 50);
}

/// What would open a key beyond the bound is left out and counted; nothing else changes.
#[test]
fn keys_beyond_the_bound_are_left_out_and_counted() {
    let sessions = declared("s", WindowKind::Session { gap_micros: 10 * SECOND }, &["anonymous_id"], 0);
    let mut world = World::new(Kind::Memory, testing::pipeline_of(Options::default(), &[tumbling("w"), sessions]));
    world.window_keys = 5;
    world.start().expect("starts");
    for id in 0..20 {
        append(&world, 0, id, &format!("w{}", id % 10), Duration::ZERO);
    }
    world.run().expect("commits");
    let mut left_out: BTreeMap<String, u64> = BTreeMap::new();
    for (task, _) in &mut world.life().tasks {
        task.take_left_out().into_iter().for_each(|(window, count)| *left_out.entry(window).or_default() += count);
        assert!(task.windows().open().all(|(_, keys)| keys <= 5));
    }
    assert_eq!(world.trusted(0).len(), 20);
    // Both events of five of the ten sessions; of the windows the keys of two tasks, and one part a key and batch.
    assert_eq!(left_out["s"], 10);
    Script::default().finish(&mut world);
    assert_eq!(told(&world, "s").len(), 5);
    let keys = told(&world, "w").len();
    assert!((5..=10).contains(&keys) && left_out.get("w").copied().unwrap_or(0) == 10 - keys as u64, "{keys} {left_out:?}");
}
