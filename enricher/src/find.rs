//! What became of an event id: every harvested record that carried it, each stage's verdict, the outcome and where it is.
//!
//! Owns: reading the topics for one id, also of a folder that no process has open. Does not own: requests and raw objects
//! (the gateway's `find`), tables (the sinks' `lookup`), how a story is shown.
//! Invariants: what is committed is told as it is committed, outcome and stages, whatever this pipeline would say now (that
//! is `Story::today`); nothing but `Place::event` holds a value of the event, and nothing but `unknown_names` an unknown name.

use crate::guard;
use crate::seek;
use forebay_enricher_core::combine::window::declare::{Operator, Window};
use forebay_enricher_core::combine::window::field::View;
use forebay_enricher_core::combine::window::grid::Span;
use forebay_enricher_core::{Pipeline, Reject};
use forebay_schemas::limit;
use forebay_schemas::outcome::Outcome;
use forebay_schemas::stage::Stage;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::avro::{DecodeError, Reader};
use forebay_schemas::wire::harvested::{self, Harvested};
use forebay_schemas::wire::trusted::{Provenance, Trusted};
use forebay_schemas::wire::{bad, delta, late, trusted, unframe};
use forebay_stores::log::{Log, LogError, Record, TopicPartition};
use std::collections::BTreeMap;

/// How much the log's clock and the gateways' may differ: a record is looked for from this long before `from`.
const CLOCKS_APART_MICROS: i64 = limit::CLOCK_AHEAD_MS * 1_000;

/// Which records are meant. `from` and `to` bound `received_at`: `[from, to)`.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    pub event_id: &'a str,
    pub source: Option<&'a str>,
    pub from: Option<Micros>,
    pub to: Option<Micros>,
}

/// One harvested record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub partition: i32,
    pub offset: i64,
    /// When the log got it.
    pub timestamp: Micros,
    /// Holds the payload: for the reveal role alone.
    pub event: Harvested,
}

/// A record and what came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Story {
    pub place: Place,
    pub stages: Vec<(Stage, Said)>,
    /// `None`: not committed yet.
    pub told: Option<Told>,
    /// What another pipeline than the one that decided says now, where that is not the same: `Passed` or `Rejected`.
    pub today: Option<Said>,
}

/// What a stage says of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    Passed,
    /// Reason and known paths, never a value.
    Rejected(Reject),
    Duplicate,
    NotReached,
    /// The record waits for its turn: what dedup will say is not known.
    NotAsked,
}

/// A committed outcome and the record that tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    pub outcome: Outcome,
    /// `None` for a duplicate, of which nothing is produced.
    pub output: Option<Output>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    pub topic: Topic,
    pub partition: i32,
    pub offset: i64,
    pub timestamp: Micros,
    /// The id it was told under: another than its own if a collision was re-keyed.
    pub event_id: String,
    /// Type and schema version of a trusted event.
    pub event_type: Option<(String, String)>,
    /// Where a bad event was rejected, and what of it was not as expected.
    pub rejected: Option<(Stage, String)>,
    /// The fingerprint of the pipeline that decided.
    pub pipeline: String,
    /// Of a trusted event: the windows that take it, as they are declared now.
    pub windows: Vec<InWindow>,
}

/// An event in one of the declared windows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InWindow {
    pub uid: String,
    /// JSON text of an object.
    pub key: String,
    /// Where it counts, oldest first; of a session, which others may still change, nothing is said.
    pub spans: Vec<Span>,
    /// What it came too late for: the newest of those windows, and by how many microseconds.
    pub missed: Option<(Span, i64)>,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{topic}, partition {partition}, offset {offset}: {error}")]
    Decode { topic: &'static str, partition: i32, offset: i64, error: DecodeError },
}

