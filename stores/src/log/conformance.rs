//! What every log must do, as tests over the traits. Each form runs `suite` with a `Form` of its own.

use super::{Bounds, CommitError, Committed, Entry, Lane, Log, LogError, Reader, Record, TopicPartition, Transaction};
use bytes::Bytes;
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A kind of log, as the suite handles it. Every log has at least two partitions a topic.
pub(super) trait Form {
    /// A new, empty log.
    fn fresh(&self) -> Box<dyn Opened>;
    /// How often the model is tried.
    fn cases(&self) -> u32 {
        24
    }
}

pub(super) trait Opened {
    fn log(&self) -> &dyn Log;
    /// The same log after a restart of this side; readers and lanes were dropped.
    fn reopen(&mut self);
    /// What retention does when it is due.
    fn drop_before(&self, at: TopicPartition, offset: i64);
    /// The log is in this process: what it holds is at hand at once and never beyond its end, offsets have no gaps, and who
    /// lost a lane sees it in whatever it does. A log behind a network cannot promise these.
    fn is_local(&self) -> bool {
        true
    }
}

pub(super) fn suite(form: &dyn Form) {
    records_come_back_as_they_were_in_order(&mut *form.fresh());
    a_read_is_bounded(&*form.fresh());
    refused_appends_leave_nothing(&*form.fresh());
    appends_of_many_threads_keep_their_order(&*form.fresh());
    outputs_and_offsets_are_one(&mut *form.fresh());
    a_refused_commit_leaves_nothing(&*form.fresh());
    the_newest_holder_of_a_lane_commits(&mut *form.fresh());
    nothing_below_the_start_is_read(&mut *form.fresh());
    a_topic_keeps_its_id(form);
    an_append_wakes_who_waits(&*form.fresh());
    as_the_model_says(form);
}

pub(super) fn at(topic: Topic, partition: i32) -> TopicPartition {
    TopicPartition { topic, partition }
}
pub(super) fn entry(text: &str) -> Entry {
    Entry { key: Bytes::from(format!("key of {text}")), value: Some(Bytes::from(text.to_owned())), headers: Vec::new() }
}
pub(super) fn read_all(log: &dyn Log, at: TopicPartition) -> Vec<Record> {
    let bounds = log.bounds(at).unwrap();
    let mut reader = log.reader(at, bounds.start).unwrap();
    let mut records = Vec::new();
    loop {
        let more = reader.read_to(bounds.end, 4_000, usize::MAX).unwrap();
        if more.is_empty() {
            break;
        }
        records.extend(more);
    }
    let beyond = reader.read(1, 1).expect("the end is no error");
    assert!(beyond.iter().all(|record| record.offset >= bounds.end), "{beyond:?} below the end {bounds:?}");
    records
}
/// All that a partition holds, `count` records: elsewhere a commit may be known a moment before it is seen.
fn read_count(opened: &dyn Opened, at: TopicPartition, count: usize) -> Vec<Record> {
    let begun = Instant::now();
    loop {
        let end = opened.log().bounds(at).unwrap().end;
        let records = read_all(opened.log(), at);
        if opened.is_local() || records.len() >= count || begun.elapsed() > Duration::from_secs(30) {
            assert_eq!(records.len(), count, "{at:?}");
            return records;
        }
        opened.log().wait_past(&[(at, end)], Duration::from_secs(1));
    }
}
/// What is at hand, waited for when the log is elsewhere and holds something.
fn read_some(opened: &dyn Opened, at: TopicPartition, reader: &mut dyn Reader, bytes_max: usize, records_max: usize) -> Vec<Record> {
    loop {
        let position = reader.position();
        let records = reader.read(bytes_max, records_max).unwrap();
        let left = opened.log().bounds(at).unwrap().end > reader.position();
        if opened.is_local() || !records.is_empty() || records_max == 0 || !left {
            return records;
        }
        opened.log().wait_past(&[(at, position)], Duration::from_secs(10));
    }
}
pub(super) fn values(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8(record.value.clone().unwrap_or_default().to_vec()).unwrap()).collect()
}
pub(super) fn committed(offset: i64, metadata: &str) -> Committed {
    Committed { offset, metadata: metadata.to_owned() }
}

