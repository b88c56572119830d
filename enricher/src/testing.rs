//! For tests: a log in memory that fails on demand, and events to put on it.

use crate::config::{Config, StateChanges};
use crate::format::Format;
use crate::keys;
use crate::layout::Layout;
use crate::progress;
use crate::state::Origin;
use crate::task::{Admit, Rules};
use bytes::Bytes;
use forebay_enricher_core::combine::window::declare::{self, Declaration, Window};
use forebay_enricher_core::{Admitted, Collision, Options, Pipeline, Reject};
use forebay_schemas::catalog::Catalog;
use forebay_schemas::dialect::Dialect;
use forebay_schemas::id::{EventId, IdOrigin, RequestId};
use forebay_schemas::limit;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::{PUBLISHED_THROUGH, Topic};
use forebay_schemas::wire::harvested::{self, Content, Harvested};
use forebay_stores::log::{Bounds, CommitError, Committed, Entry, Lane, Log, LogError, Reader, Record, TopicPartition, Transaction};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How the next commit ends instead of well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Abort,
    UnknownApplied,
    UnknownNotApplied,
    /// Another process took the lane. The commit did not happen.
    Fence,
    /// The process dies before, or after, the commit is on the log. Told as a fence, which ends the lane.
    DieBefore,
    DieAfter,
    Refuse,
    /// The commit waits until `release`, and then goes well.
    Hang,
}

#[derive(Clone)]
pub struct FakeLog(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    appended: Condvar,
    /// What happens just before this lane is opened, or commits, the next time.
    before_lane: Mutex<Option<(String, Meanwhile)>>,
    before_commit: Mutex<Option<(String, Meanwhile)>>,
}

fn happen(awaited: &Mutex<Option<(String, Meanwhile)>>, id: &str) {
    let meanwhile = awaited.lock().take_if(|(awaited, _)| awaited == id);
    if let Some((_, meanwhile)) = meanwhile {
        meanwhile();
    }
}

type Meanwhile = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Inner {
    partitions: i32,
    generations: BTreeMap<Topic, u32>,
    now: Micros,
    topics: BTreeMap<TopicPartition, Partition>,
    committed: BTreeMap<(String, TopicPartition), Committed>,
    epochs: BTreeMap<String, u64>,
    faults: VecDeque<Fault>,
    /// No broker answers.
    outage: bool,
    /// What the log says to every question but those that it need not be asked.
    refuses: Option<String>,
    hangs: usize,
    /// Readers opened, to count what a start costs.
    readers: usize,
    /// How often the bounds of a place were asked for.
    asked: BTreeMap<TopicPartition, usize>,
}

#[derive(Default)]
struct Partition {
    records: Vec<Record>,
    start: i64,
    end: i64,
    /// What is committed shows up to here: the marker of a transaction may be late.
    shown: Option<i64>,
}

impl Partition {
    fn bounds(&self) -> Bounds {
        Bounds { start: self.start, end: self.shown.map_or(self.end, |shown| shown.min(self.end)) }
    }
}