/// All records of an id with their stories, in the order of receipt.
pub fn stories(log: &dyn Log, pipeline: &Pipeline, query: Query<'_>) -> Result<Vec<Story>, FindError> {
    let mut places = Vec::new();
    for partition in 0..log.partitions(Topic::Harvested) {
        search(log, partition, query, &mut places)?;
    }
    places.sort_by_key(|place| (place.event.received_at, place.event.request_id, place.event.index));
    let story = |place: Place| {
        let told = told(log, pipeline, place.partition, place.offset)?;
        let now = admit(pipeline, &place.event);
        Ok(Story { stages: stages(&now, told.as_ref()), today: today(pipeline, now, told.as_ref()), told, place })
    };
    places.into_iter().map(story).collect()
}

/// Reads one partition of the harvested topic.
fn search(log: &dyn Log, partition: i32, query: Query<'_>, places: &mut Vec<Place>) -> Result<(), FindError> {
    let at = TopicPartition { topic: Topic::Harvested, partition };
    let begin = match query.from {
        Some(from) => {
            let from = from.saturating_add_micros(-CLOCKS_APART_MICROS);
            seek::first_past(log, at, |record| Ok::<_, FindError>(record.timestamp >= from))?
        }
        None => log.bounds(at)?.start,
    };
    let end = log.bounds(at)?.end;
    let mut reader = log.reader(at, begin)?;
    loop {
        let records = reader.read_to(end, limit::COMMIT_BYTES, limit::COMMIT_RECORDS)?;
        if records.is_empty() {
            return Ok(());
        }
        for Record { offset, timestamp, value, .. } in records {
            // The id is a record's first field: most are told apart without reading on.
            let Some(value) = value.filter(|value| leading_id(value) == Some(query.event_id)) else { continue };
            let event = harvested::decode(&value).map_err(|error| decode_error(at, offset, error))?;
            let asked = query.source.is_none_or(|source| source == event.source)
                && query.from.is_none_or(|from| event.received_at >= from)
                && query.to.is_none_or(|to| event.received_at < to);
            if asked {
                places.push(Place { partition, offset, timestamp, event });
            }
        }
    }
}

fn leading_id(value: &[u8]) -> Option<&str> {
    Reader::new(unframe(Topic::Harvested, value).ok()?).str().ok()
}

/// What was committed for a harvested record: by law A3 exactly one of trusted, bad, or else a duplicate.
pub fn told(log: &dyn Log, pipeline: &Pipeline, partition: i32, offset: i64) -> Result<Option<Told>, FindError> {
    if let Some((at, record)) = output(log, Topic::Trusted, partition, offset, |value| Ok(trusted::decode(value)?.provenance))? {
        let value = record.value.unwrap_or_default();
        let event = trusted::decode(&value).map_err(|error| decode_error(at, record.offset, error))?;
        let windows = in_windows(log, pipeline, &event)?;
        let output = Output {
            windows,
            topic: at.topic,
            partition,
            offset: record.offset,
            timestamp: record.timestamp,
            event_id: event.event_id.as_str().to_owned(),
            event_type: Some((event.event_type.into_owned(), event.schema_version.into_owned())),
            rejected: None,
            pipeline: event.provenance.pipeline,
        };
        return Ok(Some(Told { outcome: Outcome::Trusted, output: Some(output) }));
    }
    if let Some((at, record)) = output(log, Topic::Bad, partition, offset, |value| Ok(bad::decode(value)?.clear.provenance))? {
        let clear = bad::decode(&record.value.unwrap_or_default()).map_err(|error| decode_error(at, record.offset, error))?.clear;
        let output = Output {
            topic: at.topic,
            partition,
            offset: record.offset,
            timestamp: record.timestamp,
            event_id: clear.event_id.as_str().to_owned(),
            event_type: None,
            rejected: Some((clear.stage, clear.detail)),
            pipeline: clear.provenance.pipeline,
            windows: Vec::new(),
        };
        return Ok(Some(Told { outcome: Outcome::Bad(clear.reason), output: Some(output) }));
    }
    let committed = committed_to(log, partition)? > offset;
    Ok(committed.then_some(Told { outcome: Outcome::Duplicate, output: None }))
}

