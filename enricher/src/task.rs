//! A task: one partition's ordered log, one state, one clock. What happens to a record happens here, in order.
//!
//! Owns: reading a record (event, tick), judging it, what is written and produced for it, cutting the batch for a commit.
//! Does not own: stages (core), dedup storage (`seen`), commits (`commit`), threads and reading (`lane`).
//! Invariants: A3, each harvested record gets one outcome, counted with its offset; E1, a reject touches its total and
//! nothing else; judging a record either writes all that belongs to it or nothing.

mod input;

use self::input::{Input, Place, cut_short, read};
use crate::config::StateChanges;
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
use crate::windows::{self, Effects, Windows};
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
use forebay_schemas::wire::partials;
use forebay_schemas::wire::trusted::Provenance;
use forebay_stores::log::{Committed, Entry, Record, TopicPartition};
use std::collections::VecDeque;
use std::sync::Arc;

/// What every task of a process works by.
pub struct Rules {
    pub pipeline: Arc<Pipeline>,
    pub admit: Arc<dyn Admit>,
    pub time: progress::Rules,
    pub refresh_after_micros: i64,
    pub deltas_needed_micros: i64,
    pub origin: Origin,
    pub layout: Layout,
    pub format: Format,
    /// Names this life of the process in what it commits: another may come to the same `seq`.
    pub life: String,
    /// By the clock of this machine; nothing has come from behind it.
    pub started_at: Micros,
    pub changes: StateChanges,
    /// Keys of one window with something open, in one task.
    pub window_keys: usize,
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
    windows: Windows,
    /// Records that were read and not yet stepped through: there may be no room for the results that are due before.
    queue: VecDeque<Work>,
    /// Of the ids in the queue.
    known: Known,
    /// Results may be due that the batch had no room for.
    is_firing: bool,
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
    /// Of records, and of results that were told without one.
    pub bytes: usize,
    /// What should not wait: records that are no ticks, timers that were fired, time that others wait for.
    pub events: usize,
}

/// A record on its way through the task.
enum Work {
    Input(Place, Input),
    /// Of the repartition topic.
    Partials(Record),
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
    /// How far the repartition topic was read: for whoever looks from outside, since the task knows it from its state.
    pub partials: Option<(TopicPartition, Committed)>,
}

/// What a record turned out to be.
enum Judged {
    Trusted { key: Bytes, value: Bytes, unclassified: Vec<Unclassified>, effects: Effects },
    Duplicate,
    Bad(Reject),
}