impl FakeLog {
    pub fn new(partitions: i32) -> FakeLog {
        let inner = Inner { partitions, now: START, ..Inner::default() };
        FakeLog(Arc::new(Shared {
            inner: Mutex::new(inner),
            appended: Condvar::new(),
            before_lane: Mutex::default(),
            before_commit: Mutex::default(),
        }))
    }
    pub fn now(&self) -> Micros {
        self.0.inner.lock().now
    }
    pub fn pass(&self, time: Duration) {
        let mut inner = self.0.inner.lock();
        inner.now = inner.now.saturating_add_micros(time.as_micros() as i64);
    }
    /// The log's clock is set, forwards or back.
    pub fn set_now(&self, now: Micros) {
        self.0.inner.lock().now = now;
    }
    pub fn fault(&self, fault: Fault) {
        self.0.inner.lock().faults.push_back(fault);
    }
    /// The topics are others from now on, with nothing in them.
    pub fn recreate(&self) {
        Topic::ALL.into_iter().for_each(|topic| self.recreate_topic(topic));
    }
    /// What a group without members loses (H40).
    pub fn forget_offsets(&self) {
        self.0.inner.lock().committed.clear();
    }
    pub fn set_committed(&self, lane: &str, at: TopicPartition, committed: Committed) {
        self.0.inner.lock().committed.insert((lane.to_owned(), at), committed);
    }
    /// Retention: `at` begins at `start`.
    pub fn drop_before(&self, at: TopicPartition, start: i64) {
        let mut inner = self.0.inner.lock();
        let partition = inner.topics.entry(at).or_default();
        partition.start = start;
        partition.records.retain(|record| record.offset >= start);
    }
    pub fn remove(&self, at: TopicPartition, offset: i64) {
        self.0.inner.lock().topics.entry(at).or_default().records.retain(|record| record.offset != offset);
    }
    /// Places without a record: markers of transactions that were aborted.
    pub fn gap(&self, at: TopicPartition, places: i64) {
        self.0.inner.lock().topics.entry(at).or_default().end += places;
    }
    /// Another value in the place of the record's.
    pub fn replace(&self, at: TopicPartition, offset: i64, value: Bytes) {
        let mut inner = self.0.inner.lock();
        let records = &mut inner.topics.entry(at).or_default().records;
        records.iter_mut().find(|record| record.offset == offset).expect("a record").value = Some(value);
    }
    /// From now on `at` shows nothing new; `None`: everything again.
    pub fn show_up_to(&self, at: TopicPartition, shown: Option<i64>) {
        self.0.inner.lock().topics.entry(at).or_default().shown = shown;
    }
    /// Lets `meanwhile` happen between what somebody has read and their next opening of lane `id`.
    pub fn before_lane(&self, id: &str, meanwhile: impl FnOnce() + Send + 'static) {
        *self.0.before_lane.lock() = Some((id.to_owned(), Box::new(meanwhile)));
    }
    pub fn before_commit(&self, id: &str, meanwhile: impl FnOnce() + Send + 'static) {
        *self.0.before_commit.lock() = Some((id.to_owned(), Box::new(meanwhile)));
    }
    pub fn outage(&self, outage: bool) {
        self.0.inner.lock().outage = outage;
    }
    pub fn refuse(&self, why: Option<&str>) {
        self.0.inner.lock().refuses = why.map(str::to_owned);
    }
    /// Commits that hang at the moment.
    pub fn hanging(&self) -> usize {
        self.0.inner.lock().hangs
    }
    pub fn release(&self) {
        self.0.inner.lock().hangs = 0;
        self.0.appended.notify_all();
    }
    /// Names that were ever opened as lanes, and how often.
    pub fn opened(&self) -> BTreeMap<String, u64> {
        self.0.inner.lock().epochs.clone()
    }
    pub fn asked(&self, at: TopicPartition) -> usize {
        self.0.inner.lock().asked.get(&at).copied().unwrap_or(0)
    }
    pub fn readers_opened(&self) -> usize {
        self.0.inner.lock().readers
    }
    /// As a version wrote them that put none.
    pub fn strip_headers(&self, at: TopicPartition) {
        let mut inner = self.0.inner.lock();
        inner.topics.entry(at).or_default().records.iter_mut().for_each(|record| record.headers.clear());
    }
    pub fn has_faults(&self) -> bool {
        !self.0.inner.lock().faults.is_empty()
    }
    /// In one step: appended, and the first of it taken by retention.
    pub fn append_and_drop(&self, at: TopicPartition, entries: Vec<(TopicPartition, Entry)>, start: i64) {
        let mut inner = self.0.inner.lock();
        inner.append(entries);
        let partition = inner.topics.entry(at).or_default();
        partition.start = start;
        partition.records.retain(|record| record.offset >= start);
        self.0.appended.notify_all();
    }
    pub fn recreate_topic(&self, topic: Topic) {
        let mut inner = self.0.inner.lock();
        *inner.generations.entry(topic).or_default() += 1;
        inner.topics.retain(|at, _| at.topic != topic);
        inner.committed.retain(|(_, at), _| at.topic != topic);
    }
    pub fn records(&self, topic: Topic, partition: i32) -> Vec<Record> {
        let inner = self.0.inner.lock();
        inner.topics.get(&TopicPartition { topic, partition }).map(|partition| partition.records.clone()).unwrap_or_default()
    }
}

impl Inner {
    fn answers(&self) -> Result<(), LogError> {
        match &self.refuses {
            _ if self.outage => Err(LogError::Io("no broker".to_owned())),
            Some(why) => Err(LogError::Refused(why.clone())),
            None => Ok(()),
        }
    }
    fn append(&mut self, entries: Vec<(TopicPartition, Entry)>) {
        let timestamp = self.now;
        for (at, Entry { key, value, headers }) in entries {
            let partition = self.topics.entry(at).or_default();
            partition.records.push(Record { offset: partition.end, timestamp, key, value, headers });
            partition.end += 1;
        }
    }
    /// Outputs and offsets, and the marker by which Kafka makes them visible: an offset without a record.
    fn apply(&mut self, id: &str, transaction: Transaction) {
        let mut touched: Vec<TopicPartition> = transaction.outputs.iter().map(|(at, _)| *at).collect();
        self.append(transaction.outputs);
        touched.sort_unstable();
        touched.dedup();
        for at in touched {
            self.topics.entry(at).or_default().end += 1;
        }
        for (at, committed) in transaction.offsets {
            self.committed.insert((id.to_owned(), at), committed);
        }
    }
}