const HARVESTED: TopicPartition = TopicPartition { topic: Topic::Harvested, partition: 0 };
const TRUSTED: TopicPartition = TopicPartition { topic: Topic::Trusted, partition: 1 };

fn records_come_back_as_they_were_in_order(opened: &mut dyn Opened) {
    let entries = [
        entry("first"),
        Entry { value: None, headers: vec![("published_through".into(), Bytes::from_static(b"17"))], ..entry("tick") },
        Entry { key: Bytes::new(), value: Some(Bytes::new()), headers: Vec::new() },
        Entry { value: Some(Bytes::from(vec![7; 100_000])), ..entry("large") },
        Entry { headers: vec![("ä".into(), Bytes::new()), ("ä".into(), Bytes::from_static(&[0, 255]))], ..entry("headers") },
    ];
    opened.log().append(entries.iter().cloned().map(|entry| (HARVESTED, entry)).collect()).unwrap();
    let before = read_all(opened.log(), HARVESTED);
    opened.reopen();
    let log = opened.log();
    log.append(vec![(HARVESTED, entry("after"))]).unwrap();
    let records = read_all(log, HARVESTED);
    assert_eq!(records[..entries.len()], before);
    for (nth, (record, entry)) in records.iter().zip(&entries).enumerate() {
        assert_eq!(record.offset, before[0].offset + nth as i64);
        assert_eq!((&record.key, &record.value, &record.headers), (&entry.key, &entry.value, &entry.headers));
    }
    assert_eq!(values(&records[entries.len()..]), ["after"]);
    assert!(records.is_sorted_by_key(|record| (record.timestamp, record.offset)), "append times never go back");
    assert_eq!(read_all(log, at(Topic::Harvested, 1)), [], "the other partition is another log");
    assert_eq!(read_all(log, at(Topic::Trusted, 0)), []);
}

fn a_read_is_bounded(opened: &dyn Opened) {
    let log = opened.log();
    log.append((0..20).map(|nth| (HARVESTED, entry(&format!("{nth:01000}")))).collect()).unwrap();
    let bounds = log.bounds(HARVESTED).unwrap();
    let mut reader = log.reader(HARVESTED, bounds.start + 5).unwrap();
    assert_eq!(reader.position(), bounds.start + 5);
    for (bytes_max, records_max, most) in [(1 << 20, 3, 3), (1, 100, 1), (0, 100, 1), (4_500, 100, 4), (1 << 20, 0, 0)] {
        let before = reader.position();
        let records = read_some(opened, HARVESTED, &mut *reader, bytes_max, records_max);
        assert!(records.len() <= most && (records.len() == most.min(1) || records.len() > 1), "{} of {most}", records.len());
        assert_eq!(reader.position(), before + records.len() as i64);
    }
    for outside in [bounds.start - 1, bounds.end + 1, i64::MIN, i64::MAX] {
        let refused = log.reader(HARVESTED, outside).map(|_| ());
        assert!(
            matches!(refused, Err(LogError::OffsetOutOfRange { offset, bounds: b, .. }) if offset == outside && b == bounds),
            "{refused:?}"
        );
    }
    assert!(log.reader(HARVESTED, bounds.end).is_ok());
}

fn refused_appends_leave_nothing(opened: &dyn Opened) {
    let log = opened.log();
    let large = Entry { value: Some(Bytes::from(vec![0; limit::MESSAGE_BYTES + 1])), ..Entry::default() };
    let refused = log.append(vec![(HARVESTED, entry("beside")), (TRUSTED, large)]);
    assert!(matches!(refused, Err(LogError::TooLarge { topic_partition: TRUSTED, .. })), "{refused:?}");
    let nowhere = at(Topic::Harvested, log.partitions(Topic::Harvested));
    assert!(matches!(log.append(vec![(HARVESTED, entry("beside")), (nowhere, entry("nowhere"))]), Err(LogError::Refused(_))));
    assert!(log.bounds(nowhere).is_err() && log.reader(nowhere, 0).is_err());
    log.append(Vec::new()).unwrap();
    assert_eq!(read_all(log, HARVESTED), []);
}

