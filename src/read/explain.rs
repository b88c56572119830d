//! The whole story of an event id: every request that carried it, where it lies, what each stage said, what came of it.
//!
//! Owns: putting the story together from what the topics, the spool, the raw landing and the table hold. Nothing is computed
//! again: a verdict told here is the verdict that was committed.
//! Invariant: no value of the event is told, to any role; where a request lies and from whom, only to `Role::Reveal`.

use super::query::ExplainQuery;
use super::raw::{place_kind, place_name};
use super::{Answer, Parts, Role, topic};
use anyhow::{Context, Result};
use forebay_gateway::find::{self, Found};
use forebay_schemas::dialect::Dialect;
use forebay_schemas::id::{IdOrigin, RequestId};
use forebay_schemas::outcome::Outcome;
use forebay_schemas::stage::Stage;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::{bad, harvested, trusted};
use forebay_stores::log::{Record, TopicPartition};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// The stages that a harvested event passes, in order.
const STAGES: [Stage; 5] = [Stage::Decode, Stage::Validate, Stage::Sanitize, Stage::Mask, Stage::Dedup];

/// A place in the harvested topic.
type Place = (i32, i64);

/// One arrival of the event.
struct Copy {
    request_id: RequestId,
    index: u32,
    received_at: Micros,
    source: String,
    dialect: Dialect,
    id_origin: IdOrigin,
    place: Place,
    timestamp: Micros,
}

struct Row {
    place: (i32, i64),
    event_type: String,
    schema_version: String,
    event_id: String,
}

struct Reject {
    place: (i32, i64),
    clear: bad::Clear,
}

