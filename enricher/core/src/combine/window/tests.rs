//! Windows over generated streams, beside what they are by definition.

use super::grid::{Grid, HOUR_MICROS, Span};
use super::measure::{self, Kept, Numbers};
use super::number::Decimal;
use super::pane::Columns;
use super::panes::{Pane, Panes};
use super::sessions::Sessions;
use super::sketch::{Kind, Sketch, Value};
use super::{Missed, State, Told};
use forebay_schemas::time::Micros;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type Key = Vec<u8>;

/// State as an engine has it, in memory.
#[derive(Default, Clone, PartialEq, Eq, Debug)]
pub struct Memory {
    lines: BTreeMap<Key, Vec<u8>>,
    panes: BTreeMap<(Key, Pane), Vec<u8>>,
    blocks: BTreeMap<(Key, Pane, u16), Vec<u8>>,
    timers: BTreeSet<(Micros, Key)>,
}

fn set<K: Ord>(map: &mut BTreeMap<K, Vec<u8>>, key: K, value: Option<Vec<u8>>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

impl State for Memory {
    type Error = &'static str;
    fn line(&self, key: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
        Ok(self.lines.get(key).cloned())
    }
    fn put_line(&mut self, key: &[u8], line: Option<Vec<u8>>) {
        set(&mut self.lines, key.to_vec(), line);
    }
    fn pane(&self, key: &[u8], pane: Pane) -> Result<Option<Vec<u8>>, &'static str> {
        Ok(self.panes.get(&(key.to_vec(), pane)).cloned())
    }
    fn panes(&self, key: &[u8], panes: &[Pane]) -> Result<Vec<Option<Vec<u8>>>, &'static str> {
        panes.iter().map(|pane| self.pane(key, *pane)).collect()
    }
    fn put_pane(&mut self, key: &[u8], pane: Pane, kept: Option<Vec<u8>>) {
        set(&mut self.panes, (key.to_vec(), pane), kept);
    }
    fn block(&self, key: &[u8], pane: Pane, number: u16) -> Result<Option<Vec<u8>>, &'static str> {
        Ok(self.blocks.get(&(key.to_vec(), pane, number)).cloned())
    }
    fn put_block(&mut self, key: &[u8], pane: Pane, number: u16, block: Option<Vec<u8>>) {
        set(&mut self.blocks, (key.to_vec(), pane, number), block);
    }
    fn set_timer(&mut self, key: &[u8], from: Option<Micros>, to: Option<Micros>) {
        if let Some(from) = from {
            assert!(self.timers.remove(&(from, key.to_vec())), "a timer that was set");
        }
        if let Some(to) = to {
            assert!(self.timers.insert((to, key.to_vec())));
        }
    }
    fn corrupt(&self, what: &'static str) -> &'static str {
        what
    }
}

#[derive(Clone, Debug)]
pub enum Step {
    Event {
        key: u8,
        at: i64,
        number: Option<i64>,
    },
    /// Time moves on.
    Watermark(i64),
}

/// What came of a stream.
#[derive(Default, Clone, PartialEq, Eq, Debug)]
struct Outcome {
    told: Vec<(Key, Told)>,
    /// By the event's place in the stream.
    missed: BTreeMap<usize, Missed>,
}

/// Events and their numbers.
fn numbers() -> Columns {
    vec![None, None]
}

fn kept(number: Option<i64>) -> Vec<Kept> {
    let numbers = number.map_or_else(Numbers::default, |number| Numbers::of(Decimal(i128::from(number))));
    vec![Kept::Numbers(Numbers::of_an_event()), Kept::Numbers(numbers)]
}

/// Of an event, with its sketches where some are declared, between the numbers.
fn kept_in(columns: &Columns, number: Option<i64>) -> Vec<Kept> {
    let sketch = |kind: Kind| {
        let mut sketch = Sketch::new(kind);
        if let Some(number) = number {
            sketch.add(Value::Number(Decimal(i128::from(number))));
        }
        Kept::Sketch(sketch)
    };
    let mut kept = kept(number);
    kept.splice(1..1, columns.iter().flatten().map(|kind| sketch(*kind)));
    kept
}