impl Task {
    /// A task that stands where `backend` stands: at `seq`, before `offset`.
    pub fn new(partition: i32, rules: Arc<Rules>, backend: Arc<dyn Backend>, seq: i64, offset: i64) -> Result<Task, StateError> {
        let progress = Progress::load(&*backend, rules.format)?.unwrap_or_default();
        let totals = Totals::load(&*backend)?;
        let mut overlay = Overlay::new(backend);
        let windows = Windows::load(&rules, progress.clock.max(rules.started_at), &mut overlay)?;
        Ok(Task {
            partition,
            horizon: Horizon::new(rules.pipeline.options().dedup_ttl_micros),
            rules,
            // What windows are new, or are let go, should not wait for an event.
            pending: Pending { events: usize::from(!overlay.is_clean()), ..Pending::default() },
            overlay,
            batch_began: progress.clock,
            in_flight_began: None,
            progress,
            totals,
            windows,
            queue: VecDeque::new(),
            known: Known::default(),
            is_firing: true,
            outputs: Vec::new(),
            sealer: None,
            seq,
            from_offset: offset,
            next_offset: offset,
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
    pub fn windows(&self) -> &Windows {
        &self.windows
    }
    /// Where the repartition topic is read, and from where; `None`: not at all. It is, once there is a window with two stages.
    pub fn partials(&self) -> Option<(TopicPartition, Option<i64>)> {
        let at = TopicPartition { topic: Topic::Repartition, partition: self.partition };
        self.windows.reads_partials().then_some((at, self.windows.position()))
    }
    /// What windows had no room for since the last call, by window.
    pub fn take_left_out(&mut self) -> Vec<(String, u64)> {
        self.windows.take_left_out()
    }
    /// Something that was taken, or is due, waits for room.
    pub fn is_behind(&self) -> bool {
        self.is_firing || !self.queue.is_empty()
    }
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.overlay.backend()
    }

    /// Takes `records`, the next ones of this partition, and steps through them as far as the batch has room.
    pub fn take(&mut self, records: Vec<Record>) -> Result<(), StateError> {
        assert!(self.queue.is_empty(), "records are taken in order");
        let inputs: Vec<(Place, Input)> = records.into_iter().map(|record| read(record, self.partition)).collect();
        let keys = inputs.iter().filter_map(|(_, input)| match input {
            Input::Event { key, .. } => Some(*key),
            Input::Tick { .. } => None,
        });
        let uncommitted_since = self.in_flight_began.unwrap_or(self.batch_began);
        self.known = Known::fetch(keys.collect(), &self.overlay, &self.progress, self.horizon, uncommitted_since)?;
        self.queue.extend(inputs.into_iter().map(|(place, input)| Work::Input(place, input)));
        self.work()
    }

    /// Takes records of the repartition topic, likewise.
    pub fn take_partials(&mut self, records: Vec<Record>) -> Result<(), StateError> {
        self.queue.extend(records.into_iter().map(Work::Partials));
        self.work()
    }

    /// Steps through what was taken, as far as the batch has room.
    pub fn work(&mut self) -> Result<(), StateError> {
        let mut known = std::mem::take(&mut self.known);
        loop {
            self.fire()?;
            if self.is_firing {
                break;
            }
            let Some(work) = self.queue.pop_front() else { break };
            match work {
                Work::Input(place, input) => self.take_in(place, input, &mut known)?,
                Work::Partials(record) => self.partials_of(record)?,
            }
        }
        self.known = known;
        Ok(())
    }

    fn take_in(&mut self, place: Place, input: Input, known: &mut Known) -> Result<(), StateError> {
        match input {
            Input::Tick { gateway, through } => self.tick(place, &gateway, through),
            Input::Event { harvested, value, key, told, keyed } => {
                self.progress.advance(place.timestamp, told);
                self.step(place, &harvested, &value, keyed.then_some(key), known)?;
            }
        }
        self.pending.records += 1;
        self.next_offset = place.offset + 1;
        Ok(())
    }

    /// Time passes; nothing else happens, and nothing is counted.
    fn tick(&mut self, place: Place, gateway: &[u8], through: Option<Micros>) {
        self.progress.advance(place.timestamp, through);
        if let (Ok(gateway), Some(through)) = (std::str::from_utf8(gateway), through) {
            self.progress.tick(gateway, through, self.rules.time);
            if self.windows.has_news(self.watermark()) {
                self.pending.events += 1;
            }
        }
    }

    /// Tells the results that are due, as far as the batch has room.
    fn fire(&mut self) -> Result<(), StateError> {
        while let Some(timer) = self.windows.due(self.watermark()) {
            self.is_firing = self.pending.bytes >= limit::COMMIT_BYTES;
            if self.is_firing {
                return Ok(());
            }
            let results = self.windows.fire(timer, &mut self.overlay)?;
            self.pending.events += 1;
            self.tell(results);
        }
        self.is_firing = false;
        Ok(())
    }

    fn partials_of(&mut self, record: Record) -> Result<(), StateError> {
        let (partition, offset) = (self.partition, record.offset);
        let wrong = |what: String| StateError::Repartition { partition, offset, what };
        let value = record.value.as_deref().ok_or_else(|| wrong("a record without a value".into()))?;
        let partials = partials::decode(value).map_err(|error| wrong(error.to_string()))?;
        let messages = self.windows.partials(&partials, &mut self.overlay, wrong)?;
        self.pending.bytes += value.len();
        self.pending.records += 1;
        self.pending.events += 1;
        self.windows.advance(offset + 1);
        self.tell(messages);
        Ok(())
    }

    fn watermark(&self) -> Micros {
        self.progress.watermark.unwrap_or(NEVER)
    }

    fn tell(&mut self, results: Vec<windows::Message>) {
        for (key, value) in results {
            self.pending.bytes += key.len() + value.len();
            self.produce(Topic::Windows, self.partition, Bytes::from(key), Bytes::from(value));
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
            Judged::Trusted { key, value, unclassified, effects } => {
                for (window, missed) in &effects.missed {
                    let late = self.windows.late(*window, missed, &value);
                    self.totals.count_late(self.windows.uid(*window));
                    self.pending.bytes += late.len();
                    self.produce(Topic::Late, self.partition, key.clone(), Bytes::from(late));
                }
                self.produce(Topic::Trusted, self.partition, key, value);
                let results = self.windows.keep(effects);
                self.tell(results);
                self.totals.count_unclassified(unclassified);
                Outcome::Trusted
            }
            Judged::Duplicate => Outcome::Duplicate,
            Judged::Bad(reject) => {
                let value = self.sealed(place, harvested, value, &reject);
                self.produce(Topic::Bad, self.partition, Bytes::copy_from_slice(harvested.event_id.as_str().as_bytes()), value);
                Outcome::Bad(reject.reason)
            }
        };
        self.totals.count(&harvested.source, outcome);
        Ok(())
    }

    /// admit → dedup → window → deliver; without a key (of the id, since the record has none) nothing. Writes to the overlay's record alone, besides listing a generation there may be no use for.
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
        let effects = self.windows.event(&masked, self.watermark(), &mut self.overlay)?;
        let value = Bytes::from(deliver::trusted(masked, self.provenance(place, harvested)));
        let more = if effects.missed.is_empty() { 0 } else { limit::LATE_OVERHEAD_BYTES };
        if !fits(message_key.len() + value.len() + more) {
            self.overlay.drop_record();
            return Ok(Judged::Bad(too_large(event_type)));
        }
        let first = Seen { fingerprint, at: now };
        seen::put(key, first, &mut self.overlay, &mut self.progress, self.horizon);
        known.set(key, first);
        Ok(Judged::Trusted { key: message_key, value, unclassified, effects })
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

    fn produce(&mut self, topic: Topic, partition: i32, key: Bytes, value: Bytes) {
        let to = TopicPartition { topic, partition };
        self.outputs.push((to, Entry { key, value: Some(value), headers: Vec::new() }));
    }

    /// Ends the batch. `settled` is due before the next cut.
    pub fn cut(&mut self) -> Result<Cut, StateError> {
        let clock = self.progress.clock;
        let all = clock.0.saturating_sub(self.progress.refreshed_at.0) >= self.rules.refresh_after_micros;
        if all {
            self.progress.refreshed_at = clock;
            self.windows.refresh();
        }
        for (partition, parts) in self.windows.cut(self.partition, self.watermark(), &mut self.overlay)? {
            self.produce(Topic::Repartition, partition, Bytes::from(self.partition.to_string()), Bytes::from(parts));
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
        let partials = self.partials().and_then(|(at, offset)| Some((at, Committed { offset: offset?, metadata: String::new() })));
        Ok(Cut {
            partition: self.partition,
            outputs: std::mem::take(&mut self.outputs),
            committed: self.rules.committed(&head),
            ops,
            meta: Meta { seq: head.seq, offset: head.to_offset, origin, deltas_from: None },
            reclaim,
            changes,
            partials,
        })
    }

    /// The batch that was cut is committed and in the backend.
    pub fn settled(&mut self) {
        self.overlay.settled();
        self.in_flight_began = None;
    }
}

/// True when a message's key and value are within the log's bound, whatever the log adds to them.
fn fits(bytes: usize) -> bool {
    bytes + limit::RECORD_OVERHEAD_BYTES <= limit::MESSAGE_BYTES
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