pub fn tell(parts: &Parts, query: &ExplainQuery, role: Role, out: &mut dyn Answer) -> Result<()> {
    let copies = copies(parts, query)?;
    let rows = rows(parts, &query.event_id)?;
    let rejects = rejects(parts, &query.event_id)?;
    let mut requests = requests(parts, query, &copies)?;
    let event_type = rows.values().next().map(|row| row.event_type.clone());

    for copy in &copies {
        let verdict = verdict(parts, copy, &rows, &rejects)?;
        let story = json!({
            "event_id": query.event_id,
            "request": request(copy, requests.remove(&copy.request_id).as_ref(), role),
            "harvested": {"topic": Topic::Harvested.word(), "partition": copy.place.0, "offset": copy.place.1, "timestamp": copy.timestamp.to_rfc3339()},
            "stages": stages(&verdict, event_type.as_deref()),
            "outcome": verdict.outcome.map_or("pending", Outcome::name),
            "reason": verdict.outcome.map(Outcome::reason).filter(|r| !r.is_empty()),
            "bad": verdict.reject.map(|r| json!({"partition": r.place.0, "offset": r.place.1, "detail": r.clear.detail})),
            "trusted": verdict.row.map(|r| trusted_row(parts, r)).transpose()?,
        });
        if out.line(story.to_string()).is_break() {
            return Ok(());
        }
    }
    // Kept, and not in the topic: not published yet, or the topic no longer holds it.
    for found in requests.into_values() {
        let story = json!({"event_id": query.event_id, "request": kept_only(&found, &query.event_id, role), "harvested": null, "stages": [], "outcome": "not in the harvested topic"});
        if out.line(story.to_string()).is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// The id is among the first fields of every record that names it.
fn mentions(record: &Record, id: &str) -> bool {
    const FIRST: usize = 1_024;
    record.value.as_ref().is_some_and(|value| value[..value.len().min(FIRST)].windows(id.len()).any(|window| window == id.as_bytes()))
}

fn copies(parts: &Parts, query: &ExplainQuery) -> Result<Vec<Copy>> {
    let mut found = Vec::new();
    topic::each(&*parts.log, Topic::Harvested, &mut |partition, record| {
        if let Some(value) = record.value.as_ref().filter(|_| mentions(record, &query.event_id)) {
            let event = harvested::decode(value).with_context(|| format!("harvested, partition {partition}, offset {}", record.offset))?;
            let within = query.from.is_none_or(|from| event.received_at >= from) && query.to.is_none_or(|to| event.received_at < to);
            if event.event_id.as_str() == query.event_id && within && query.source.as_ref().is_none_or(|source| *source == event.source) {
                found.push(Copy {
                    request_id: event.request_id,
                    index: event.index,
                    received_at: event.received_at,
                    source: event.source,
                    dialect: event.dialect,
                    id_origin: event.id_origin,
                    place: (partition, record.offset),
                    timestamp: record.timestamp,
                });
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    found.sort_by_key(|copy| (copy.received_at, copy.request_id, copy.index));
    Ok(found)
}

/// Trusted rows of the event, by the harvested record that each stands for.
fn rows(parts: &Parts, id: &str) -> Result<BTreeMap<Place, Row>> {
    let mut found = BTreeMap::new();
    topic::each(&*parts.log, Topic::Trusted, &mut |partition, record| {
        if let Some(value) = record.value.as_ref().filter(|_| mentions(record, id)) {
            let event = trusted::decode(value).with_context(|| format!("trusted, partition {partition}, offset {}", record.offset))?;
            if event.event_id.as_str() == id || event.original_event_id.as_deref() == Some(id) {
                let row = Row {
                    place: (partition, record.offset),
                    event_type: event.event_type,
                    schema_version: event.schema_version,
                    event_id: event.event_id.as_str().to_owned(),
                };
                found.insert((event.provenance.partition, event.provenance.offset), row);
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn rejects(parts: &Parts, id: &str) -> Result<BTreeMap<Place, Reject>> {
    let mut found = BTreeMap::new();
    topic::each(&*parts.log, Topic::Bad, &mut |partition, record| {
        if let Some(value) = record.value.as_ref().filter(|_| mentions(record, id)) {
            let event = bad::decode(value).with_context(|| format!("bad, partition {partition}, offset {}", record.offset))?;
            if event.clear.event_id.as_str() == id {
                let place = (event.clear.provenance.partition, event.clear.provenance.offset);
                found.insert(place, Reject { place: (partition, record.offset), clear: event.clear });
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// The requests that carried the copies, or, when there is no copy, those that carry the id.
fn requests(parts: &Parts, query: &ExplainQuery, copies: &[Copy]) -> Result<BTreeMap<RequestId, Found>> {
    let wanted: BTreeSet<RequestId> = copies.iter().map(|copy| copy.request_id).collect();
    let (first, last) = (copies.iter().map(|c| c.received_at).min(), copies.iter().map(|c| c.received_at).max());
    let from = query.from.max(first.filter(|_| query.from.is_none()));
    let to = query.to.or_else(|| last.map(|last| last.saturating_add_micros(1)));
    let carries = |raw: &forebay_schemas::wire::raw_request::RawRequest| {
        let named = query.source.as_ref().is_none_or(|source| *source == raw.source);
        wanted.contains(&raw.request_id) || (named && raw.events.iter().any(|event| event.event_id.as_str() == query.event_id))
    };
    let found = find::requests(&parts.spool, &*parts.objects, &carries, from, to).context("reading the spool and the raw landing")?;
    Ok(found.into_iter().map(|found| (found.raw.request_id, found)).collect())
}

struct Verdict<'a> {
    /// `None`: not decided yet.
    outcome: Option<Outcome>,
    row: Option<&'a Row>,
    reject: Option<&'a Reject>,
}

fn verdict<'a>(parts: &Parts, copy: &Copy, rows: &'a BTreeMap<Place, Row>, rejects: &'a BTreeMap<Place, Reject>) -> Result<Verdict<'a>> {
    let (row, reject) = (rows.get(&copy.place), rejects.get(&copy.place));
    let outcome = match (row, reject) {
        (Some(_), _) => Some(Outcome::Trusted),
        (None, Some(reject)) => Some(Outcome::Bad(reject.clear.reason)),
        // Committed, and neither of the two: law A3 leaves one outcome.
        (None, None) => (committed(parts, copy.place.0)? > copy.place.1).then_some(Outcome::Duplicate),
    };
    Ok(Verdict { outcome, row, reject })
}

fn committed(parts: &Parts, partition: i32) -> Result<i64> {
    let lanes = i32::try_from(parts.lanes).unwrap_or(i32::MAX).clamp(1, parts.log.partitions(Topic::Harvested).max(1));
    let lane = forebay_enricher::lane_id(&parts.job, partition % lanes);
    let at = TopicPartition { topic: Topic::Harvested, partition };
    Ok(parts.log.committed(&lane, at)?.map_or(0, |committed| committed.offset))
}

/// What each stage said: a stage before the one that rejected has passed, one behind it was not reached.
fn stages(verdict: &Verdict<'_>, event_type: Option<&str>) -> Vec<Value> {
    let Some(outcome) = verdict.outcome else { return Vec::new() };
    let rejected = verdict.reject.map(|reject| reject.clear.stage);
    let mut reached = true;
    let told = STAGES.iter().map(|stage| {
        let says = if !reached {
            json!("not reached")
        } else if rejected == Some(*stage) {
            reached = false;
            json!(format!("rejected: {}", outcome.reason()))
        } else {
            json!(match (stage, outcome) {
                (Stage::Validate, _) => verdict
                    .row
                    .map(|r| format!("{} {}", r.event_type, r.schema_version))
                    .or(event_type.map(str::to_owned))
                    .unwrap_or_else(|| "passed".to_owned()),
                (Stage::Dedup, Outcome::Trusted) => "first sight".to_owned(),
                (Stage::Dedup, Outcome::Duplicate) => "duplicate".to_owned(),
                _ => "passed".to_owned(),
            })
        };
        json!({"stage": stage.name(), "verdict": says})
    });
    told.collect()
}

fn trusted_row(parts: &Parts, row: &Row) -> Result<Value> {
    let (partition, offset) = row.place;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let table = runtime.block_on(forebay_sinks::lookup(&parts.table, partition, offset)).context("asking the table")?;
    let table = table.map(|found| {
        let snapshot =
            found.snapshot.as_ref().map(|s| json!({"id": s.id, "committed_at": s.committed_at.to_rfc3339(), "or_before": s.or_before}));
        json!({"name": found.table, "has_it": found.has_it, "snapshot": snapshot})
    });
    Ok(json!({
        "partition": partition, "offset": offset, "event_id": row.event_id,
        "event_type": row.event_type, "schema_version": row.schema_version, "table": table,
    }))
}

fn request(copy: &Copy, found: Option<&Found>, role: Role) -> Value {
    let mut told = json!({
        "request_id": copy.request_id.to_string(),
        "index": copy.index,
        "received_at": copy.received_at.to_rfc3339(),
        "source": copy.source,
        "dialect": copy.dialect.name(),
        "id_origin": copy.id_origin.name(),
    });
    if let Some(found) = found {
        place(&mut told, found, role);
    }
    told
}

fn kept_only(found: &Found, id: &str, role: Role) -> Value {
    let raw = &found.raw;
    let index = raw.events.iter().position(|event| event.event_id.as_str() == id);
    let mut told = json!({
        "request_id": raw.request_id.to_string(),
        "index": index,
        "received_at": raw.received_at.to_rfc3339(),
        "source": raw.source,
        "dialect": raw.dialect.name(),
        "id_origin": index.map(|n| raw.events[n].id_origin.name()),
    });
    place(&mut told, found, role);
    told
}

fn place(told: &mut Value, found: &Found, role: Role) {
    told["kept"] =
        json!({"place": place_kind(&found.place), "name": place_name(&found.place), "block": found.block_offset, "record": found.index});
    if role >= Role::Reveal {
        told["method"] = found.raw.method.clone().into();
        told["target"] = found.raw.target.clone().into();
        told["peer"] = found.raw.peer.clone().into();
        told["body_bytes"] = found.raw.body.len().into();
    }
}