fn nothing() -> Vec<Kept> {
    vec![Kept::Numbers(Numbers::default()); 2]
}

fn add(all: &mut [Kept], more: &[Kept]) {
    all.iter_mut().zip(more).for_each(|(all, more)| all.merge(more).expect("alike"));
}

fn count(kept: &[Kept]) -> u64 {
    kept[0].numbers().expect("numbers").count
}

trait Operator {
    fn event(&self, state: &mut Memory, key: &[u8], at: Micros, kept: &[Kept], now: Micros, out: &mut Vec<Told>) -> Option<Missed>;
    fn fire(&self, state: &mut Memory, key: &[u8], at: Micros, out: &mut Vec<Told>);
    fn columns(&self) -> &Columns;
}
impl Operator for Panes {
    fn event(&self, state: &mut Memory, key: &[u8], at: Micros, kept: &[Kept], now: Micros, out: &mut Vec<Told>) -> Option<Missed> {
        let (pane, missed) = self.place(at, now);
        if let Some(pane) = pane {
            self.add(state, key, pane, kept, now, out).expect("sound state");
        }
        missed
    }
    fn columns(&self) -> &Columns {
        &self.columns
    }
    fn fire(&self, state: &mut Memory, key: &[u8], at: Micros, out: &mut Vec<Told>) {
        Panes::fire(self, state, key, at, out).expect("sound state");
    }
}
impl Operator for Sessions {
    fn event(&self, state: &mut Memory, key: &[u8], at: Micros, kept: &[Kept], now: Micros, out: &mut Vec<Told>) -> Option<Missed> {
        Sessions::event(self, state, key, at, kept, now, out).expect("sound state")
    }
    fn columns(&self) -> &Columns {
        &self.columns
    }
    fn fire(&self, state: &mut Memory, key: &[u8], at: Micros, out: &mut Vec<Told>) {
        Sessions::fire(self, state, key, at, out).expect("sound state");
    }
}

fn run(operator: &dyn Operator, steps: &[Step]) -> (Outcome, Memory) {
    let (mut state, mut outcome, mut watermark) = (Memory::default(), Outcome::default(), Micros(i64::MIN));
    for (place, step) in steps.iter().enumerate() {
        match step {
            Step::Event { key, at, number } => {
                let (key, mut out) = (vec![*key], Vec::new());
                let missed = operator.event(&mut state, &key, Micros(*at), &kept_in(operator.columns(), *number), watermark, &mut out);
                missed.map(|missed| outcome.missed.insert(place, missed));
                outcome.told.extend(out.into_iter().map(|told| (key.clone(), told)));
            }
            Step::Watermark(to) => {
                watermark = watermark.max(Micros(*to));
                while let Some((at, key)) = state.timers.first().cloned().filter(|(at, _)| *at <= watermark) {
                    let mut out = Vec::new();
                    operator.fire(&mut state, &key, at, &mut out);
                    assert_ne!(state.timers.first(), Some(&(at, key.clone())), "a timer moves on");
                    outcome.told.extend(out.into_iter().map(|told| (key.clone(), told)));
                }
            }
        }
    }
    (outcome, state)
}

/// By definition: an event is in each window that spans it and has not closed when it comes.
struct Reference {
    windows: BTreeMap<(Key, Span), Vec<Kept>>,
    missed: BTreeMap<usize, Missed>,
    watermark: Micros,
}

fn reference(panes: &Panes, steps: &[Step]) -> Reference {
    let mut all = Reference { windows: BTreeMap::new(), missed: BTreeMap::new(), watermark: Micros(i64::MIN) };
    for (place, step) in steps.iter().enumerate() {
        match step {
            Step::Watermark(to) => all.watermark = all.watermark.max(Micros(*to)),
            Step::Event { key, at, number } => {
                for span in spans(panes, Micros(*at)) {
                    if span.end.0.saturating_add(panes.lateness_micros) <= all.watermark.0 {
                        all.missed.insert(place, Missed { span, by_micros: all.watermark.0.saturating_sub(span.end.0) });
                        continue;
                    }
                    let window = all.windows.entry((vec![*key], span)).or_insert_with(nothing);
                    add(window, &kept(*number));
                }
            }
        }
    }
    all
}