impl Log for FakeLog {
    fn partitions(&self, _: Topic) -> i32 {
        self.0.inner.lock().partitions
    }
    fn topic_id(&self, topic: Topic) -> Result<String, LogError> {
        let inner = self.0.inner.lock();
        inner.answers()?;
        Ok(format!("{}-{}", topic.word(), inner.generations.get(&topic).copied().unwrap_or(0)))
    }
    fn append(&self, entries: Vec<(TopicPartition, Entry)>) -> Result<(), LogError> {
        self.0.inner.lock().append(entries);
        self.0.appended.notify_all();
        Ok(())
    }
    fn bounds(&self, at: TopicPartition) -> Result<Bounds, LogError> {
        let mut inner = self.0.inner.lock();
        inner.answers()?;
        *inner.asked.entry(at).or_default() += 1;
        Ok(inner.topics.get(&at).map_or(Bounds { start: 0, end: 0 }, Partition::bounds))
    }
    fn reader(&self, at: TopicPartition, from: i64) -> Result<Box<dyn Reader>, LogError> {
        let bounds = self.bounds(at)?;
        if from < bounds.start || from > bounds.end {
            return Err(LogError::OffsetOutOfRange { topic_partition: at, offset: from, bounds });
        }
        self.0.inner.lock().readers += 1;
        Ok(Box::new(FakeReader { log: self.clone(), at, position: from }))
    }
    fn lane(&self, id: &str) -> Result<Box<dyn Lane>, LogError> {
        happen(&self.0.before_lane, id);
        let mut inner = self.0.inner.lock();
        inner.answers()?;
        let epoch = inner.epochs.entry(id.to_owned()).or_default();
        *epoch += 1;
        Ok(Box::new(FakeLane { log: self.clone(), id: id.to_owned(), epoch: *epoch, is_over: false }))
    }
    fn committed(&self, id: &str, at: TopicPartition) -> Result<Option<Committed>, LogError> {
        let inner = self.0.inner.lock();
        inner.answers()?;
        Ok(inner.committed.get(&(id.to_owned(), at)).cloned())
    }
    fn wait_past(&self, positions: &[(TopicPartition, i64)], wait: Duration) {
        let mut inner = self.0.inner.lock();
        if !positions.iter().any(|(at, position)| inner.topics.get(at).is_some_and(|partition| partition.end > *position)) {
            self.0.appended.wait_for(&mut inner, wait);
        }
    }
}

struct FakeReader {
    log: FakeLog,
    at: TopicPartition,
    position: i64,
}

impl Reader for FakeReader {
    fn read(&mut self, bytes_max: usize, records_max: usize) -> Result<Vec<Record>, LogError> {
        let bounds = self.log.bounds(self.at)?;
        if self.position < bounds.start {
            return Err(LogError::OffsetOutOfRange { topic_partition: self.at, offset: self.position, bounds });
        }
        let inner = self.log.0.inner.lock();
        let Some(partition) = inner.topics.get(&self.at) else { return Ok(Vec::new()) };
        let first = partition.records.partition_point(|record| record.offset < self.position);
        let mut bytes = 0;
        let shown = partition.records[first..].iter().take_while(|record| record.offset < bounds.end);
        let more = shown.take(records_max).take_while(|record| {
            let before = bytes;
            bytes += record.value.as_ref().map_or(0, Bytes::len);
            before == 0 || before < bytes_max
        });
        let records: Vec<Record> = more.cloned().collect();
        self.position = records.last().map_or(self.position, |last| last.offset + 1);
        Ok(records)
    }
    fn read_to(&mut self, end: i64, bytes_max: usize, records_max: usize) -> Result<Vec<Record>, LogError> {
        let left = usize::try_from(end.saturating_sub(self.position)).unwrap_or(0);
        self.read(bytes_max, records_max.min(left))
    }
    fn position(&self) -> i64 {
        self.position
    }
}

struct FakeLane {
    log: FakeLog,
    id: String,
    epoch: u64,
    /// The outcome of a commit is unknown: nothing more can be done with it.
    is_over: bool,
}

const OVER: &str = "used after an unknown outcome";