/// The windows of a trusted event, and which of them it missed.
fn in_windows(log: &dyn Log, pipeline: &Pipeline, event: &Trusted<'_>) -> Result<Vec<InWindow>, FindError> {
    let view = View::of_trusted(event);
    let missed = missed(log, &event.provenance)?;
    let in_window = |window: &Window| {
        let key = window.take(&view)?.key;
        let missed = missed.iter().find(|(uid, ..)| *uid == window.uid).map(|(_, span, by)| (*span, *by));
        let spans = match &window.operator {
            Operator::Panes(panes) => panes.windows_at(event.event_time),
            Operator::Sessions(_) => Vec::new(),
        };
        let counts = |span: &Span| missed.is_none_or(|(missed, _)| span.start > missed.start);
        Some(InWindow { uid: window.uid.clone(), key, spans: spans.into_iter().filter(counts).collect(), missed })
    };
    Ok(pipeline.windows().iter().filter_map(in_window).collect())
}

/// The late events of one harvested record: window, the newest one missed, how late.
fn missed(log: &dyn Log, place: &Provenance) -> Result<Vec<(String, Span, i64)>, FindError> {
    let at = TopicPartition { topic: Topic::Late, partition: place.partition };
    let late = |record: &Record| -> Result<(i64, (String, Span, i64)), FindError> {
        let value = record.value.as_deref().unwrap_or_default();
        let late = late::decode(value).map_err(|error| decode_error(at, record.offset, error))?;
        let span = Span { start: late.missed.start, end: late.missed.end };
        Ok((late.event.provenance.offset, (late.missed.window.into_owned(), span, late.missed.by_micros)))
    };
    let first = seek::first_past(log, at, |record| Ok::<_, FindError>(late(&record)?.0 >= place.offset))?;
    let end = log.bounds(at)?.end;
    let mut missed = Vec::new();
    for record in log.reader(at, first)?.read_to(end, limit::COMMIT_BYTES, limit::WINDOWS)? {
        let (input, of) = late(&record)?;
        if input != place.offset {
            break;
        }
        missed.push(of);
    }
    Ok(missed)
}

/// The output of a harvested record in one topic, found by halving: outputs stand in the order of their inputs.
fn output(
    log: &dyn Log,
    topic: Topic,
    partition: i32,
    input: i64,
    provenance: impl Fn(&[u8]) -> Result<Provenance, DecodeError>,
) -> Result<Option<(TopicPartition, Record)>, FindError> {
    let at = TopicPartition { topic, partition };
    let input_of = |record: &Record| -> Result<i64, FindError> {
        let value = record.value.as_deref().unwrap_or_default();
        Ok(provenance(value).map_err(|error| decode_error(at, record.offset, error))?.offset)
    };
    let first = seek::first_past(log, at, |record| Ok::<_, FindError>(input_of(&record)? >= input))?;
    let end = log.bounds(at)?.end;
    let Some(record) = log.reader(at, first)?.read_to(end, 1, 1)?.pop() else { return Ok(None) };
    Ok((input_of(&record)? == input).then_some((at, record)))
}

/// Where the last commit of a task ended. The deltas tell it without the lanes' names.
fn committed_to(log: &dyn Log, partition: i32) -> Result<i64, FindError> {
    let at = TopicPartition { topic: Topic::Delta, partition };
    let Some(record) = seek::last(log, at)? else { return Ok(0) };
    let delta = delta::decode(&record.value.unwrap_or_default()).map_err(|error| decode_error(at, record.offset, error))?;
    Ok(delta.to_offset)
}

const ADMIT: [Stage; 4] = [Stage::Decode, Stage::Validate, Stage::Sanitize, Stage::Mask];

/// What this pipeline says of an event before anyone asks whether it is a copy.
fn admit(pipeline: &Pipeline, event: &Harvested) -> Result<(), Reject> {
    match guard::guarded(|| pipeline.admit(event)) {
        Ok(admitted) => admitted.map(|_| ()),
        Err(guard::Panicked) => Err(Reject::panicked()),
    }
}

