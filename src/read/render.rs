//! Records as JSON: times RFC 3339 with microseconds, bytes base64, everything else as its schema says.

use super::Role;
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use forebay_schemas::id::IdOrigin;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::{PUBLISHED_THROUGH, Topic};
use forebay_schemas::wire::bad::{self, Bad, Clear};
use forebay_schemas::wire::delta::{self, Delta};
use forebay_schemas::wire::harvested::{self, Harvested};
use forebay_schemas::wire::late::{self, Late};
use forebay_schemas::wire::partials::{self, Partials};
use forebay_schemas::wire::raw_request::RawRequest;
use forebay_schemas::wire::trusted::{self, Device, Provenance, Trusted};
use forebay_schemas::wire::window::{self, WindowResult};
use forebay_stores::log::Record;
use serde_json::{Map, Value, json};

pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Bytes that are mostly text.
fn text(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| base64(bytes), str::to_owned)
}

/// A record of `topic` with its place in it.
pub fn record(topic: Topic, partition: i32, record: &Record, role: Role) -> Result<Map<String, Value>> {
    let mut object = match &record.value {
        None => tick(record),
        Some(value) => {
            let decoded = match topic {
                Topic::Harvested => harvested::decode(value).map(|event| harvested(&event)),
                Topic::Trusted => trusted::decode(value).map(|event| trusted(&event)),
                Topic::Bad => bad::decode(value).map(|bad| self::bad(&bad, role)),
                Topic::Delta => delta::decode(value).map(|delta| self::delta(&delta)),
                Topic::Windows => window::decode(value).map(|result| self::window(&result)),
                Topic::Late => late::decode(value).map(|late| self::late(&late)),
                Topic::Repartition => partials::decode(value).map(|partials| self::partials(&partials)),
            };
            decoded
                .with_context(|| format!("{}, partition {partition}, offset {}: no record of its schema", topic.word(), record.offset))?
        }
    };
    object.insert("_partition".to_owned(), partition.into());
    object.insert("_offset".to_owned(), record.offset.into());
    object.insert("_key".to_owned(), text(&record.key).into());
    object.insert("_timestamp".to_owned(), record.timestamp.to_rfc3339().into());
    Ok(object)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

fn tick(record: &Record) -> Map<String, Value> {
    let through = record
        .headers
        .iter()
        .find(|(name, _)| name == PUBLISHED_THROUGH)
        .and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
    object(json!({"_tick": true, "published_through": through.map(|us| Micros(us).to_rfc3339())}))
}

pub fn harvested(event: &Harvested) -> Map<String, Value> {
    object(json!({
        "event_id": event.event_id.as_str(),
        "id_origin": event.id_origin.name(),
        "request_id": event.request_id.to_string(),
        "index": event.index,
        "gateway": event.gateway,
        "source": event.source,
        "dialect": event.dialect.name(),
        "received_at": event.received_at.to_rfc3339(),
        "sent_at": event.sent_at.map(|t| t.to_rfc3339()),
        "client_ip": event.client_ip,
        "user_agent": event.user_agent,
        "headers": event.headers.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>(),
        "content": event.content.name(),
        "envelope": event.envelope,
        "payload": base64(&event.payload),
        "full_length": event.full_length,
    }))
}

fn trusted(event: &Trusted) -> Map<String, Value> {
    object(json!({
        "event_id": event.event_id.as_str(),
        "original_event_id": event.original_event_id,
        "event_type": event.event_type,
        "schema_version": event.schema_version,
        "event_time": event.event_time.to_rfc3339(),
        "time_origin": event.time_origin.name(),
        "received_at": event.received_at.to_rfc3339(),
        "source": event.source,
        "user_id": event.user_id,
        "anonymous_id": event.anonymous_id,
        "session_id": event.session_id,
        "seq": event.seq,
        "session_index": event.session_index,
        "page": event.page.as_ref().map(|p| json!({"url": p.url, "path": p.path, "title": p.title, "referrer": p.referrer})),
        "device": event.device.as_ref().map(device),
        "geo": event.geo.as_ref().map(|g| json!({"country": g.country, "region": g.region, "city": g.city})),
        "campaign": event.campaign.as_ref().map(|c| json!({"source": c.source, "medium": c.medium, "name": c.name, "term": c.term, "content": c.content})),
        "properties": event.properties,
        "entities": event.entities,
        "provenance": provenance(&event.provenance),
    }))
}

/// Under the names that the catalogue and the table have.
fn device(device: &Device) -> Value {
    json!({
        "type": device.kind, "os": device.os, "browser": device.browser, "locale": device.locale, "timezone": device.timezone,
        "screen_width": device.screen_width, "screen_height": device.screen_height, "library": device.library,
    })
}

fn provenance(provenance: &Provenance) -> Value {
    json!({
        "request_id": provenance.request_id.to_string(),
        "partition": provenance.partition,
        "offset": provenance.offset,
        "pipeline": provenance.pipeline,
    })
}

pub fn clear(clear: &Clear) -> Map<String, Value> {
    object(json!({
        "event_id": clear.event_id.as_str(),
        "source": clear.source,
        "dialect": clear.dialect.name(),
        "request_id": clear.request_id.to_string(),
        "index": clear.index,
        "received_at": clear.received_at.to_rfc3339(),
        "stage": clear.stage.name(),
        "reason": clear.reason.name(),
        "detail": clear.detail,
        "full_length": clear.full_length,
        "failed_at": clear.failed_at.to_rfc3339(),
        "pipeline": clear.provenance.pipeline,
        "provenance": provenance(&clear.provenance),
    }))
}

pub fn bad(bad: &Bad, role: Role) -> Map<String, Value> {
    let mut object = clear(&bad.clear);
    if role >= Role::Reveal {
        let sealed = json!({
            "key_id": bad.sealed.key_id,
            "encapsulated_key": base64(&bad.sealed.encapsulated_key),
            "sequence": bad.sealed.sequence,
            "ciphertext": base64(&bad.sealed.ciphertext),
        });
        object.insert("sealed".to_owned(), sealed);
    }
    object
}

fn delta(delta: &Delta) -> Map<String, Value> {
    object(json!({
        "format": delta.format,
        "task": delta.task,
        "seq": delta.seq,
        "prev_seq": delta.prev_seq,
        "part": delta.part,
        "parts": delta.parts,
        "from_offset": delta.from_offset,
        "to_offset": delta.to_offset,
        "watermark": known(delta.watermark),
        "clock": known(delta.clock),
        "pipeline": delta.pipeline,
        "ops": delta.ops.iter().map(|op| json!({"key": base64(&op.key), "value": op.value.as_deref().map(base64)})).collect::<Vec<_>>(),
    }))
}

fn window(result: &WindowResult) -> Map<String, Value> {
    object(json!({
        "window": result.window,
        "key": result.key,
        "start": result.start.to_rfc3339(),
        "end": result.end.to_rfc3339(),
        "values": result.values,
        "revision": result.revision,
        "final": result.is_final,
        "fingerprint": result.fingerprint,
    }))
}

fn late(late: &Late) -> Map<String, Value> {
    let missed = &late.missed;
    object(json!({
        "window": missed.window,
        "start": missed.start.to_rfc3339(),
        "end": missed.end.to_rfc3339(),
        "late_by_micros": missed.by_micros,
        "event": trusted(&late.event),
    }))
}

fn partials(partials: &Partials) -> Map<String, Value> {
    object(json!({
        "format": partials.format,
        "task": partials.task,
        "watermark": known(partials.watermark),
        "partials": partials.partials.iter().map(|partial| json!({
            "window": partial.window, "key": partial.key, "bucket": partial.bucket.to_rfc3339(),
            "since": partial.since.map(Micros::to_rfc3339), "kept": base64(&partial.kept),
        })).collect::<Vec<_>>(),
    }))
}

/// Nothing before a task knows any time.
fn known(time: Micros) -> Option<String> {
    (time.0 != i64::MIN).then(|| time.to_rfc3339())
}

pub fn raw(raw: &RawRequest) -> Map<String, Value> {
    let origin = |origin: IdOrigin| origin.name();
    object(json!({
        "request_id": raw.request_id.to_string(),
        "received_at": raw.received_at.to_rfc3339(),
        "gateway": raw.gateway,
        "source": raw.source,
        "peer": raw.peer,
        "client_ip": raw.client_ip,
        "method": raw.method,
        "target": raw.target,
        "headers": raw.headers.iter().map(|h| json!({"name": h.name, "value": h.value.as_deref().map(text), "length": h.length})).collect::<Vec<_>>(),
        "body": base64(&raw.body),
        "dialect": raw.dialect.name(),
        "events": raw.events.iter().map(|e| json!({
            "event_id": e.event_id.as_str(), "id_origin": origin(e.id_origin), "offset": e.offset, "length": e.length,
        })).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_schemas::catalog::{Catalog, Shape};

    #[test]
    fn a_device_has_the_names_of_the_catalogue() {
        let catalog = Catalog::builtin();
        let Some(Shape::Object(known)) = catalog.context().fields.member("device").map(|field| &field.shape) else { panic!("an object") };
        let shown = object(device(&Device::default()));
        assert_eq!(shown.keys().collect::<Vec<_>>(), known.keys().collect::<Vec<_>>());
    }
}