/// The windows that span `at`, oldest first, bucket by bucket.
fn spans(panes: &Panes, at: Micros) -> Vec<Span> {
    let mut first = panes.grid.at(at);
    let mut spans = Vec::new();
    for _ in 0..panes.panes {
        let mut last = first;
        (1..panes.panes).for_each(|_| last = panes.grid.after(last.end).expect("time enough"));
        spans.push(Span { start: first.start, end: last.end });
        first = panes.grid.before(first.start).expect("time enough");
    }
    spans.reverse();
    spans
}

fn check(panes: &Panes, steps: &[Step]) -> Result<(), TestCaseError> {
    let (outcome, state) = run(panes, steps);
    let reference = reference(panes, steps);
    prop_assert_eq!(&outcome.missed, &reference.missed);
    let mut last: BTreeMap<(Key, Span), &Told> = BTreeMap::new();
    for (key, told) in &outcome.told {
        let before = last.insert((key.clone(), told.span), told);
        prop_assert!(before.is_none_or(|before| !before.is_final), "told after it was final: {told:?}");
        prop_assert_eq!(told.revision, before.map_or(1, |before| before.revision + 1));
    }
    for ((key, span), kept) in &reference.windows {
        let told = last.remove(&(key.clone(), *span));
        if span.end <= reference.watermark {
            prop_assert_eq!(told.map(|told| &told.kept), Some(kept), "{:?}", span);
        } else {
            let early = told.is_none_or(|told| panes.update_micros.is_some() && count(&told.kept) <= count(kept));
            prop_assert!(early, "{span:?} was told before it ended: {told:?}");
        }
        let closed = span.end.0.saturating_add(panes.lateness_micros) <= reference.watermark.0;
        prop_assert_eq!(told.is_some_and(|told| told.is_final), closed, "{:?}", span);
    }
    prop_assert!(last.is_empty(), "told of windows that are none: {last:?}");
    // What is over leaves nothing.
    let (outcome, state_after) = run(panes, &[steps, &[Step::Watermark(i64::MAX)]].concat());
    prop_assert!(outcome.told.len() >= state.timers.len());
    prop_assert_eq!(state_after, Memory::default());
    // A timer can be had from its line alone.
    let due = state.lines.iter().map(|(key, line)| (super::due(line).expect("a line").expect("a timer"), key.clone()));
    prop_assert_eq!(due.collect::<BTreeSet<_>>(), state.timers);
    Ok(())
}

fn steps(reach: i64) -> impl Strategy<Value = Vec<Step>> {
    let event = (0..3_u8, -reach..reach, prop::option::of(-1_000..1_000_i64)).prop_map(|(key, at, number)| Step::Event { key, at, number });
    let watermark = (-reach..reach * 2).prop_map(Step::Watermark);
    prop::collection::vec(prop_oneof![4 => event, 1 => watermark], 0..60)
}

/// Steps whose times often fall on bounds.
fn round_steps() -> impl Strategy<Value = Vec<Step>> {
    steps(30).prop_map(|mut steps| {
        for step in &mut steps {
            match step {
                Step::Event { at, .. } | Step::Watermark(at) => *at *= 5,
            }
        }
        steps
    })
}

/// A session by definition, of all that there ever were.
#[derive(Clone, Debug)]
struct Known {
    span: Span,
    kept: Vec<Kept>,
}

