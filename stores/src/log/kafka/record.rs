//! Records on the wire: how an entry is handed to a producer, what is made of a message.
//!
//! Owns: the size that counts against the message limit, headers, append times, the registry's ids in place of the
//! built-in ones. Does not own: the framing (`schemas::wire`), which ids (`registry`).

use super::client::Context;
use super::registry::Registry;
use super::report::Batch;
use crate::log::{Entry, LogError, Record, TopicPartition};
use bytes::{Bytes, BytesMut};
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Records read or translated together share buffers of this size, so that one costs no allocation.
const BUFFER_BYTES: usize = 256 << 10;

/// What counts against `limit::MESSAGE_BYTES`.
pub(super) fn size(entry: &Entry) -> usize {
    let headers: usize = entry.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    entry.key.len() + entry.value.as_ref().map_or(0, Bytes::len) + headers
}

/// Gives the values the registry's ids.
pub(super) fn translate(registry: &Registry, entries: &mut [(TopicPartition, Entry)]) -> Result<(), LogError> {
    let mut buffer = BytesMut::new();
    for (at, entry) in entries {
        let Some(value) = &mut entry.value else { continue };
        reserve(&mut buffer, value.len());
        buffer.extend_from_slice(value);
        let mut own = buffer.split();
        registry.outgoing(at.topic, &mut own)?;
        *value = own.freeze();
    }
    Ok(())
}

/// Hands `entry` to a producer, which copies it. `Ok(false)`: its queue is full.
pub(super) fn produce(
    producer: &BaseProducer<Context>,
    batch: &Arc<Batch>,
    topic: &str,
    partition: i32,
    entry: &Entry,
) -> Result<bool, KafkaError> {
    let mut record = BaseRecord::with_opaque_to(topic, Arc::clone(batch)).partition(partition).key(&entry.key[..]);
    record.payload = entry.value.as_deref();
    if !entry.headers.is_empty() {
        let headers = OwnedHeaders::new_with_capacity(entry.headers.len());
        let add = |headers: OwnedHeaders, (key, value): &(String, Bytes)| headers.insert(Header { key, value: Some(&value[..]) });
        record.headers = Some(entry.headers.iter().fold(headers, add));
    }
    batch.add();
    let sent = producer.send(record).map_err(|(error, _)| error);
    if sent.is_err() {
        batch.undo();
    }
    match sent {
        Ok(()) => Ok(true),
        Err(KafkaError::MessageProduction(Code::QueueFull)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A message as a record of `topic`, in `buffer`.
pub(super) fn decode(
    topic: Topic,
    message: &BorrowedMessage<'_>,
    registry: Option<&Registry>,
    buffer: &mut BytesMut,
) -> Result<Record, LogError> {
    let (key, value) = (message.key().unwrap_or_default(), message.payload());
    let headers = message.headers().map_or_else(Vec::new, headers);
    let bytes = key.len() + value.map_or(0, <[u8]>::len);
    reserve(buffer, bytes);
    buffer.extend_from_slice(key);
    buffer.extend_from_slice(value.unwrap_or_default());
    let mut own = buffer.split();
    if let (Some(registry), Some(_)) = (registry, value) {
        registry.incoming(topic, &mut own[key.len()..])?;
    }
    let own = own.freeze();
    Ok(Record {
        offset: message.offset(),
        timestamp: Micros(message.timestamp().to_millis().unwrap_or(0).saturating_mul(1_000)),
        key: own.slice(..key.len()),
        value: value.map(|_| own.slice(key.len()..)),
        headers,
    })
}

fn reserve(buffer: &mut BytesMut, bytes: usize) {
    if buffer.capacity() < bytes {
        *buffer = BytesMut::with_capacity(bytes.max(BUFFER_BYTES));
    }
}

/// In order. A name that is not UTF-8 is none of ours, and librdkafka's Rust face panics on it: it is left out.
fn headers(headers: &BorrowedHeaders) -> Vec<(String, Bytes)> {
    let header = |nth| {
        let header = catch_unwind(AssertUnwindSafe(|| headers.get(nth))).ok()?;
        Some((header.key.to_owned(), Bytes::copy_from_slice(header.value.unwrap_or_default())))
    };
    (0..headers.count()).filter_map(header).collect()
}
