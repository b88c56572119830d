//! Identifiers. A newtype each, so that a request id cannot stand where an event id belongs.

use sha2::{Digest, Sha256};
use std::fmt;
use uuid::Uuid;

/// UUIDv7 of one HTTP request, given when it is enqueued to the spool; monotonic in a gateway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RequestId(pub Uuid);

impl RequestId {
    pub const CHARS: usize = uuid::fmt::Hyphenated::LENGTH;
    /// Its text, written into `buffer`.
    pub fn encode(self, buffer: &mut [u8; RequestId::CHARS]) -> &str {
        self.0.hyphenated().encode_lower(buffer)
    }
}
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}
impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl std::str::FromStr for RequestId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(RequestId)
    }
}

/// The id of a fact (design §5.4): 1 to `limit::EVENT_ID_BYTES` bytes of text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId(String);

impl EventId {
    /// `None` when the text is empty or longer than `limit::EVENT_ID_BYTES`.
    pub fn new(text: impl Into<String>) -> Option<EventId> {
        let text = text.into();
        (!text.is_empty() && text.len() <= crate::limit::EVENT_ID_BYTES).then_some(EventId(text))
    }
    pub fn from_uuid(uuid: Uuid) -> EventId {
        EventId(uuid.hyphenated().to_string())
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A UUIDv8 derived from bytes: SHA-256 over `domain` and then each part, every one of them behind its length in eight
/// big-endian bytes; the first 16 bytes of the digest with the version and variant bits set (RFC 9562).
pub fn derived(domain: &str, parts: &[&[u8]]) -> Uuid {
    let mut hash = Sha256::new();
    for part in std::iter::once(&domain.as_bytes()).chain(parts) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    Uuid::new_v8(*digest.first_chunk().expect("a digest has 32 bytes"))
}

/// Where an event's id came from; `Assigned` ids cannot recognise a retry. Ordinals are persisted (Avro enum).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdOrigin {
    Client,
    Content,
    IdempotencyKey,
    Assigned,
}

impl IdOrigin {
    pub const ALL: [IdOrigin; 4] = [IdOrigin::Client, IdOrigin::Content, IdOrigin::IdempotencyKey, IdOrigin::Assigned];
    pub fn name(self) -> &'static str {
        match self {
            IdOrigin::Client => "client",
            IdOrigin::Content => "content",
            IdOrigin::IdempotencyKey => "idempotency_key",
            IdOrigin::Assigned => "assigned",
        }
    }
}