impl Lane for FakeLane {
    fn committed(&mut self, at: TopicPartition) -> Result<Option<Committed>, LogError> {
        if self.is_over {
            return Err(LogError::Refused(OVER.to_owned()));
        }
        if self.log.0.inner.lock().epochs.get(&self.id) != Some(&self.epoch) {
            return Err(LogError::Fenced("an older epoch".to_owned()));
        }
        self.log.committed(&self.id, at)
    }
    fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        if self.is_over {
            return Err(CommitError::Refused(OVER.to_owned()));
        }
        happen(&self.log.0.before_commit, &self.id);
        let mut inner = self.log.0.inner.lock();
        let told = |what: &str| what.to_owned();
        if inner.outage {
            self.is_over = true;
            return Err(CommitError::Unknown(told("no broker")));
        }
        // Who hears nothing does not hear that it is fenced, either.
        let is_lost = inner.faults.front() == Some(&Fault::UnknownNotApplied);
        if !is_lost && inner.epochs.get(&self.id) != Some(&self.epoch) {
            return Err(CommitError::Fenced(told("an older epoch")));
        }
        if let Some((at, size)) =
            transaction.outputs.iter().map(|(at, entry)| (at, size_on_the_log(entry))).find(|(_, size)| *size > limit::MESSAGE_BYTES)
        {
            return Err(CommitError::Refused(format!("{at:?}: {size} bytes are over the message limit")));
        }
        let fault = inner.faults.pop_front();
        if fault == Some(Fault::Hang) {
            inner.hangs += 1;
            self.log.0.appended.wait_while(&mut inner, |inner| inner.hangs > 0);
        }
        match fault {
            None | Some(Fault::UnknownApplied | Fault::DieAfter | Fault::Hang) => inner.apply(&self.id, transaction),
            Some(Fault::Abort | Fault::UnknownNotApplied | Fault::Fence | Fault::DieBefore | Fault::Refuse) => {}
        }
        self.log.0.appended.notify_all();
        self.is_over = matches!(fault, Some(Fault::UnknownApplied | Fault::UnknownNotApplied));
        match fault {
            None | Some(Fault::Hang) => Ok(()),
            Some(Fault::Refuse) => Err(CommitError::Refused(told("on demand"))),
            Some(Fault::Abort) => Err(CommitError::Aborted(told("on demand"))),
            Some(Fault::UnknownApplied | Fault::UnknownNotApplied) => Err(CommitError::Unknown(told("on demand"))),
            Some(Fault::Fence | Fault::DieBefore | Fault::DieAfter) => Err(CommitError::Fenced(told("on demand"))),
        }
    }
}

/// As a broker counts it: a batch of this record alone, its varints at their longest.
fn size_on_the_log(entry: &Entry) -> usize {
    let headers: usize = entry.headers.iter().map(|(name, value)| name.len() + value.len() + 10).sum();
    61 + 32 + entry.key.len() + entry.value.as_ref().map_or(0, Bytes::len) + headers
}

/// 2026-11-30T00:00:00Z.
pub const START: Micros = Micros(1_795_996_800_000_000);
pub const JOB: &str = "job";
pub const SOURCE: &str = "web";

/// What the tests say of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// A fact; another number is another fact.
    Fact(u32),
    /// A fact with a field that nobody classified.
    Odd(u32),
    /// No JSON.
    Broken,
    /// Something that makes the stages panic.
    Poison,
    /// Not even a harvested record.
    Foreign,
}

pub fn event_id(n: u32) -> String {
    format!("e{n}")
}