/// The sessions of each key at the end, and what was late. Nothing is ever forgotten.
fn sessions_of(rule: &Sessions, steps: &[Step]) -> (BTreeMap<Key, Vec<Known>>, BTreeMap<usize, Missed>, Micros) {
    let (mut all, mut late, mut now) = (BTreeMap::<Key, Vec<Known>>::new(), BTreeMap::new(), Micros(i64::MIN));
    for (place, step) in steps.iter().enumerate() {
        let (key, at, number) = match step {
            Step::Watermark(to) => {
                now = now.max(Micros(*to));
                continue;
            }
            Step::Event { key, at, number } => (vec![*key], *at, *number),
        };
        let own = Span { start: Micros(at), end: Micros(at + rule.gap_micros) };
        let is_closed = |span: Span| span.end.0.saturating_add(rule.lateness_micros) <= now.0;
        let overlaps = |span: Span| span.start < own.end && own.start < span.end;
        let of_key = all.entry(key).or_default();
        let (joined, mut rest): (Vec<Known>, Vec<Known>) =
            std::mem::take(of_key).into_iter().partition(|known| overlaps(known.span) && !is_closed(known.span));
        let span = if is_closed(own) && !joined.iter().any(|known| known.span.holds(Micros(at))) {
            Some(own)
        } else {
            rest.iter().map(|known| known.span).find(|span| is_closed(*span) && span.holds(Micros(at)))
        };
        if let Some(span) = span {
            late.insert(place, Missed { span, by_micros: now.0 - span.end.0 });
            rest.extend(joined);
        } else {
            let mut whole = Known { span: own, kept: kept_in(&rule.columns, number) };
            for known in joined {
                whole.span = Span { start: whole.span.start.min(known.span.start), end: whole.span.end.max(known.span.end) };
                add(&mut whole.kept, &known.kept);
            }
            rest.push(whole);
        }
        *of_key = rest;
    }
    (all, late, now)
}