fn appends_of_many_threads_keep_their_order(opened: &dyn Opened) {
    let log = opened.log();
    let partitions = [HARVESTED, at(Topic::Harvested, 1), TRUSTED];
    let (threads, rounds) = (4, 25);
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                for round in 0..rounds {
                    let entries = partitions.iter().cycle().skip(thread).take(6);
                    log.append(entries.enumerate().map(|(nth, at)| (*at, entry(&format!("{thread} {round:02} {nth}")))).collect()).unwrap();
                }
            });
        }
    });
    for at in partitions {
        let records = read_all(log, at);
        assert_eq!(records.len(), threads * rounds * 2);
        assert!(records.is_sorted_by_key(|record| record.timestamp));
        let values = values(&records);
        for thread in 0..threads {
            let own: Vec<_> = values.iter().filter(|value| value.starts_with(&thread.to_string())).collect();
            assert!(own.len() == rounds * 2 && own.is_sorted(), "an append's records stay in order, and after the one before");
        }
    }
}

fn outputs_and_offsets_are_one(opened: &mut dyn Opened) {
    let mut lane = opened.log().lane("job/0").unwrap();
    assert_eq!(lane.committed(HARVESTED).unwrap(), None);
    let transaction = |nth: i64| Transaction {
        outputs: vec![(TRUSTED, entry(&format!("trusted {nth}"))), (at(Topic::Delta, 0), entry(&format!("delta {nth}")))],
        offsets: vec![(HARVESTED, committed(nth * 10, &format!("seq={nth}"))), (at(Topic::Harvested, 1), committed(nth, ""))],
    };
    for nth in 1..=3 {
        lane.commit(transaction(nth)).unwrap();
        // Known committed is durable and visible: to this lane, to others, to readers.
        assert_eq!(lane.committed(HARVESTED).unwrap(), Some(committed(nth * 10, &format!("seq={nth}"))));
        read_count(opened, TRUSTED, nth as usize);
    }
    lane.commit(Transaction { offsets: vec![(at(Topic::Harvested, 1), committed(9, "seq=9"))], ..Transaction::default() }).unwrap();
    lane.commit(Transaction::default()).unwrap();
    drop(lane);
    opened.reopen();
    let log = opened.log();
    assert_eq!(log.committed("job/0", HARVESTED).unwrap(), Some(committed(30, "seq=3")));
    assert_eq!(log.committed("job/0", at(Topic::Harvested, 1)).unwrap(), Some(committed(9, "seq=9")));
    for (lane, at) in [("job/1", HARVESTED), ("job", HARVESTED), ("job/0", TRUSTED)] {
        assert_eq!(log.committed(lane, at).unwrap(), None);
    }
    assert_eq!(log.lane("job/0").unwrap().committed(HARVESTED).unwrap(), Some(committed(30, "seq=3")));
    assert_eq!(values(&read_count(opened, TRUSTED, 3)), ["trusted 1", "trusted 2", "trusted 3"]);
    assert_eq!(values(&read_count(opened, at(Topic::Delta, 0), 3)), ["delta 1", "delta 2", "delta 3"]);
}

fn a_refused_commit_leaves_nothing(opened: &dyn Opened) {
    let log = opened.log();
    let mut lane = log.lane("job/0").unwrap();
    let nowhere = at(Topic::Harvested, log.partitions(Topic::Harvested));
    let large = Entry { value: Some(Bytes::from(vec![0; limit::MESSAGE_BYTES + 1])), ..Entry::default() };
    let good = (TRUSTED, entry("beside"));
    let refused = [
        Transaction { outputs: vec![good.clone(), (TRUSTED, large)], offsets: vec![(HARVESTED, committed(1, ""))] },
        Transaction { outputs: vec![good.clone(), (nowhere, entry("nowhere"))], offsets: vec![(HARVESTED, committed(1, ""))] },
        Transaction { outputs: vec![good.clone()], offsets: vec![(HARVESTED, committed(1, "")), (nowhere, committed(1, ""))] },
        Transaction { outputs: vec![good.clone()], offsets: vec![(HARVESTED, committed(1, &"x".repeat(limit::LANE_METADATA_BYTES + 1)))] },
    ];
    for transaction in refused {
        assert!(matches!(lane.commit(transaction), Err(CommitError::Refused(_))));
    }
    assert_eq!((read_all(log, TRUSTED), log.committed("job/0", HARVESTED).unwrap()), (vec![], None));
    lane.commit(Transaction { outputs: vec![good], offsets: vec![(HARVESTED, committed(1, ""))] }).unwrap();
    assert_eq!(values(&read_count(opened, TRUSTED, 1)), ["beside"]);
}

