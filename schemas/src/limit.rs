//! Every bound has its name here (law L1). Sizes in bytes unless the name says otherwise.

/// A client's event id; longer ones become UUIDv8 of their bytes (design §5.4).
pub const EVENT_ID_BYTES: usize = 256;
/// A partition key; longer ones become the hex of their SHA-256 (design §4.2).
pub const PARTITION_KEY_BYTES: usize = 256;
/// Request body as sent on the wire (default of `gateway.limits.wire_bytes`).
pub const WIRE_BYTES: usize = 20 << 20;
/// Request body after every decoding step (default of `gateway.limits.inflated_bytes`).
pub const INFLATED_BYTES: usize = 32 << 20;
/// Inflated size over wire size beyond `INFLATE_RATIO_FLOOR_BYTES` (a decompression bomb).
pub const INFLATE_RATIO: usize = 1_000;
pub const INFLATE_RATIO_FLOOR_BYTES: usize = 1 << 20;
/// zstd window that a client may ask for.
pub const ZSTD_WINDOW_LOG: u32 = 23;
/// One event; beyond it the event is cut and rejected as `event_too_large` (design §5.6).
pub const EVENT_BYTES: usize = 1 << 20;
/// What is kept of an event or body that is too large or unreadable.
pub const CUT_BYTES: usize = 64 << 10;
/// Events in one request.
pub const EVENTS_PER_REQUEST: usize = 10_000;
/// Nesting of one event's JSON, counted in open brackets.
pub const JSON_DEPTH: usize = 64;
/// Encoding layers that are taken off a body: content encoding, form, base64, lz-string, gzip again.
pub const BODY_LAYERS: usize = 6;
/// Request target (path and query).
pub const TARGET_BYTES: usize = 128 << 10;
/// All request headers together.
pub const HEADERS_BYTES: usize = 64 << 10;
/// Requests that may wait for the spool (default of `gateway.limits.in_flight`).
pub const IN_FLIGHT: usize = 1_024;
/// Bytes of a body that is read and dropped so that the client sees 413.
pub const DRAIN_BYTES: usize = 64 << 20;
/// Bytes of one group commit in the spool before it is written.
pub const SPOOL_BLOCK_BYTES: usize = 4 << 20;
/// A message of any topic (design §4.3).
pub const MESSAGE_BYTES: usize = 8 << 20;
/// A delta record's operations, before it is split.
pub const DELTA_BYTES: usize = 4 << 20;
/// Harvested bytes that one task reads for one commit.
pub const COMMIT_BYTES: usize = 4 << 20;
/// Harvested records that one task reads for one commit.
pub const COMMIT_RECORDS: usize = 8_192;
/// `detail` of a bad event, characters.
pub const DETAIL_CHARS: usize = 512;
/// Distinct unclassified paths remembered per task.
pub const UNCLASSIFIED_PATHS: usize = 1_000;