/// As committed; of a record that waits, what this pipeline says of it now.
fn stages(now: &Result<(), Reject>, told: Option<&Told>) -> Vec<(Stage, Said)> {
    let rejected = match told {
        None => now.clone().err(),
        Some(told) => told.reject(),
    };
    let mut said: Vec<(Stage, Said)> = ADMIT.iter().map(|stage| (*stage, Said::Passed)).collect();
    let dedup = match told.map(|told| told.outcome) {
        None => Said::NotAsked,
        Some(Outcome::Duplicate) => Said::Duplicate,
        Some(Outcome::Trusted | Outcome::Bad(_)) => Said::Passed,
    };
    said.push((Stage::Dedup, dedup));
    if let Some(reject) = rejected
        && let Some(at) = said.iter().position(|(stage, _)| *stage == reject.stage)
    {
        said[at].1 = Said::Rejected(reject);
        said[at + 1..].iter_mut().for_each(|(_, said)| *said = Said::NotReached);
    }
    said
}

/// What this pipeline says now, if it is another one than decided and says something else.
fn today(pipeline: &Pipeline, now: Result<(), Reject>, told: Option<&Told>) -> Option<Said> {
    let told = told?;
    if told.output.as_ref().is_some_and(|output| output.pipeline == pipeline.fingerprint()) {
        return None;
    }
    let then = told.reject().filter(|reject| reject.stage != Stage::Dedup);
    match (then, now) {
        (None, Ok(())) => None,
        (Some(then), Err(now)) if then.reason == now.reason && then.detail == now.detail => None,
        (Some(_), Ok(())) => Some(Said::Passed),
        (_, Err(now)) => Some(Said::Rejected(now)),
    }
}

impl Told {
    /// As it is committed: the event type is not.
    fn reject(&self) -> Option<Reject> {
        let Outcome::Bad(reason) = self.outcome else { return None };
        let (stage, detail) = self.output.as_ref()?.rejected.clone()?;
        Some(Reject { stage, reason, event_type: None, detail })
    }
}

/// By event type and path as everyone may see it, the path as it was sent. For the reveal role alone.
pub type Names = BTreeMap<(String, String), String>;

/// Looks for unclassified paths whose names this process has not met, in the newest records: what is kept of an unknown
/// name is its keyed hash, which only the name itself can give again. Ends when `wanted` are found, or at its limits.
pub fn unknown_names(log: &dyn Log, pipeline: &Pipeline, mut wanted: Vec<(String, String)>) -> Result<Names, FindError> {
    let mut names = Names::new();
    let mut judged = 0;
    let mut ends = Vec::new();
    for partition in 0..log.partitions(Topic::Harvested) {
        let at = TopicPartition { topic: Topic::Harvested, partition };
        ends.push((at, log.bounds(at)?));
    }
    for _ in 0..limit::NAMES_WINDOWS {
        for (at, bounds) in &mut ends {
            let begin = bounds.start.max(bounds.end - limit::NAMES_WINDOW_RECORDS);
            let mut reader = log.reader(*at, begin)?;
            while judged < limit::NAMES_EVENTS && !wanted.is_empty() {
                let records = reader.read_to(bounds.end, limit::LANE_READ_BYTES, limit::LANE_READ_RECORDS)?;
                if records.is_empty() {
                    break;
                }
                for value in records.into_iter().filter_map(|record| record.value) {
                    judged += 1;
                    let Ok(event) = harvested::decode(&value) else { continue };
                    let Ok(Ok(admitted)) = guard::guarded(|| pipeline.admit(&event)) else { continue };
                    for field in admitted.unclassified {
                        let found = (field.event_type, field.path);
                        if let Some(n) = wanted.iter().position(|asked| *asked == found) {
                            wanted.swap_remove(n);
                            names.insert(found, field.in_clear);
                        }
                    }
                }
            }
            bounds.end = begin;
        }
        if judged >= limit::NAMES_EVENTS || wanted.is_empty() || ends.iter().all(|(_, bounds)| bounds.end <= bounds.start) {
            break;
        }
    }
    Ok(names)
}

fn decode_error(at: TopicPartition, offset: i64, error: DecodeError) -> FindError {
    FindError::Decode { topic: at.topic.word(), partition: at.partition, offset, error }
}