fn the_newest_holder_of_a_lane_commits(opened: &mut dyn Opened) {
    let transaction =
        |text: &str, offset| Transaction { outputs: vec![(TRUSTED, entry(text))], offsets: vec![(HARVESTED, committed(offset, ""))] };
    let log = opened.log();
    let (mut first, mut other) = (log.lane("job/0").unwrap(), log.lane("job/1").unwrap());
    first.commit(transaction("first", 1)).unwrap();
    let mut second = log.lane("job/0").unwrap();
    assert_eq!(second.committed(HARVESTED).unwrap(), Some(committed(1, "")));
    let fenced = |lane: &mut dyn Lane| {
        assert!(matches!(lane.commit(transaction("zombie", 99)), Err(CommitError::Fenced(_))));
        assert!(matches!(lane.committed(HARVESTED), Err(LogError::Fenced(_))));
    };
    fenced(&mut *first);
    second.commit(transaction("second", 2)).unwrap();
    fenced(&mut *first);
    other.commit(transaction("other", 3)).unwrap();

    // Opened again and again beside a holder that goes on committing: what a newer holder reads stays as it is.
    let stop = AtomicBool::new(false);
    let local = opened.is_local();
    std::thread::scope(|scope| {
        let (log, stop) = (opened.log(), &stop);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let mut lane = log.lane("job/2").unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let next = lane.committed(HARVESTED).map(|committed| committed.map_or(0, |committed| committed.offset) + 1);
                    match next {
                        Ok(next) => match lane.commit(transaction("counted", next)) {
                            Ok(()) => {}
                            Err(CommitError::Fenced(_)) => break,
                            // Elsewhere an answer may be lost, or say nothing: opening the lane anew tells.
                            Err(CommitError::Unknown(_)) if !local => break,
                            Err(other) => panic!("{other}"),
                        },
                        Err(LogError::Fenced(_)) => break,
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        });
        for _ in 0..20 {
            let mut lane = log.lane("job/2").unwrap();
            let before = lane.committed(HARVESTED);
            let Ok(before) = before else { continue };
            std::thread::yield_now();
            match lane.committed(HARVESTED) {
                // Elsewhere a newer holder may have: the count at the end tells.
                Ok(after) => assert!(after == before || !local, "an older holder committed"),
                Err(LogError::Fenced(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let commits = opened.log().committed("job/2", HARVESTED).unwrap().map_or(0, |committed| committed.offset);
    let counted = read_count(opened, TRUSTED, 3 + commits as usize);
    assert_eq!(values(&counted).iter().filter(|value| *value == "counted").count() as i64, commits);
}

fn nothing_below_the_start_is_read(opened: &mut dyn Opened) {
    let log = opened.log();
    log.append((0..10).map(|nth| (HARVESTED, entry(&nth.to_string()))).collect()).unwrap();
    let start = log.bounds(HARVESTED).unwrap().start;
    let (mut passed, mut ahead) = (log.reader(HARVESTED, start + 2).unwrap(), log.reader(HARVESTED, start + 6).unwrap());
    opened.drop_before(HARVESTED, start + 6);
    let bounds = Bounds { start: start + 6, end: start + 10 };
    let out =
        |reader: &mut dyn Reader| matches!(reader.read(1 << 20, 10), Err(LogError::OffsetOutOfRange { bounds: b, .. }) if b == bounds);
    if opened.is_local() {
        assert!(out(&mut *passed) && out(&mut *passed) && passed.position() == start + 2, "never a jump");
    } else {
        // It may have been fetched before it was dropped.
        match passed.read_to(start + 10, 1 << 20, 10) {
            Ok(records) => assert_eq!(values(&records)[0], "2", "never a jump"),
            Err(error) => assert!(matches!(error, LogError::OffsetOutOfRange { bounds: b, .. } if b == bounds), "{error}"),
        }
    }
    assert_eq!(values(&ahead.read_to(start + 10, 1 << 20, 10).unwrap()), ["6", "7", "8", "9"]);
    assert!(matches!(log.reader(HARVESTED, start + 5).map(|_| ()), Err(LogError::OffsetOutOfRange { .. })));
    drop((passed, ahead));
    opened.reopen();
    assert_eq!(opened.log().bounds(HARVESTED).unwrap(), bounds);
    assert_eq!(values(&read_all(opened.log(), HARVESTED)), ["6", "7", "8", "9"]);

    // An empty partition goes on where it was.
    let newest = read_all(opened.log(), HARVESTED)[3].timestamp;
    opened.drop_before(HARVESTED, start + 10);
    opened.reopen();
    let log = opened.log();
    assert_eq!(log.bounds(HARVESTED).unwrap(), Bounds { start: start + 10, end: start + 10 });
    log.append(vec![(HARVESTED, entry("10"))]).unwrap();
    let records = read_all(log, HARVESTED);
    assert_eq!((records[0].offset, values(&records)), (start + 10, vec!["10".to_owned()]));
    assert!(records[0].timestamp >= newest);
}

fn a_topic_keeps_its_id(form: &dyn Form) {
    let (mut one, other) = (form.fresh(), form.fresh());
    let ids = |log: &dyn Log| Topic::ALL.map(|topic| log.topic_id(topic).unwrap());
    let before = ids(one.log());
    one.reopen();
    assert_eq!(ids(one.log()), before);
    let all: std::collections::BTreeSet<String> = before.into_iter().chain(ids(other.log())).collect();
    assert_eq!(all.len(), 2 * Topic::ALL.len(), "a topic made anew is another topic");
}

/// Long waits that must end early, and short ones that must end: no assertion depends on how fast.
fn an_append_wakes_who_waits(opened: &dyn Opened) {
    let log = opened.log();
    let long = Duration::from_secs(600);
    let end = |at| log.bounds(at).unwrap().end;
    let positions = vec![(HARVESTED, end(HARVESTED)), (TRUSTED, end(TRUSTED))];
    log.wait_past(&positions, Duration::from_millis(1));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| log.wait_past(&positions, long));
        log.append(vec![(at(Topic::Bad, 0), entry("elsewhere"))]).unwrap();
        log.append(vec![(HARVESTED, entry("here"))]).unwrap();
        waits.join().unwrap();
    });
    // What is there already wakes at once; so does a commit.
    log.wait_past(&positions, long);
    let positions = vec![(TRUSTED, end(TRUSTED))];
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| log.wait_past(&positions, long));
        log.lane("job/0").unwrap().commit(Transaction { outputs: vec![(TRUSTED, entry("x"))], offsets: vec![] }).unwrap();
        waits.join().unwrap();
    });
    assert!(begun.elapsed() < long);
}

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<(u8, u16)>),
    Commit { lane: u8, outputs: Vec<(u8, u16)>, offset: u8 },
    Drop { partition: u8, share: u8 },
    Read { partition: u8, share: u8, bytes: u16, records: u8 },
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let entries = || prop::collection::vec((0..4u8, prop_oneof![0..40u16, 0..5_000u16]), 0..12);
    let step = prop_oneof![
        4 => entries().prop_map(Step::Append),
        3 => (0..2u8, entries(), any::<u8>()).prop_map(|(lane, outputs, offset)| Step::Commit { lane, outputs, offset }),
        1 => (0..4u8, any::<u8>()).prop_map(|(partition, share)| Step::Drop { partition, share }),
        4 => (0..4u8, any::<u8>(), 0..8_000u16, 1..20u8)
            .prop_map(|(partition, share, bytes, records)| Step::Read { partition, share, bytes, records }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

/// What a log is: for each partition all entries ever appended and where it begins; for each lane the committed offsets.
#[derive(Default)]
struct Model {
    partitions: [(Vec<Entry>, usize); 4],
    committed: BTreeMap<(String, TopicPartition), Committed>,
}

const MODELLED: [TopicPartition; 4] =
    [HARVESTED, TopicPartition { topic: Topic::Harvested, partition: 1 }, TRUSTED, TopicPartition { topic: Topic::Delta, partition: 0 }];

fn as_the_model_says(form: &dyn Form) {
    let config = ProptestConfig { cases: form.cases(), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in steps())| {
        let (mut opened, mut model) = (form.fresh(), Model::default());
        for step in steps {
            run(&mut *opened, &mut model, step)?;
        }
        opened.reopen();
        for (at, (entries, start)) in MODELLED.into_iter().zip(&model.partitions) {
            let read: Vec<Entry> = read_count(&*opened, at, entries.len() - start).into_iter().map(into_entry).collect();
            prop_assert_eq!(&read, &entries[*start..]);
        }
        for ((lane, at), committed) in model.committed {
            prop_assert_eq!(opened.log().committed(&lane, at).unwrap(), Some(committed));
        }
    });
}

fn into_entry(record: Record) -> Entry {
    Entry { key: record.key, value: record.value, headers: record.headers }
}

/// Where the `nth` entry ever appended to a partition lies: local logs begin at 0 and have no gaps.
fn offset_of(opened: &dyn Opened, at: TopicPartition, (entries, start): &(Vec<Entry>, usize), nth: usize) -> i64 {
    if opened.is_local() {
        return nth as i64;
    }
    let records = read_count(opened, at, entries.len() - start);
    records.get(nth - start).map_or_else(|| opened.log().bounds(at).unwrap().end, |record| record.offset)
}

fn run(opened: &mut dyn Opened, model: &mut Model, step: Step) -> Result<(), TestCaseError> {
    let make = |made: Vec<(u8, u16)>, model: &mut Model| {
        let entries = made.into_iter().enumerate().map(|(nth, (partition, bytes))| {
            let nth = model.partitions[usize::from(partition)].0.len() * 100 + nth;
            let entry = Entry {
                key: Bytes::from(nth.to_string()),
                value: (bytes % 7 != 0).then(|| Bytes::from(vec![nth as u8; usize::from(bytes)])),
                headers: if bytes % 5 == 0 { vec![("n".into(), Bytes::from(nth.to_string()))] } else { Vec::new() },
            };
            (usize::from(partition), entry)
        });
        let entries: Vec<(usize, Entry)> = entries.collect();
        for (partition, entry) in &entries {
            model.partitions[*partition].0.push(entry.clone());
        }
        entries.into_iter().map(|(partition, entry)| (MODELLED[partition], entry)).collect()
    };
    match step {
        Step::Append(entries) => opened.log().append(make(entries, model)).unwrap(),
        Step::Commit { lane, outputs, offset } => {
            let (id, offset) = (format!("job/{lane}"), committed(i64::from(offset), &format!("seq={offset}")));
            let transaction = Transaction { outputs: make(outputs, model), offsets: vec![(HARVESTED, offset.clone())] };
            opened.log().lane(&id).unwrap().commit(transaction).unwrap();
            model.committed.insert((id, HARVESTED), offset);
        }
        Step::Drop { partition, share } => {
            let (at, held) = (MODELLED[usize::from(partition)], &mut model.partitions[usize::from(partition)]);
            let start = held.1 + (held.0.len() - held.1) * usize::from(share) / 255;
            opened.drop_before(at, offset_of(opened, at, held, start));
            held.1 = start;
        }
        Step::Read { partition, share, bytes, records } => {
            let (at, held) = (MODELLED[usize::from(partition)], &model.partitions[usize::from(partition)]);
            let (entries, start) = held;
            if opened.is_local() {
                let bounds = Bounds { start: *start as i64, end: entries.len() as i64 };
                prop_assert_eq!(opened.log().bounds(at).unwrap(), bounds);
            }
            let from = start + (entries.len() - start) * usize::from(share) / 255;
            let mut reader = opened.log().reader(at, offset_of(opened, at, held, from)).unwrap();
            let read = read_some(opened, at, &mut *reader, usize::from(bytes), usize::from(records));
            let read: Vec<Entry> = read.into_iter().map(into_entry).collect();
            prop_assert_eq!(&read[..], &entries[from..from + read.len()]);
            prop_assert!(!read.is_empty() || from == entries.len());
        }
        Step::Reopen => opened.reopen(),
    }
    Ok(())
}
