//! A task: one partition's ordered log, one state, one clock. What happens to a record happens here, in order.
//!
//! Owns: reading a record (event, tick), judging it, what is written and produced for it, cutting the batch for a commit.
//! Does not own: stages (core), dedup storage (`seen`), commits (`commit`), threads and reading (`lane`).
//! Invariants: A3, each harvested record gets one outcome, counted with its offset; E1, a reject touches its total and
//! nothing else; judging a record either writes all that belongs to it or nothing.

mod input;

use self::input::{Input, Place, cut_short, read};
use crate::delta::{self, COMMITTED, Head};
use crate::format::Format;
use crate::guard;
use crate::layout::Layout;
use crate::overlay::Overlay;
use crate::progress::{self, NEVER, Progress};
use crate::seen::{self, Known, Reclaim};
use crate::state::key::{self, Uid};
use crate::state::{Backend, Meta, Origin, StateError};
use crate::totals::{Changes, Totals};
use bytes::Bytes;
use forebay_enricher_core::combine::dedup::{self, Horizon, Key, Seen, Verdict};
use forebay_enricher_core::seal::Sealer;
use forebay_enricher_core::{Admitted, Collision, Pipeline, Reject, Unclassified, deliver};
use forebay_schemas::limit;
use forebay_schemas::outcome::Outcome;
use forebay_schemas::reason::Reason;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::delta::Op;
use forebay_schemas::wire::harvested::{self, Harvested};
use forebay_schemas::wire::trusted::Provenance;
use forebay_stores::log::{Committed, Entry, Record, TopicPartition};
use std::sync::Arc;

/// What every task of a process works by.
pub struct Rules {
    pub pipeline: Arc<Pipeline>,
    pub admit: Arc<dyn Admit>,
    pub time: progress::Rules,
    pub refresh_after_micros: i64,
    pub origin: Origin,
    pub layout: Layout,
    pub format: Format,
    /// Names this life of the process in what it commits: another may come to the same `seq`.
    pub life: String,
}

impl Rules {
    /// What is committed for a task with the batch of `head`.
    pub fn committed(&self, head: &Head) -> Committed {
        let Rules { pipeline, origin, layout, life, .. } = self;
        let (seq, fp, partitions, lanes, input) =
            (head.seq, pipeline.fingerprint(), layout.partitions(), layout.lanes(), &origin.harvested);
        let metadata = format!("seq={seq};fp={fp};partitions={partitions};lanes={lanes};input={input};life={life}");
        Committed { offset: head.to_offset, metadata }
    }

    /// The batch's deltas as they are produced; `ops` comes back unchanged. The key is the job: another job's state is not
    /// this one's.
    pub fn deltas(&self, head: &Head, ops: Vec<Op>) -> (Vec<(TopicPartition, Entry)>, Vec<Op>) {
        let (messages, ops) = delta::messages(head, self.format, ops, limit::DELTA_BYTES);
        let to = TopicPartition { topic: Topic::Delta, partition: head.task };
        let key = Bytes::copy_from_slice(self.layout.job().as_bytes());
        let headers = vec![(COMMITTED.to_owned(), Bytes::from(self.committed(head).metadata))];
        let entry = |message| (to, Entry { key: key.clone(), value: Some(Bytes::from(message)), headers: headers.clone() });
        (messages.into_iter().map(entry).collect(), ops)
    }
}

/// Admission as a task calls it: the pipeline, or in tests something that fails.
pub trait Admit: Send + Sync {
    fn admit<'a>(&'a self, event: &'a Harvested) -> Result<Admitted<'a>, Reject>;
}
impl Admit for Pipeline {
    fn admit<'a>(&'a self, event: &'a Harvested) -> Result<Admitted<'a>, Reject> {
        Pipeline::admit(self, event)
    }
}

pub struct Task {
    partition: i32,
    rules: Arc<Rules>,
    horizon: Horizon,
    overlay: Overlay,
    progress: Progress,
    totals: Totals,
    outputs: Vec<(TopicPartition, Entry)>,
    sealer: Option<Sealer>,
    /// Of the last batch cut.
    seq: i64,
    from_offset: i64,
    next_offset: i64,
    pending: Pending,
    /// The clock when the batch being filled and the one in flight began.
    batch_began: Micros,
    in_flight_began: Option<Micros>,
}

/// What the batch being filled was made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pending {
    pub records: usize,
    pub bytes: usize,
    /// Records that are no ticks.
    pub events: usize,
}

/// A batch, ready to be committed.
pub struct Cut {
    pub partition: i32,
    pub outputs: Vec<(TopicPartition, Entry)>,
    pub committed: Committed,
    pub ops: Arc<Vec<Op>>,
    pub meta: Meta,
    pub reclaim: Option<Reclaim>,
    pub changes: Changes,
}