fn check_sessions(rule: &Sessions, steps: &[Step]) -> Result<(), TestCaseError> {
    let (outcome, _) = run(rule, steps);
    let (all, late, now) = sessions_of(rule, steps);
    prop_assert_eq!(&outcome.missed, &late);
    let mut last: BTreeMap<(Key, Micros), &Told> = BTreeMap::new();
    for (key, told) in &outcome.told {
        let before = last.insert((key.clone(), told.span.start), told);
        prop_assert!(before.is_none_or(|before| !before.is_final), "told after it was final: {told:?}");
        prop_assert_eq!(told.revision, before.map_or(1, |before| before.revision + 1));
    }
    for (key, sessions) in &all {
        let mut spans: Vec<Span> = sessions.iter().map(|known| known.span).collect();
        spans.sort();
        prop_assert!(spans.windows(2).all(|two| two[0].end <= two[1].start), "they overlap: {spans:?}");
        for Known { span, kept } in sessions {
            let told = last.remove(&(key.clone(), span.start));
            if span.end <= now {
                prop_assert_eq!(told.map(|told| (told.span, &told.kept)), Some((*span, kept)));
                prop_assert_eq!(told.map(|told| told.is_final), Some(span.end.0 + rule.lateness_micros <= now.0));
            } else {
                // What was told before it grew.
                prop_assert!(told.is_none_or(|told| !told.is_final && count(&told.kept) <= count(kept)), "{told:?}");
            }
        }
    }
    // Whatever else was told has been taken back.
    prop_assert!(last.values().all(|told| told.is_final && told.span.start == told.span.end && count(&told.kept) == 0), "{last:?}");
    let (_, state) = run(rule, steps);
    let due = state.lines.iter().map(|(key, line)| (super::due(line).expect("a line").expect("a timer"), key.clone()));
    prop_assert_eq!(due.collect::<BTreeSet<_>>(), state.timers);
    let (_, state) = run(rule, &[steps, &[Step::Watermark(i64::MAX)]].concat());
    prop_assert_eq!(state, Memory::default());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn sessions_are_what_they_are_by_definition(
        steps in prop_oneof![steps(100), round_steps()],
        gap in prop_oneof![Just(5_i64), Just(10), 1..60_i64],
        lateness in prop_oneof![Just(0_i64), Just(10), 0..80_i64],
        update in prop::option::of(prop_oneof![Just(5_i64), 1..40_i64]),
        sketches in prop::sample::subsequence(vec![Kind::Distinct, Kind::Quantiles, Kind::Top], 0..=3),
    ) {
        let mut columns = numbers();
        columns.splice(1..1, sketches.into_iter().map(Some));
        check_sessions(&Sessions { gap_micros: gap, lateness_micros: lateness, update_micros: update, columns }, &steps)?;
    }

    #[test]
    fn panes_come_to_what_windows_are(
        steps in prop_oneof![steps(100), round_steps()],
        size in prop_oneof![Just(5_i64), Just(10), 1..60_i64],
        panes in 1..6_usize,
        lateness in prop_oneof![Just(0_i64), Just(10), 0..80_i64],
        update in prop::option::of(prop_oneof![Just(5_i64), 1..40_i64]),
    ) {
        check(&Panes { grid: Grid::Elapsed(size), panes, lateness_micros: lateness, update_micros: update, columns: numbers() }, &steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Around both changes of the clocks.
    #[test]
    fn panes_of_a_zone_too(
        steps in steps(80),
        hours in prop::sample::select(vec![1, 6, 24]),
        zone in prop::sample::select(vec!["Europe/Berlin", "Australia/Lord_Howe", "Asia/Beirut", "Pacific/Apia"]),
        from in prop::sample::select(vec!["2022-03-27T00:00:00Z", "2026-04-04T15:00:00Z", "2026-10-25T01:00:00Z", "2011-12-30T09:00:00Z"]),
        panes in 1..4_usize,
        lateness in 0..30_i64,
    ) {
        let from = Micros::parse_rfc3339(from).expect("a time").0;
        let mut steps = steps;
        for step in &mut steps {
            match step {
                Step::Event { at, .. } | Step::Watermark(at) => *at = from + *at * HOUR_MICROS,
            }
        }
        let grid = Grid::new(hours * HOUR_MICROS, Some(zone)).expect("a grid");
        check(&Panes { grid, panes, lateness_micros: lateness * HOUR_MICROS, update_micros: None, columns: numbers() }, &steps)?;
    }
}

/// Of one of the tasks that share the keys.
#[derive(Clone, Debug)]
enum Shared {
    Event {
        at: i64,
        number: Option<i64>,
    },
    Watermark(i64),
    /// The task's batch ends: what it holds reaches the owner of the key.
    Commit,
}

/// Tasks judge by their own time, and the owner of a key tells by that of the slowest.
fn check_two_stages(panes: &Panes, steps: &[(usize, Shared)]) -> Result<(), TestCaseError> {
    const TASKS: usize = 3;
    let key = vec![7];
    let mut now = [Micros(i64::MIN); TASKS];
    let mut told_to_owner = now;
    let mut batches: [BTreeMap<Pane, Vec<Kept>>; TASKS] = Default::default();
    let (mut state, mut told) = (Memory::default(), Vec::new());
    let mut reference: BTreeMap<Span, Vec<Kept>> = BTreeMap::new();
    let end = (0..TASKS).flat_map(|task| [(task, Shared::Watermark(i64::MAX)), (task, Shared::Commit)]);
    for (task, step) in steps.iter().cloned().chain(end) {
        match step {
            Shared::Watermark(to) => now[task] = now[task].max(Micros(to)),
            Shared::Event { at, number } => {
                let at = Micros(at);
                let open: Vec<Span> =
                    spans(panes, at).into_iter().filter(|span| span.end.0.saturating_add(panes.lateness_micros) > now[task].0).collect();
                for span in &open {
                    let window = reference.entry(*span).or_insert_with(nothing);
                    add(window, &kept(number));
                }
                let (pane, missed) = panes.place(at, now[task]);
                prop_assert_eq!(missed.is_some(), open.len() < panes.panes);
                prop_assert_eq!(pane.is_some(), !open.is_empty());
                if let Some(pane) = pane {
                    let all = batches[task].entry(pane).or_insert_with(nothing);
                    add(all, &kept(number));
                }
            }
            Shared::Commit => {
                let slowest = told_to_owner.iter().min().copied().expect("tasks");
                for (pane, kept) in std::mem::take(&mut batches[task]) {
                    panes.add(&mut state, &key, pane, &kept, slowest, &mut told).expect("sound state");
                }
                told_to_owner[task] = now[task];
                let slowest = told_to_owner.iter().min().copied().expect("tasks");
                while let Some((at, _)) = state.timers.first().cloned().filter(|(at, _)| *at <= slowest) {
                    panes.fire(&mut state, &key, at, &mut told).expect("sound state");
                }
            }
        }
    }
    let mut last: BTreeMap<Span, Told> = BTreeMap::new();
    for told in told {
        let before = last.insert(told.span, told.clone());
        prop_assert!(before.as_ref().is_none_or(|before| !before.is_final), "told after it was final: {told:?}");
        prop_assert_eq!(told.revision, before.map_or(1, |before| before.revision + 1));
    }
    prop_assert!(last.values().all(|told| told.is_final));
    prop_assert_eq!(last.into_iter().map(|(span, told)| (span, told.kept)).collect::<BTreeMap<_, _>>(), reference);
    prop_assert_eq!(state, Memory::default());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn tasks_that_share_keys_come_to_what_windows_are(
        steps in prop::collection::vec((0..3_usize, prop_oneof![
            5 => (-60..60_i64, prop::option::of(-9..9_i64)).prop_map(|(at, number)| Shared::Event { at: at * 5, number }),
            2 => (-60..90_i64).prop_map(|to| Shared::Watermark(to * 5)),
            2 => Just(Shared::Commit),
        ]), 0..80),
        size in prop_oneof![Just(5_i64), Just(10), 1..60_i64],
        panes in 1..6_usize,
        lateness in prop_oneof![Just(0_i64), Just(10), 0..80_i64],
        update in prop::option::of(prop_oneof![Just(5_i64), 1..40_i64]),
    ) {
        check_two_stages(&Panes { grid: Grid::Elapsed(size), panes, lateness_micros: lateness, update_micros: update, columns: numbers() }, &steps)?;
    }
}

/// What a window of panes with sketches is told to hold is the sketch of its events; parts of a batch are as good as they.
fn check_sketches(panes: &Panes, events: &[(i64, i64)], batch: usize) -> Result<(), TestCaseError> {
    let of = |number: i64| -> Vec<Kept> {
        let sketches = [Kind::Distinct, Kind::Quantiles, Kind::Top].map(|kind| {
            let mut sketch = Sketch::new(kind);
            sketch.add(Value::Number(Decimal::whole(number.unsigned_abs())));
            Kept::Sketch(sketch)
        });
        [vec![Kept::Numbers(Numbers::of_an_event())], sketches.to_vec()].concat()
    };
    let (mut state, mut told, key) = (Memory::default(), Vec::new(), vec![1]);
    let mut reference: BTreeMap<Span, Vec<Kept>> = BTreeMap::new();
    for some in events.chunks(batch) {
        let mut parts: BTreeMap<Pane, Vec<Kept>> = BTreeMap::new();
        for (at, number) in some {
            for span in spans(panes, Micros(*at)) {
                reference.entry(span).and_modify(|all| add(all, &of(*number))).or_insert_with(|| of(*number));
            }
            let (pane, _) = panes.place(Micros(*at), Micros(i64::MIN));
            parts.entry(pane.expect("nothing is late")).and_modify(|all| add(all, &of(*number))).or_insert_with(|| of(*number));
        }
        for (pane, kept) in parts {
            let sent = measure::decode(&measure::encode(&kept)).expect("comes back");
            prop_assert_eq!(&sent, &kept);
            panes.add(&mut state, &key, pane, &sent, Micros(i64::MIN), &mut told).expect("sound state");
        }
    }
    while let Some((at, _)) = state.timers.first().cloned() {
        panes.fire(&mut state, &key, at, &mut told).expect("sound state");
    }
    prop_assert_eq!(told.into_iter().map(|told| (told.span, told.kept)).collect::<BTreeMap<_, _>>(), reference);
    prop_assert_eq!(state, Memory::default(), "nothing is left");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// With so few values none of a sketch's blocks overflows; with so many its sketches are cut.
    #[test]
    fn sketches_of_panes_are_those_of_their_events(
        events in prop::collection::vec((-60..60_i64, 0..60_i64), 0..200),
        size in prop_oneof![Just(5_i64), 1..60_i64, Just(120)],
        panes in 1..4_usize,
        batch in 1..20_usize,
    ) {
        let columns = vec![None, Some(Kind::Distinct), Some(Kind::Quantiles), Some(Kind::Top)];
        check_sketches(&Panes { grid: Grid::Elapsed(size), panes, lateness_micros: 0, update_micros: None, columns }, &events, batch)?;
    }
}

/// What an event writes stays small, whatever was there before.
#[test]
fn a_small_sketch_is_whole_and_a_large_one_is_cut() {
    let columns = vec![Some(Kind::Distinct)];
    let panes = Panes { grid: Grid::Elapsed(10), panes: 1, lateness_micros: 0, update_micros: None, columns };
    let (mut state, mut told) = (Memory::default(), Vec::new());
    let mut largest = 0;
    for n in 0..5_000 {
        let before = state.clone();
        let mut sketch = Sketch::new(Kind::Distinct);
        sketch.add(Value::Number(Decimal::whole(n)));
        let pane = Pane { bucket: Micros(0), since: None };
        panes.add(&mut state, &[0], pane, &[Kept::Sketch(sketch)], Micros(i64::MIN), &mut told).expect("sound state");
        let entries =
            |state: &Memory| [state.panes.clone().into_values().collect(), state.blocks.clone().into_values().collect::<Vec<_>>()].concat();
        let (old, new) = (entries(&before), entries(&state));
        largest = largest.max(new.iter().filter(|entry| !old.contains(entry)).map(Vec::len).sum());
        assert!(n < 20 || !state.blocks.is_empty(), "after {n}");
        assert!(n > 5 || state.blocks.is_empty(), "after {n}");
    }
    // All blocks once, when it is cut; then one block and now and then the list.
    assert!(largest <= 80, "{largest} bytes for an event");
}

#[test]
fn an_event_at_the_watermark_is_not_late_and_one_at_the_end_is_in_the_next() {
    let panes = Panes { grid: Grid::Elapsed(10), panes: 1, lateness_micros: 0, update_micros: None, columns: numbers() };
    let event = |at| Step::Event { key: 0, at, number: Some(1) };
    let (outcome, _) = run(&panes, &[event(9), event(10), Step::Watermark(10), event(10), event(9), Step::Watermark(20)]);
    let told: Vec<_> = outcome.told.iter().map(|(_, told)| (told.span.start.0, count(&told.kept), told.revision, told.is_final)).collect();
    assert_eq!(told, [(0, 1, 1, true), (10, 2, 1, true)]);
    let missed = Missed { span: Span { start: Micros(0), end: Micros(10) }, by_micros: 0 };
    assert_eq!(outcome.missed, BTreeMap::from([(4, missed)]));
}

#[test]
fn timers_are_fired_in_the_order_of_time_and_key() {
    let panes = Panes { grid: Grid::Elapsed(10), panes: 1, lateness_micros: 0, update_micros: None, columns: numbers() };
    let event = |key, at| Step::Event { key, at, number: None };
    let (outcome, _) = run(&panes, &[event(2, 15), event(1, 15), event(2, 5), event(0, 25), Step::Watermark(100)]);
    let order: Vec<_> = outcome.told.iter().map(|(key, told)| (told.span.end.0, key[0])).collect();
    assert_eq!(order, [(10, 2), (20, 1), (20, 2), (30, 0)]);
}

/// An event changes its pane alone: a delta does not grow with the windows that it is in.
#[test]
fn an_event_of_a_known_pane_leaves_the_line_alone() {
    let panes = Panes { grid: Grid::Elapsed(60), panes: 60, lateness_micros: 0, update_micros: None, columns: numbers() };
    let event = |at| Step::Event { key: 0, at, number: None };
    let (_, before) = run(&panes, &[event(5)]);
    let (_, after) = run(&panes, &[event(5), event(6)]);
    assert_eq!((&before.lines, &before.timers), (&after.lines, &after.timers));
    assert_ne!(before.panes, after.panes);
}

#[test]
fn state_that_is_not_sound_is_told() {
    let panes = Panes { grid: Grid::Elapsed(10), panes: 1, lateness_micros: 0, update_micros: None, columns: numbers() };
    let (_, sound) = run(&panes, &[Step::Event { key: 0, at: 5, number: None }]);
    let fire = |state: &mut Memory| panes.fire(state, &[0], Micros(10), &mut Vec::new()).expect_err("unsound");
    let mut state = sound.clone();
    state.panes.clear();
    assert_eq!(fire(&mut state), "a pane is missing");
    let mut state = sound.clone();
    state.panes.values_mut().for_each(|pane| pane.push(0));
    assert_eq!(fire(&mut state), "a pane is unreadable");
    let mut state = sound.clone();
    state.lines.values_mut().for_each(|line| line.truncate(1));
    assert_eq!(fire(&mut state), "a line of panes is unreadable");
    let mut state = sound;
    let pane = Pane { bucket: Micros(0), since: None };
    let other = panes.add(&mut state, &[0], pane, &kept(None)[..1], Micros(0), &mut Vec::new());
    assert_eq!(other, Err("other values are kept than are declared"));
}

/// A late event between two sessions makes one of the three; what was told of the second is taken back.
#[test]
fn sessions_merge_three_ways() {
    let sessions = Sessions { gap_micros: 10, lateness_micros: 100, update_micros: None, columns: numbers() };
    let event = |at| Step::Event { key: 0, at, number: Some(at) };
    let (outcome, _) = run(&sessions, &[event(0), event(16), Step::Watermark(30), event(8), Step::Watermark(126)]);
    let told: Vec<_> = outcome.told.iter().map(|(_, t)| (t.span.start.0, t.span.end.0, count(&t.kept), t.revision, t.is_final)).collect();
    assert_eq!(told, [(0, 10, 1, 1, false), (16, 26, 1, 1, false), (16, 16, 0, 2, true), (0, 26, 3, 2, false), (0, 26, 3, 3, true)]);
}

/// Events at 0 and 3 with a gap of 5, and the watermark at 6 between them: the second falls into a session that is over.
#[test]
fn sessions_without_lateness_do_not_overlap() {
    let sessions = Sessions { gap_micros: 5, lateness_micros: 0, update_micros: None, columns: numbers() };
    let event = |at| Step::Event { key: 0, at, number: None };
    let (outcome, _) = run(&sessions, &[event(0), Step::Watermark(6), event(3), event(5), Step::Watermark(10)]);
    let told: Vec<_> = outcome.told.iter().map(|(_, t)| (t.span.start.0, t.span.end.0, count(&t.kept))).collect();
    assert_eq!(told, [(0, 5, 1), (5, 10, 1)]);
    assert_eq!(outcome.missed, BTreeMap::from([(2, Missed { span: Span { start: Micros(0), end: Micros(5) }, by_micros: 1 })]));
}

#[test]
fn an_open_session_is_small() {
    let sessions = Sessions { gap_micros: 1_800_000_000, lateness_micros: 3_600_000_000, update_micros: None, columns: numbers() };
    let from = 1_796_000_000_000_000;
    let events = (0..1_000).map(|n| Step::Event { key: 0, at: from + n * 1_000_000, number: Some(1_999_000_000_000 + n) });
    let (_, state) = run(&sessions, &events.collect::<Vec<_>>());
    let bytes = state.lines[&vec![0]].len();
    assert!(bytes <= 200, "{bytes}");
}

/// Now and then what is new is told, of every window that it is in; what is not new is not.
#[test]
fn windows_with_something_new_are_told_before_they_end() {
    let event = |at| Step::Event { key: 0, at, number: None };
    let times = [event(1), Step::Watermark(3), Step::Watermark(5), Step::Watermark(9), event(12), event(8), Step::Watermark(17)];
    let told = |operator: &dyn Operator| {
        let (outcome, _) = run(operator, &[times.as_slice(), &[Step::Watermark(60)]].concat());
        outcome.told.iter().map(|(_, t)| (t.span.start.0, t.span.end.0, count(&t.kept), t.revision, t.is_final)).collect::<Vec<_>>()
    };
    let panes = Panes { grid: Grid::Elapsed(10), panes: 2, lateness_micros: 0, update_micros: Some(5), columns: numbers() };
    assert_eq!(
        told(&panes),
        [
            (-10, 10, 1, 1, false),
            (0, 20, 1, 1, false),
            (-10, 10, 2, 2, true),
            (0, 20, 3, 2, false),
            (10, 30, 1, 1, false),
            (0, 20, 3, 3, true),
            (10, 30, 1, 2, true),
        ]
    );
    let sessions = Sessions { gap_micros: 10, lateness_micros: 0, update_micros: Some(5), columns: numbers() };
    assert_eq!(told(&sessions), [(1, 11, 1, 1, false), (1, 22, 3, 2, false), (1, 22, 3, 3, true)]);
}
