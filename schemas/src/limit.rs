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
/// Request target (path and query): the longest that the `http` crate holds.
pub const TARGET_BYTES: usize = u16::MAX as usize - 1;
/// All request headers together.
pub const HEADERS_BYTES: usize = 64 << 10;
/// Requests that may wait for the spool (default of `gateway.limits.in_flight`).
pub const IN_FLIGHT: usize = 1_024;
/// Requests that are durable and may wait for the log or the object store, of sources that want that.
pub const ACKS_WAITING: usize = 16_384;
/// Bytes of a body that is read and dropped so that the client sees 413.
pub const DRAIN_BYTES: usize = 64 << 20;
/// Open connections of the public listener (default of `gateway.limits.connections`).
pub const CONNECTIONS: usize = 2_048;
/// Bodies, as sent and decoded, in the gateway's memory at once (default of `gateway.limits.memory`).
pub const BODY_MEMORY_BYTES: usize = 96 << 20;
/// Bodies up to this size are decoded where they were read; larger ones on a thread that may block.
pub const DECODE_INLINE_BYTES: usize = 64 << 10;
/// Large bodies that are decoded at once.
pub const DECODES: usize = 4;
/// Refused requests whose bodies are being drained at once; beyond it the connection is closed unread.
pub const DRAINS: usize = 64;
/// What is read of a body that is refused unseen, so that its client sees the answer.
pub const REFUSED_DRAIN_BYTES: usize = 256 << 10;
/// Spooled requests that wait in memory for the publisher; what does not fit is read back from the spool.
pub const HANDOVER_BYTES: usize = 16 << 20;
/// Event bytes in one append of the publisher to the log; as many wait for their turn. A round trip of 50 ms must not
/// bound what one gateway publishes.
pub const PUBLISH_BYTES: usize = 16 << 20;
/// Event bytes that are cut before they are put to those that wait.
pub const CUT_PIECE_BYTES: usize = 1 << 20;
/// Bytes of one group commit in the spool before it is written.
pub const SPOOL_BLOCK_BYTES: usize = 4 << 20;
/// A message of any topic (design §4.3).
pub const MESSAGE_BYTES: usize = 8 << 20;
/// What a topic takes in one batch beside one message.
pub const BATCH_OVERHEAD_BYTES: usize = 64 << 10;
/// Partitions of a topic, and of one of the embedded log, whose column families need memory.
pub const PARTITIONS: i32 = 1_024;
pub const LOG_PARTITIONS: i32 = 64;
/// A topic's name on Kafka.
pub const TOPIC_NAME_BYTES: usize = 249;
/// How long an append waits for the brokers' acknowledgements before it gives all of it up. Rides over a broker's restart.
pub const LOG_APPEND_MS: u64 = 20_000;
/// A lane's transaction on the brokers, and what a commit takes of it before its outcome is called unknown.
pub const TRANSACTION_MS: u64 = 15_000;
pub const LANE_COMMIT_MS: u64 = 10_000;
/// What is fetched of a partition before it is read, and what is produced before it is sent.
pub const READ_AHEAD_BYTES: usize = 2 << 20;
pub const PRODUCE_QUEUE_BYTES: usize = 64 << 20;
/// Clients of one log that are open or have not ended yet, and readers of one partition.
pub const LOG_CLIENTS: usize = 256;
pub const LOG_READERS: usize = 16;
/// How long a log may take to answer a question or to give records that it holds.
pub const LOG_ANSWER_MS: u64 = 10_000;
/// How long a schema registry may take to be connected and to answer, how large an answer may be, how often it is asked
/// before its caller hears of it, and the first wait between; it doubles.
pub const REGISTRY_CONNECT_MS: u64 = 2_000;
pub const REGISTRY_ANSWER_MS: u64 = 5_000;
pub const REGISTRY_ANSWER_BYTES: usize = 4 << 20;
pub const REGISTRY_TRIES: u32 = 3;
pub const REGISTRY_BACKOFF_MS: u64 = 100;
/// Versions of a schema, the newest ones, that the one in use must be able to read.
pub const REGISTRY_VERSIONS: usize = 64;
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
/// What a record takes on the log beside its key, value and headers, at most: Kafka's record batch (61), lengths and deltas.
pub const RECORD_OVERHEAD_BYTES: usize = 128;
/// A harvested value that is sealed whole; of a longer one the beginning. A bad event adds its clear part to it.
pub const OUTPUT_BYTES: usize = MESSAGE_BYTES - (64 << 10);
/// What a lane reads of one task at a time; the ids in it are looked up together.
pub const LANE_READ_BYTES: usize = 1 << 20;
pub const LANE_READ_RECORDS: usize = 2_048;
/// Wait before an aborted commit or a failed read is tried again; doubles from the first to the last.
pub const LANE_BACKOFF_MS_MIN: u64 = 20;
pub const LANE_BACKOFF_MS_MAX: u64 = 5_000;
/// How long a starting lane waits for deltas that the committed `seq` promises, and for a state folder that is still held.
pub const RECOVERY_WAIT_MS: u64 = 10_000;
/// A commit of ticks alone waits this long (design §4.2), and an idle lane commits at least this often.
pub const TICKS_COMMIT_MS: u64 = 10_000;
pub const IDLE_COMMIT_MS: u64 = 3_600_000;
/// Between two flushes of a task's local state.
pub const STATE_FLUSH_MS: u64 = 60_000;
/// Write buffers and block cache of all tasks' RocksDB together.
pub const STATE_BUFFER_BYTES: usize = 48 << 20;
pub const STATE_CACHE_BYTES: usize = 32 << 20;
/// A commit that is under way for longer makes its lane not ready.
pub const COMMIT_LATE_MS: u64 = 10_000;
/// How often a starting enricher tries to take tasks over from lanes of another layout while others do the same.
pub const CUSTODY_ROUNDS: usize = 16;
/// Tasks whose standing is asked for, or whose state comes back, at the same time.
pub const TASKS_AT_ONCE: usize = 16;
/// Gateways that a task's watermark waits for, and the bytes of a gateway's or source's name; a record with longer ones
/// is no gateway's of ours.
pub const GATEWAYS: usize = 1_024;
pub const NAME_BYTES: usize = 256;
/// How far the task clock may stand after the newest time that a gateway told (design §6.6).
pub const CLOCK_AHEAD_MS: i64 = 300_000;
/// Declared windows, the length of a window's uid, fields of its key, values of its result.
pub const WINDOWS: usize = 64;
pub const WINDOW_UID_BYTES: usize = 64;
pub const WINDOW_KEY_FIELDS: usize = 8;
pub const WINDOW_VALUES: usize = 32;
/// A text in a window's key; a longer one becomes the hex of its SHA-256.
pub const WINDOW_KEY_BYTES: usize = 256;
/// The least and longest of a window's times, and the slides in a sliding window's size.
pub const WINDOW_MICROS_MIN: i64 = 1_000_000;
pub const WINDOW_MICROS: i64 = 400 * 86_400_000_000;
pub const WINDOW_PANES: usize = 1_024;
/// Keys of one window with something open, in one task; what is beyond has no place in it.
pub const WINDOW_KEYS: usize = 1 << 20;
/// Parts of windows in one message between the stages.
pub const PARTIALS_BYTES: usize = 4 << 20;
/// Entries without a TTL that one commit puts again, so that the deltas that are kept hold them.
pub const REFRESH_ENTRIES: usize = 2_000;
/// What a late event has beside its trusted event.
pub const LATE_OVERHEAD_BYTES: usize = 512;
/// An object's name, as S3 bounds it, and one part of it, as file systems do.
pub const OBJECT_NAME_BYTES: usize = 1_024;
pub const OBJECT_PART_BYTES: usize = 255;
/// Segments that a gateway puts into the object store at once.
pub const LANDERS: usize = 4;
/// `gateway.spool.segment_bytes`: a segment is put in one piece, which S3 bounds at 5 GiB.
pub const SEGMENT_BYTES: u64 = 1 << 30;
/// How long an object store may take to be connected, and to answer, beside the time that an object's bytes need.
pub const OBJECT_CONNECT_MS: u64 = 3_000;
pub const OBJECT_ANSWER_MS: u64 = 15_000;
/// A transfer that is slower is given up and tried again.
pub const OBJECT_BYTES_PER_S: u64 = 512 << 10;
/// How long a question to an object store is asked again before its caller hears of it, and the waits between.
pub const OBJECT_PATIENCE_MS: u64 = 10_000;
pub const OBJECT_BACKOFF_MS_MIN: u64 = 50;
pub const OBJECT_BACKOFF_MS_MAX: u64 = 2_000;
/// A lane's id and the metadata of an offset it commits (Kafka's `offset.metadata.max.bytes`).
pub const LANE_ID_BYTES: usize = 249;
pub const LANE_METADATA_BYTES: usize = 4_096;
/// Free space below which the embedded log takes no more records: flushes and a restart need room.
pub const LOG_RESERVE_BYTES: u64 = 256 << 20;
/// A foreign event name that is looked up; longer ones are unknown types.
pub const FOREIGN_NAME_BYTES: usize = 256;
/// One schema file of the catalogue.
pub const SCHEMA_BYTES: usize = 1 << 20;
/// Fields of one schema, every `$ref` written out.
pub const SCHEMA_FIELDS: usize = 2_000;
/// A thing id that may be classified `keep` by its pattern, and that pattern.
pub const THING_ID_CHARS: usize = 64;
pub const THING_ID_PATTERN_BYTES: usize = 512;
/// Bytes that the table sink reads from one partition at a time.
pub const SINK_READ_BYTES: usize = 1 << 20;
/// Records that the table sink reads from one partition at a time.
pub const SINK_READ_RECORDS: usize = 4_096;
/// Trusted bytes held as Arrow columns before they are encoded as Parquet.
pub const SINK_ROWS_BYTES: usize = 8 << 20;
/// Encoded bytes of a Parquet row group.
pub const SINK_ROW_GROUP_BYTES: usize = 16 << 20;
/// Days (table partitions) that one commit of the table sink may touch.
pub const SINK_DAYS: usize = 16;
/// Manifests of a snapshot beyond which the small ones are merged into one.
pub const SINK_MANIFESTS: usize = 32;
/// A manifest of this size is no longer merged.
pub const SINK_MANIFEST_BYTES: i64 = 4 << 20;
/// Data files of one day and one size class beyond which they are rewritten as one.
pub const SINK_SMALL_FILES: usize = 16;
/// A data file of this size is no longer rewritten.
pub const SINK_SMALL_FILE_BYTES: u64 = 4 << 20;
/// Bytes of data files that one rewrite may read.
pub const SINK_REWRITE_BYTES: u64 = 64 << 20;
/// Commits of a batch that are tried one after another when others commit to the same table.
pub const SINK_COMMIT_ATTEMPTS: usize = 8;
/// Names that a search for the table's orphans asks of the object store at a time.
pub const SINK_LIST_OBJECTS: usize = 1_000;
/// What is read of a data file at least when a part of it is wanted.
pub const SINK_READ_AHEAD_BYTES: u64 = 256 << 10;
/// How long the table's catalogue is waited for.
pub const CATALOGUE_ANSWER_MS: u64 = 30_000;
/// A REST catalogue's answer: the metadata of a table.
pub const CATALOGUE_ANSWER_BYTES: usize = 64 << 20;
/// What is repeated of a REST catalogue's reason.
pub const CATALOGUE_REASON_CHARS: usize = 300;
/// How long a token is good whose giver does not say.
pub const CATALOGUE_TOKEN_S: u64 = 3_600;
/// Memtables and block cache of the embedded log (defaults of its options).
pub const LOG_MEMTABLE_BYTES: usize = 48 << 20;
pub const LOG_CACHE_BYTES: usize = 16 << 20;
/// Unclassified fields that are told one by one of one event; the rest are counted as one.
pub const UNCLASSIFIED_PER_EVENT: usize = 32;
/// Texts that each thread of the enricher remembers what came of, and how long one of them may be.
pub const REMEMBERED_TEXTS: usize = 8_192;
pub const REMEMBERED_TEXT_BYTES: usize = 256;
/// User agents whose reading each thread of the enricher remembers, and how many bytes of one are read.
pub const USER_AGENTS: usize = 4_096;
pub const USER_AGENT_BYTES: usize = 1_024;
/// Names that no schema knows and whose telling (shape and keyed hash) is remembered.
pub const UNKNOWN_NAMES: usize = 4_096;
/// The text of an instant; longer ones are none.
pub const INSTANT_BYTES: usize = 64;
/// Where names of unclassified fields are looked for that a process has not met: the newest events, found by going back
/// through each partition in windows. Ticks count as records only.
pub const NAMES_EVENTS: usize = 20_000;
pub const NAMES_WINDOW_RECORDS: i64 = 5_000;
pub const NAMES_WINDOWS: usize = 40;
/// Lanes of one process: each has two threads and a producer.
pub const LANES: usize = 64;
/// A part that is refused what it stands on is tried this often, and one that nobody answers for ever, so far apart.
pub const START_REFUSALS: u32 = 5;
pub const START_BACKOFF_MS_MIN: u64 = 250;
pub const START_BACKOFF_MS_MAX: u64 = 5_000;
/// How long each part may take to finish what it has when its process is told to stop.
pub const DRAIN_MS: u64 = 30_000;
/// How far back an event's story is looked for in a log that others fill, unless somebody says from when.
pub const EXPLAIN_LOOK_BACK_MICROS: i64 = 86_400_000_000;
/// The least length of a token that somebody made by hand.
pub const TOKEN_CHARS_MIN: usize = 16;
/// Values that a window tells as its most frequent ones, and the text of one; of longer ones none is counted.
pub const SKETCH_TOP: usize = 100;
pub const SKETCH_TEXT_BYTES: usize = 256;
