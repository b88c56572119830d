//! The whole story of an event id: every request that carried it, where it lies, what each stage said, what came of it.
//!
//! Owns: putting the story together from what the enricher, the gateway and the sink find. Does not own: finding.
//! Invariant: no value of the event is told, to any role; where a request lies and from whom, only to `Role::Reveal`.

use super::query::ExplainQuery;
use super::raw::{place_kind, place_name};
use super::{Answer, Parts, Role};
use anyhow::{Context, Result};
use forebay_enricher::find::{self as outcomes, InWindow, Output, Place, Said, Story};
use forebay_enricher_core::combine::window::grid::Span;
use forebay_gateway::find::{self, Found};
use forebay_schemas::id::RequestId;
use forebay_schemas::limit;
use forebay_schemas::outcome::Outcome;
use forebay_schemas::stage::Stage;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::raw_request::RawRequest;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

/// The only member of a first line that says from when on was looked, where nobody had said it.
pub const LOOKED_FROM: &str = "looked_from";

pub fn tell(parts: &Parts, query: &ExplainQuery, role: Role, out: &mut dyn Answer) -> Result<()> {
    let mut query = query.clone();
    if query.from.is_none() && parts.log_is_shared {
        let until = query.to.unwrap_or_else(|| SystemTime::now().into());
        let from = until.saturating_add_micros(-limit::EXPLAIN_LOOK_BACK_MICROS);
        query.from = Some(from);
        if out.line(json!({LOOKED_FROM: from.to_rfc3339()}).to_string()).is_break() {
            return Ok(());
        }
    }
    let query = &query;
    let asked = outcomes::Query { event_id: &query.event_id, source: query.source.as_deref(), from: query.from, to: query.to };
    let stories = outcomes::stories(&*parts.log, &*(parts.pipeline)()?, asked).context("reading the topics")?;
    let mut requests = requests(parts, query, &stories)?;
    // Of a duplicate nothing is produced that would tell its type; the first copy's does.
    let known_type = stories.iter().find_map(|story| story.told.as_ref()?.output.as_ref()?.event_type.clone());
    for story in &stories {
        let outcome = story.told.as_ref().map(|told| told.outcome);
        let output = story.told.as_ref().and_then(|told| told.output.as_ref());
        let request_id = story.place.event.request_id;
        let line = json!({
            "event_id": query.event_id,
            "request": request(&story.place, requests.get(&request_id), role),
            "harvested": {
                "topic": Topic::Harvested.word(), "partition": story.place.partition, "offset": story.place.offset,
                "timestamp": story.place.timestamp.to_rfc3339(),
            },
            "stages": story.stages.iter().map(|(stage, said)| json!({"stage": stage.name(), "verdict": verdict(*stage, said, outcome, &known_type)})).collect::<Vec<_>>(),
            "today": story.today.as_ref().map(today),
            "outcome": outcome.map_or("pending", Outcome::name),
            "reason": outcome.map(Outcome::reason).filter(|reason| !reason.is_empty()),
            "bad": output.filter(|o| o.topic == Topic::Bad).map(|o| json!({"partition": o.partition, "offset": o.offset, "detail": o.rejected.as_ref().map(|(_, detail)| detail), "pipeline": o.pipeline})),
            "trusted": output.filter(|o| o.topic == Topic::Trusted).map(|o| trusted_row(parts, o)).transpose()?,
        });
        if out.line(line.to_string()).is_break() {
            return Ok(());
        }
    }
    // Kept, and not in the topic: not published yet, or the topic no longer holds it.
    let told: BTreeSet<RequestId> = stories.iter().map(|story| story.place.event.request_id).collect();
    requests.retain(|id, _| !told.contains(id));
    for found in requests.into_values() {
        let line = json!({"event_id": query.event_id, "request": kept_only(&found, &query.event_id, role), "harvested": null, "stages": [], "outcome": "not in the harvested topic"});
        if out.line(line.to_string()).is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// The requests that carried the records, and those that carry the id and are not in the topic.
fn requests(parts: &Parts, query: &ExplainQuery, stories: &[Story]) -> Result<BTreeMap<RequestId, Found>> {
    let wanted: BTreeSet<RequestId> = stories.iter().map(|story| story.place.event.request_id).collect();
    let carries = |raw: &RawRequest| {
        let named = query.source.as_ref().is_none_or(|source| *source == raw.source);
        wanted.contains(&raw.request_id) || (named && raw.events.iter().any(|event| event.event_id.as_str() == query.event_id))
    };
    let found =
        find::requests(&parts.spool, &*parts.objects, &carries, query.from, query.to).context("reading the spool and the raw landing")?;
    Ok(found.into_iter().map(|found| (found.raw.request_id, found)).collect())
}

fn verdict(stage: Stage, said: &Said, outcome: Option<Outcome>, known_type: &Option<(String, String)>) -> String {
    match said {
        Said::Passed if stage == Stage::Validate => {
            known_type.as_ref().map_or_else(|| "passed".to_owned(), |(name, version)| format!("{name} {version}"))
        }
        Said::Passed if stage == Stage::Dedup && outcome == Some(Outcome::Trusted) => "first sight".to_owned(),
        Said::Passed => "passed".to_owned(),
        Said::Rejected(reject) => format!("rejected: {}", reject.reason.name()),
        Said::Duplicate => "duplicate".to_owned(),
        Said::NotReached => "not reached".to_owned(),
        Said::NotAsked => "waits for its turn".to_owned(),
    }
}

/// What the stages up to `mask` say now, where the catalogue or the options have changed and with them the verdict.
fn today(said: &Said) -> Value {
    match said {
        Said::Rejected(reject) => {
            json!({"verdict": "rejected", "stage": reject.stage.name(), "reason": reject.reason.name(), "detail": reject.detail})
        }
        Said::Passed | Said::Duplicate | Said::NotReached | Said::NotAsked => json!({"verdict": "passed"}),
    }
}

fn trusted_row(parts: &Parts, output: &Output) -> Result<Value> {
    let (partition, offset) = (output.partition, output.offset);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let table = runtime.block_on(forebay_sinks::lookup(&parts.table, &parts.warehouse, partition, offset)).context("asking the table")?;
    let table = table.map(|found| {
        let snapshot =
            found.snapshot.as_ref().map(|s| json!({"id": s.id, "committed_at": s.committed_at.to_rfc3339(), "or_before": s.or_before}));
        json!({"name": found.table, "has_it": found.has_it, "snapshot": snapshot})
    });
    let (event_type, schema_version) = output.event_type.clone().unwrap_or_default();
    Ok(json!({
        "partition": partition, "offset": offset, "event_id": output.event_id, "event_type": event_type,
        "schema_version": schema_version, "pipeline": output.pipeline, "table": table,
        "windows": output.windows.iter().map(window).collect::<Vec<_>>(),
    }))
}

fn window(window: &InWindow) -> Value {
    let bounds = |span: &Span| json!({"start": span.start.to_rfc3339(), "end": span.end.to_rfc3339()});
    json!({
        "window": window.uid, "key": window.key, "counts_in": window.spans.iter().map(bounds).collect::<Vec<_>>(),
        "missed": window.missed.as_ref().map(|(span, by)| json!({"newest": bounds(span), "late_by_micros": by})),
    })
}

fn request(place: &Place, found: Option<&Found>, role: Role) -> Value {
    let event = &place.event;
    let mut told = json!({
        "request_id": event.request_id.to_string(),
        "index": event.index,
        "received_at": event.received_at.to_rfc3339(),
        "source": event.source,
        "dialect": event.dialect.name(),
        "id_origin": event.id_origin.name(),
    });
    if let Some(found) = found {
        kept(&mut told, found, role);
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
    kept(&mut told, found, role);
    told
}

fn kept(told: &mut Value, found: &Found, role: Role) {
    told["kept"] =
        json!({"place": place_kind(&found.place), "name": place_name(&found.place), "block": found.block_offset, "record": found.index});
    if role >= Role::Reveal {
        told["method"] = found.raw.method.clone().into();
        told["target"] = found.raw.target.clone().into();
        told["peer"] = found.raw.peer.clone().into();
        told["body_bytes"] = found.raw.body.len().into();
    }
}