/// What a record turned out to be.
enum Judged {
    Trusted { key: Bytes, value: Bytes, unclassified: Vec<Unclassified> },
    Duplicate,
    Bad(Reject),
}

impl Task {
    /// A task that stands where `backend` stands: at `seq`, before `offset`.
    pub fn new(partition: i32, rules: Arc<Rules>, backend: Arc<dyn Backend>, seq: i64, offset: i64) -> Result<Task, StateError> {
        let progress = Progress::load(&*backend, rules.format)?.unwrap_or_default();
        let totals = Totals::load(&*backend)?;
        Ok(Task {
            partition,
            horizon: Horizon::new(rules.pipeline.options().dedup_ttl_micros),
            rules,
            overlay: Overlay::new(backend),
            batch_began: progress.clock,
            in_flight_began: None,
            progress,
            totals,
            outputs: Vec::new(),
            sealer: None,
            seq,
            from_offset: offset,
            next_offset: offset,
            pending: Pending::default(),
        })
    }

    pub fn partition(&self) -> i32 {
        self.partition
    }
    pub fn input(&self) -> TopicPartition {
        TopicPartition { topic: Topic::Harvested, partition: self.partition }
    }
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }
    pub fn pending(&self) -> Pending {
        self.pending
    }
    pub fn progress(&self) -> &Progress {
        &self.progress
    }
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.overlay.backend()
    }

    /// Steps through `records`, the next ones of this partition.
    pub fn take(&mut self, records: Vec<Record>) -> Result<(), StateError> {
        let inputs: Vec<(Place, Input)> = records.into_iter().map(|record| read(record, self.partition)).collect();
        let keys = inputs.iter().filter_map(|(_, input)| match input {
            Input::Event { key, .. } => Some(*key),
            Input::Tick { .. } => None,
        });
        let uncommitted_since = self.in_flight_began.unwrap_or(self.batch_began);
        let mut known = Known::fetch(keys.collect(), &self.overlay, &self.progress, self.horizon, uncommitted_since)?;
        for (place, input) in inputs {
            match input {
                Input::Tick { gateway, through } => self.tick(place, &gateway, through),
                Input::Event { harvested, value, key, told, keyed } => {
                    self.progress.advance(place.timestamp, told);
                    self.step(place, &harvested, &value, keyed.then_some(key), &mut known)?;
                }
            }
            self.pending.records += 1;
            self.next_offset = place.offset + 1;
        }
        Ok(())
    }

    /// Time passes; nothing else happens, and nothing is counted.
    fn tick(&mut self, place: Place, gateway: &[u8], through: Option<Micros>) {
        self.progress.advance(place.timestamp, through);
        if let (Ok(gateway), Some(through)) = (std::str::from_utf8(gateway), through) {
            self.progress.tick(gateway, through, self.rules.time);
        }
    }

    fn step(&mut self, place: Place, harvested: &Harvested, value: &Bytes, key: Option<Key>, known: &mut Known) -> Result<(), StateError> {
        self.pending.events += 1;
        self.pending.bytes += value.len();
        let judged = match guard::guarded(|| self.judge(place, harvested, key, known)) {
            Ok(judged) => judged?,
            Err(guard::Panicked) => {
                self.overlay.drop_record();
                Judged::Bad(Reject::panicked())
            }
        };
        self.overlay.keep_record();
        let outcome = match judged {
            Judged::Trusted { key, value, unclassified } => {
                self.produce(Topic::Trusted, key, value);
                self.totals.count_unclassified(unclassified);
                Outcome::Trusted
            }
            Judged::Duplicate => Outcome::Duplicate,
            Judged::Bad(reject) => {
                let value = self.sealed(place, harvested, value, &reject);
                self.produce(Topic::Bad, Bytes::copy_from_slice(harvested.event_id.as_str().as_bytes()), value);
                Outcome::Bad(reject.reason)
            }
        };
        self.totals.count(&harvested.source, outcome);
        Ok(())
    }

    /// admit → dedup → deliver; without a key (of the id, since the record has none) nothing. Writes to the overlay's record alone, besides listing a generation there may be no use for.
    fn judge(&mut self, place: Place, harvested: &Harvested, key: Option<Key>, known: &mut Known) -> Result<Judged, StateError> {
        let Some(key) = key else { return Ok(Judged::Bad(Reject::unkeyable())) };
        let Admitted { masked, fingerprint, unclassified } = match self.rules.admit.admit(harvested) {
            Ok(admitted) => admitted,
            Err(reject) => return Ok(Judged::Bad(reject)),
        };
        let now = self.progress.clock;
        let (key, masked) = match dedup::verdict(fingerprint, known.get(key), self.horizon, now) {
            Verdict::New => (key, masked),
            Verdict::Duplicate => return Ok(Judged::Duplicate),
            Verdict::Collision => {
                let collision = Reject::collision(masked.event_type());
                if self.rules.pipeline.options().collision == Collision::Bad {
                    return Ok(Judged::Bad(collision));
                }
                let event_id = dedup::rekey(&harvested.source, &harvested.event_id, fingerprint);
                let key = Key::of(&harvested.source, &event_id);
                let held = seen::fetch_one(key, &self.overlay, &self.progress, self.horizon)?;
                match dedup::verdict(fingerprint, held, self.horizon, now) {
                    Verdict::New => (key, masked.rekeyed(event_id)),
                    Verdict::Duplicate => return Ok(Judged::Duplicate),
                    Verdict::Collision => return Ok(Judged::Bad(collision)),
                }
            }
        };
        let event_type = masked.event_type().to_owned();
        let message_key = Bytes::copy_from_slice(masked.event_id().as_str().as_bytes());
        let value = Bytes::from(deliver::trusted(masked, self.provenance(place, harvested)));
        if !fits(&message_key, &value) {
            return Ok(Judged::Bad(too_large(event_type)));
        }
        let first = Seen { fingerprint, at: now };
        seen::put(key, first, &mut self.overlay, &mut self.progress, self.horizon);
        known.set(key, first);
        Ok(Judged::Trusted { key: message_key, value, unclassified })
    }

    /// The message for the topic of bad events; an event too large to stand in one is cut.
    fn sealed(&mut self, place: Place, harvested: &Harvested, value: &Bytes, reject: &Reject) -> Bytes {
        let (failed_at, provenance) = (self.progress.clock, self.provenance(place, harvested));
        let pipeline = &self.rules.pipeline;
        let sealer = self.sealer.get_or_insert_with(|| Sealer::new(pipeline.bad_key(), fresh()));
        if value.len() <= limit::OUTPUT_BYTES {
            return Bytes::from(deliver::bad(harvested, value, reject, failed_at, provenance, sealer));
        }
        let cut = cut_short(harvested);
        Bytes::from(deliver::bad(&cut, &harvested::encode(&cut), reject, failed_at, provenance, sealer))
    }

    fn provenance(&self, place: Place, harvested: &Harvested) -> Provenance {
        Provenance {
            request_id: harvested.request_id,
            partition: self.partition,
            offset: place.offset,
            pipeline: self.rules.pipeline.fingerprint().to_owned(),
        }
    }

    fn produce(&mut self, topic: Topic, key: Bytes, value: Bytes) {
        let to = TopicPartition { topic, partition: self.partition };
        self.outputs.push((to, Entry { key, value: Some(value), headers: Vec::new() }));
    }

    /// Ends the batch. `settled` is due before the next cut.
    pub fn cut(&mut self) -> Cut {
        let clock = self.progress.clock;
        let all = clock.0.saturating_sub(self.progress.refreshed_at.0) >= self.rules.refresh_after_micros;
        if all {
            self.progress.refreshed_at = clock;
        }
        let changes = self.totals.write(&mut self.overlay, all);
        let reclaim = seen::expire(&mut self.progress, self.horizon);
        self.overlay.put(key::plain(Uid::Progress, b""), self.progress.encode(self.rules.format));
        self.overlay.keep_record();
        let head = Head {
            task: self.partition,
            seq: self.seq + 1,
            prev_seq: self.seq,
            from_offset: self.from_offset,
            to_offset: self.next_offset,
            watermark: self.progress.watermark.unwrap_or(NEVER),
            clock,
            pipeline: self.rules.pipeline.fingerprint().to_owned(),
        };
        let (deltas, ops) = self.rules.deltas(&head, self.overlay.cut());
        self.outputs.extend(deltas);
        let ops = Arc::new(ops);
        self.overlay.in_flight(ops.clone());
        self.in_flight_began = Some(self.batch_began);
        self.batch_began = clock;
        self.seq = head.seq;
        self.from_offset = self.next_offset;
        self.sealer = None;
        self.pending = Pending::default();
        let origin = self.rules.origin.clone();
        Cut {
            partition: self.partition,
            outputs: std::mem::take(&mut self.outputs),
            committed: self.rules.committed(&head),
            ops,
            meta: Meta { seq: head.seq, offset: head.to_offset, origin, deltas_from: None },
            reclaim,
            changes,
        }
    }

    /// The batch that was cut is committed and in the backend.
    pub fn settled(&mut self) {
        self.overlay.settled();
        self.in_flight_began = None;
    }
}

/// True when a message is within the log's bound, whatever the log adds to it.
fn fits(key: &[u8], value: &[u8]) -> bool {
    key.len() + value.len() + limit::RECORD_OVERHEAD_BYTES <= limit::MESSAGE_BYTES
}

fn too_large(event_type: String) -> Reject {
    let reason = Reason::EventTooLarge;
    Reject {
        stage: reason.stage(),
        reason,
        event_type: Some(event_type),
        detail: "the trusted event would be larger than a message may be".to_owned(),
    }
}

/// Randomness for what must not come twice.
pub fn fresh<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}
