//! What stands at an offset of the harvested topic: a tick, an event, or what nobody of ours wrote.

use bytes::Bytes;
use forebay_enricher_core::combine::dedup::Key;
use forebay_schemas::dialect::Dialect;
use forebay_schemas::id::{EventId, IdOrigin, RequestId};
use forebay_schemas::limit;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::PUBLISHED_THROUGH;
use forebay_schemas::wire::harvested::{self, Content, Harvested, UNREADABLE};
use forebay_stores::log::Record;
use uuid::Uuid;

/// Where a record stands.
#[derive(Clone, Copy)]
pub struct Place {
    pub offset: i64,
    pub timestamp: Micros,
}

pub enum Input {
    Tick {
        gateway: Bytes,
        through: Option<Micros>,
    },
    /// `told`: the gateway's time, unless the record is not a gateway's. `keyed`: the record has a partition key.
    Event {
        harvested: Box<Harvested>,
        value: Bytes,
        key: Key,
        told: Option<Micros>,
        keyed: bool,
    },
}

pub fn read(record: Record, partition: i32) -> (Place, Input) {
    let place = Place { offset: record.offset, timestamp: record.timestamp };
    let Some(value) = record.value else {
        let through = record.headers.iter().find(|(name, _)| name == PUBLISHED_THROUGH);
        let through = through.and_then(|(_, text)| std::str::from_utf8(text).ok()?.parse().ok()).map(Micros);
        return (place, Input::Tick { gateway: record.key, through });
    };
    let (harvested, told, keyed) = match harvested::decode(&value) {
        Ok(harvested) if harvested.source.len() <= limit::NAME_BYTES && harvested.gateway.len() <= limit::NAME_BYTES => {
            let told = harvested.received_at;
            (harvested, Some(told), !record.key.is_empty())
        }
        Ok(_) | Err(_) => (foreign(place, partition, &value), None, true),
    };
    let key = Key::of(&harvested.source, &harvested.event_id);
    (place, Input::Event { harvested: Box::new(harvested), value, key, told, keyed })
}

/// A record that no gateway of ours wrote. It is one event nobody can read, named after its place.
fn foreign(place: Place, partition: i32, value: &Bytes) -> Harvested {
    let mut name = [0; 16];
    name[..4].copy_from_slice(&partition.to_be_bytes());
    name[8..].copy_from_slice(&place.offset.to_be_bytes());
    Harvested {
        event_id: EventId::from_uuid(Uuid::new_v8(name)),
        id_origin: IdOrigin::Assigned,
        request_id: RequestId(Uuid::nil()),
        index: 0,
        gateway: String::new(),
        source: "unknown".to_owned(),
        dialect: Dialect::Native,
        received_at: place.timestamp,
        sent_at: None,
        client_ip: None,
        user_agent: None,
        headers: Vec::new(),
        content: Content::Bytes,
        envelope: Some(UNREADABLE.to_owned()),
        payload: value.slice(..value.len().min(limit::CUT_BYTES)),
        full_length: (value.len() > limit::CUT_BYTES).then_some(value.len() as u64),
    }
}

/// The event with so little of its payload that it fits into a bad event.
pub fn cut_short(harvested: &Harvested) -> Harvested {
    let length = harvested.payload.len();
    let short = |text: &Option<String>| text.clone().filter(|text| text.len() <= limit::CUT_BYTES);
    Harvested {
        payload: harvested.payload.slice(..length.min(limit::CUT_BYTES)),
        full_length: harvested.full_length.or(Some(length as u64)),
        envelope: short(&harvested.envelope),
        client_ip: short(&harvested.client_ip),
        user_agent: short(&harvested.user_agent),
        headers: Vec::new(),
        ..harvested.clone()
    }
}