pub fn harvested(id: u32, body: Body, received_at: Micros) -> Harvested {
    let payload = match body {
        Body::Fact(n) => native(id, n, ""),
        Body::Odd(n) => native(id, n, r#","odd key":"x""#),
        Body::Broken | Body::Foreign => "not json".to_owned(),
        Body::Poison => native(id, 0, "") + POISON,
    };
    Harvested {
        event_id: EventId::new(event_id(id)).expect("short"),
        id_origin: IdOrigin::Client,
        request_id: RequestId(Uuid::from_u128(7)),
        index: 0,
        gateway: "g".to_owned(),
        source: SOURCE.to_owned(),
        dialect: Dialect::Native,
        received_at,
        sent_at: None,
        client_ip: None,
        user_agent: None,
        headers: Vec::new(),
        content: Content::Json,
        envelope: None,
        payload: payload.into(),
        full_length: None,
    }
}

/// A fact of somebody, at a time of its own.
pub fn fact(partition: i32, id: u32, who: &str, quantity: i64, at: Micros, received_at: Micros) -> (TopicPartition, Entry) {
    let payload = format!(
        r#"{{"event_id":"e{id}","event_type":"product_viewed","anonymous_id":"{who}","event_time":"{}","properties":{{"quantity":{quantity}}}}}"#,
        at.to_rfc3339()
    );
    let harvested = Harvested { payload: payload.into(), ..harvested(id, Body::Fact(0), received_at) };
    let entry =
        Entry { key: Bytes::copy_from_slice(who.as_bytes()), value: Some(harvested::encode(&harvested).into()), headers: Vec::new() };
    (TopicPartition { topic: Topic::Harvested, partition }, entry)
}

fn native(id: u32, n: u32, more: &str) -> String {
    format!(r#"{{"event_id":"e{id}","event_type":"product_viewed","anonymous_id":"a","properties":{{"quantity":{n}{more}}}}}"#)
}

const POISON: &str = " ";

pub fn event(partition: i32, id: u32, body: Body, received_at: Micros) -> (TopicPartition, Entry) {
    let value = match body {
        Body::Foreign => Bytes::from_static(b"\x01foreign"),
        Body::Fact(_) | Body::Odd(_) | Body::Broken | Body::Poison => harvested::encode(&harvested(id, body, received_at)).into(),
    };
    (
        TopicPartition { topic: Topic::Harvested, partition },
        Entry { key: Bytes::from_static(b"a"), value: Some(value), headers: Vec::new() },
    )
}

pub fn tick(partition: i32, gateway: &str, through: Micros) -> (TopicPartition, Entry) {
    let headers = vec![(PUBLISHED_THROUGH.to_owned(), Bytes::from(through.0.to_string()))];
    let entry = Entry { key: Bytes::copy_from_slice(gateway.as_bytes()), value: None, headers };
    (TopicPartition { topic: Topic::Harvested, partition }, entry)
}

/// The real pipeline, with a defect for poisoned events.
struct Brittle(Arc<Pipeline>);

impl Admit for Brittle {
    fn admit<'a>(&'a self, event: &'a Harvested) -> Result<Admitted<'a>, Reject> {
        assert!(!event.payload.ends_with(POISON.as_bytes()), "poison");
        self.0.admit(event)
    }
}

pub fn pipeline(ttl: Duration, collision: Collision) -> Arc<Pipeline> {
    pipeline_with(Options { dedup_ttl_micros: ttl.as_micros() as i64, collision, ..Options::default() })
}

pub fn pipeline_with(options: Options) -> Arc<Pipeline> {
    pipeline_of(options, &[])
}

/// Keys of its own: equal values get other tokens in another pipeline.
pub fn pipeline_of(options: Options, windows: &[Declaration]) -> Arc<Pipeline> {
    pipeline_having(options, declare::windows(windows, &Catalog::builtin()).expect("windows of the catalogue's fields"))
}

pub fn pipeline_having(options: Options, windows: Vec<Window>) -> Arc<Pipeline> {
    let dir = tempfile::tempdir().expect("a folder");
    let keys = keys::load(&keys::ensure(dir.path()).expect("made"), BTreeMap::new()).expect("usable");
    let pipeline = Pipeline::new(Arc::new(Catalog::builtin()), options, keys).expect("the built-in catalogue compiles");
    Arc::new(pipeline.of_windows(windows))
}

pub fn rules(log: &FakeLog, pipeline: Arc<Pipeline>, refresh_after: Duration, lanes: u32, format: Format) -> Rules {
    let origin = Origin {
        harvested: log.topic_id(Topic::Harvested).expect("fake"),
        delta: log.topic_id(Topic::Delta).expect("fake"),
        partitions: log.partitions(Topic::Harvested),
    };
    let config = Config::new(crate::state::Kind::Memory);
    let pipeline_ttl = pipeline.options().dedup_ttl_micros;
    Rules {
        admit: Arc::new(Brittle(pipeline.clone())),
        pipeline,
        time: progress::Rules {
            watermark_delay_micros: crate::config::micros(config.watermark.delay.0),
            gateway_retire_after_micros: crate::config::micros(config.gateway_retire_after.0),
        },
        deltas_needed_micros: pipeline_ttl.saturating_add(crate::config::micros(refresh_after)),
        refresh_after_micros: crate::config::micros(refresh_after),
        started_at: log.now(),
        changes: StateChanges::default(),
        window_keys: limit::WINDOW_KEYS,
        layout: Layout::new(JOB, lanes, origin.partitions),
        origin,
        format,
        life: Uuid::from_bytes(crate::task::fresh()).to_string(),
    }
}
