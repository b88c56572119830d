//! The table sink against a log in memory: what is in the table after crashes, races and recreated topics.

mod catalogues;
mod faults;
mod windows;
mod kafka;
mod log;
mod objects;
mod proxy;

use super::catalogue::{Catalogue, Next, Swap};
use super::commit::Outcome;
use super::config::Config;
use super::error::{Refusal, SinkError};
use super::lookup::{Lookup, lookup};
use super::metrics::Families;
use super::place::{self, CatalogueAt};
use super::rows::Rows;
use super::shape::Table;
use super::shape::trusted::TrustedRows;
use super::shape::windows::WindowRows;
use super::sink::TableSink;
use super::stored::Stored;
use super::warehouse::Warehouse;
use super::worker::Worker;
use super::{file, manifests};
use arrow_array::cast::AsArray;
use forebay_schemas::id::{EventId, RequestId};
use forebay_schemas::limit;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::trusted::{self, Campaign, Device, Geo, Page, Provenance, TimeOrigin, Trusted};
use forebay_stores::log::{Record, TopicPartition};
use forebay_stores::objects::folder::Folder;
use forebay_stores::objects::s3::S3;
use forebay_stores::objects::{Content, Objects, Put};
use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
use log::FakeLog;
use objects::Memory;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// A trusted event with a value in every field.
pub(super) fn trusted(partition: i32, offset: i64, event_id: &str) -> Trusted<'static> {
    let text = |text: &'static str| Some(Cow::Borrowed(text));
    Trusted {
        event_id: Cow::Owned(EventId::new(event_id).expect("an id")),
        original_event_id: text("original"),
        event_type: "page_viewed".into(),
        schema_version: "1-0-0".into(),
        event_time: Micros(1_796_021_309_348_001),
        time_origin: TimeOrigin::Corrected,
        received_at: Micros(1_796_021_310_000_000),
        source: "default".into(),
        user_id: text("k1.user"),
        anonymous_id: text("k1.anonymous"),
        session_id: text("k1.session"),
        seq: Some(7),
        session_index: Some(1),
        page: Some(Page { url: text("https://x/"), path: text("/"), title: text("t"), referrer: text("r") }),
        device: Some(Device {
            kind: text("desktop"),
            os: text("linux"),
            browser: text("firefox"),
            locale: text("en"),
            timezone: text("UTC"),
            screen_width: Some(1280),
            screen_height: Some(720),
            library: text("lib"),
        }),
        geo: Some(Geo { country: text("DE"), region: text("BE"), city: text("Berlin") }),
        campaign: Some(Campaign { source: text("s"), medium: text("m"), name: text("n"), term: text("t"), content: text("c") }),
        properties: r#"{"price":1.10}"#.into(),
        entities: "{}".into(),
        provenance: Provenance { request_id: RequestId(Uuid::from_u128(9)), partition, offset, pipeline: "p1".into() },
    }
}

/// What tests put into a table, told apart by an id.
trait Sample: Rows + 'static {
    /// The text column that has the id.
    const ID: &'static str;
    fn value(partition: i32, offset: i64, id: &str) -> Vec<u8>;
}

impl Sample for TrustedRows {
    const ID: &'static str = "event_id";
    fn value(partition: i32, offset: i64, id: &str) -> Vec<u8> {
        trusted::encode(&trusted(partition, offset, id))
    }
}

/// A table in a folder of its own or in a bucket, and the log it is filled from.
struct World<R = TrustedRows> {
    folder: tempfile::TempDir,
    bucket: Option<Bucket>,
    /// Default: a file.
    catalogue: Option<CatalogueAt>,
    log: FakeLog,
    rows: PhantomData<fn(R)>,
}

#[derive(Clone)]
enum Bucket {
    InMemory(Memory),
    Real(Arc<S3>),
}

impl World {
    fn new() -> World {
        World {
            folder: tempfile::tempdir().expect("folder"),
            bucket: None,
            catalogue: None,
            log: FakeLog::new("trusted-1", 2),
            rows: PhantomData,
        }
    }
    fn in_bucket(bucket: Bucket) -> World {
        // Its folder holds the catalogue alone. In memory where that can be: it is synced at each commit.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("folder");
        World { folder, bucket: Some(bucket), ..World::new() }
    }
    fn in_memory() -> World {
        World::in_bucket(Bucket::InMemory(Memory::default()))
    }
}

impl<R: Sample> World<R> {
    /// The same for another table, in the same place.
    fn of<S: Sample>(self) -> World<S> {
        let World { folder, bucket, catalogue, log, rows: _ } = self;
        World { folder, bucket, catalogue, log, rows: PhantomData }
    }
    fn memory(&self) -> &Memory {
        match &self.bucket {
            Some(Bucket::InMemory(memory)) => memory,
            _ => panic!("another kind of bucket"),
        }
    }
    fn config(&self) -> Config {
        let folder = place::Warehouse::Folder(self.folder.path().join("warehouse"));
        let bucket = place::Warehouse::Bucket { bucket: "lake".into(), prefix: "a/b".into() };
        let file = CatalogueAt::File(self.folder.path().join("catalog.sqlite"));
        Config {
            warehouse: if self.bucket.is_some() { bucket } else { folder },
            catalogue: self.catalogue.clone().unwrap_or(file),
            catalogue_password_file: Some(self.folder.path().join("password")).filter(|path| path.exists()),
            commit_interval: "0s".parse().expect("a span"),
            snapshot_age: "0s".parse().expect("a span"),
            snapshots_kept: 3,
            ..Config::default()
        }
    }
    fn worker(&self) -> Worker<R> {
        self.worker_with(self.config()).expect("opens")
    }
    fn worker_with(&self, config: Config) -> Result<Worker<R>, SinkError> {
        self.worker_on(config, self.objects())
    }
    fn worker_on(&self, config: Config, objects: Arc<dyn Objects>) -> Result<Worker<R>, SinkError> {
        let metrics = Families::new(&prometheus::Registry::new()).expect("metrics").of(R::SHAPE);
        Worker::open(config, Arc::new(self.log.clone()), objects, metrics, Arc::default())
    }
    fn objects(&self) -> Arc<dyn Objects> {
        match &self.bucket {
            Some(Bucket::InMemory(memory)) => Arc::new(memory.clone()),
            Some(Bucket::Real(s3)) => s3.clone(),
            None => Arc::new(Folder::new(self.folder.path().join("warehouse"))),
        }
    }
    fn warehouse(&self) -> Warehouse {
        Warehouse::look(&self.config().warehouse, self.objects(), R::SHAPE).expect("a warehouse")
    }
    fn catalogue(&self) -> Catalogue {
        Catalogue::look(&self.config(), R::SHAPE).expect("opens").expect("a catalogue")
    }
    fn put(&self, partition: i32, ids: std::ops::Range<i64>) {
        for offset in ids {
            self.log.put(R::SHAPE.topic, partition, R::value(partition, 10 * offset, &format!("e{partition}-{offset}")));
        }
    }
    fn stored(&self) -> Stored {
        self.catalogue().load(&self.warehouse()).expect("loads").expect("a table")
    }
    /// The ids in the table, sorted, as any reader would find them.
    fn ids(&self) -> Vec<String> {
        let table = self.stored();
        let schema = Arc::new(iceberg::arrow::schema_to_arrow_schema(table.metadata.current_schema()).expect("arrow"));
        let mut ids = Vec::new();
        for location in self.live(&table) {
            for batch in file::read(&self.warehouse(), &location, schema.clone()).expect("opens") {
                let batch = batch.expect("reads");
                ids.extend(batch.column_by_name(R::ID).expect("ids").as_string::<i32>().iter().flatten().map(str::to_owned));
            }
        }
        ids.sort_unstable();
        ids
    }
    fn live(&self, table: &Stored) -> Vec<String> {
        let mut files = Vec::new();
        for manifest in manifests::of_table(table, &self.warehouse()).expect("manifests") {
            let entries = manifests::live(&manifest, &self.warehouse()).expect("entries");
            files.extend(entries.iter().map(|entry| entry.file_path().to_owned()));
        }
        files
    }
    fn lookup(&self, partition: i32, offset: i64) -> Option<Lookup> {
        waited(lookup(&self.config(), &self.objects(), partition, offset)).expect("looks")
    }
    fn hint(&self) -> PathBuf {
        self.folder.path().join(format!("warehouse/forebay/{}/metadata/version-hint.text", R::SHAPE.name))
    }
    fn files(&self, end: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        visit(&self.folder.path().join("warehouse"), &mut files);
        files.retain(|path| path.to_string_lossy().ends_with(end));
        files
    }
}

fn waited<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(work)
}

fn visit(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("folder").flatten() {
        if entry.path().is_dir() { visit(&entry.path(), files) } else { files.push(entry.path()) }
    }
}

fn ids(partition: i32, range: std::ops::Range<i64>) -> Vec<String> {
    let mut ids: Vec<_> = range.map(|offset| format!("e{partition}-{offset}")).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn rows_and_offsets_enter_together_and_nothing_new_is_no_commit() {
    enter_together(World::new());
    enter_together(World::new().of::<WindowRows>());
}

fn enter_together<R: Sample>(world: World<R>) {
    world.put(0, 0..5);
    let mut worker = world.worker();
    worker.drain().expect("drains");
    let first = world.stored();
    worker.drain().expect("drains");
    worker.turn().expect("turns");
    assert_eq!(world.stored().location, first.location);
    world.put(1, 0..3);
    worker.drain().expect("drains");
    assert_eq!(world.ids(), [ids(0, 0..5), ids(1, 0..3)].concat());
    let table = world.stored();
    assert_eq!(table.offsets().expect("offsets").expect("some").next, [(0, 5), (1, 3)].into());
    let summary = &table.metadata.current_snapshot().expect("snapshot").summary().additional_properties;
    assert_eq!((summary["total-records"].as_str(), summary["added-records"].as_str()), ("8", "3"));
    let hint = std::fs::read_to_string(world.hint()).expect("hint");
    assert!(table.location.ends_with(&format!("/{hint}.metadata.json")), "{hint}");
}

#[test]
fn once_each_however_a_crash_falls() {
    once_each(World::new());
    once_each(World::new().of::<WindowRows>());
}

fn once_each<R: Sample>(world: World<R>) {
    world.put(0, 0..4);
    world.worker().drain().expect("drains");

    // Written, not committed: the process dies with files on disk that nobody names.
    world.put(0, 4..7);
    let mut worker = world.worker();
    worker.pass().expect("reads");
    let written = hand_over(&mut worker).finish(&world.warehouse()).expect("writes");
    drop(worker);
    assert_eq!(world.files(".parquet").len(), 2);

    // Committed, but neither hint nor offsets in memory: the next one reads the offsets from the table.
    let mut worker = world.worker();
    worker.pass().expect("reads");
    let written_again = hand_over(&mut worker).finish(&world.warehouse()).expect("writes");
    let outcome = worker.committer().append(&written_again).expect("commits");
    assert!(matches!(outcome, Outcome::Committed { .. }));
    drop(worker);
    let hint = world.hint();
    let before = std::fs::read_to_string(&hint).expect("hint");
    let mut worker = world.worker();
    assert_ne!(std::fs::read_to_string(&hint).expect("hint"), before);

    // The files of the first crash turn up late, in the hands of a process that was long gone.
    let outcome = worker.committer().append(&written).expect("decides");
    assert!(matches!(outcome, Outcome::Superseded { .. }));
    worker.drain().expect("drains");
    assert_eq!(world.ids(), ids(0, 0..7));
}

fn hand_over<R: Rows>(worker: &mut Worker<R>) -> super::batch::Batch<R> {
    let empty = super::batch::Batch::new(worker.format.clone(), None, Default::default());
    std::mem::replace(&mut worker.batch, empty)
}

#[test]
fn of_two_sinks_on_a_table_the_loser_appends_nothing() {
    the_loser_appends_nothing(World::new());
    the_loser_appends_nothing(World::new().of::<WindowRows>());
}

fn the_loser_appends_nothing<R: Sample>(world: World<R>) {
    let mut one = world.worker();
    let mut two = world.worker();
    world.put(0, 0..10);
    one.pass().expect("reads");
    two.pass().expect("reads");
    assert!(one.commit().expect("commits"));
    assert!(!two.commit().expect("gives way"));
    world.put(0, 10..20);
    two.drain().expect("drains");
    one.drain().expect("drains");
    assert_eq!(world.ids(), ids(0, 0..20));
    // The loser's files are gone, and what it read again was nothing.
    assert_eq!(world.files(".parquet").len(), world.live(&world.stored()).len());
}

#[test]
fn a_commit_of_another_program_is_built_upon() {
    let world = World::new();
    let mut worker = world.worker();
    world.put(0, 0..3);
    worker.pass().expect("reads");
    // Somebody sets a property, as PyIceberg would: the offsets still stand, so the batch goes on top.
    let table = world.stored();
    let builder = table.metadata.as_ref().clone().into_builder(Some(table.location.clone()));
    let builder = builder.set_properties([("owner".to_owned(), "us".to_owned())].into()).expect("sets");
    let other = Next::from(builder.build().expect("builds"));
    assert!(matches!(world.catalogue().commit(&world.warehouse(), &table, &other), Ok(Swap::Done(_))));
    assert!(worker.commit().expect("commits"));
    assert_eq!(world.ids(), ids(0, 0..3));
    assert_eq!(world.stored().metadata.properties()["owner"], "us");
}

#[test]
fn a_column_that_the_table_lacks_is_added_and_old_files_still_read() {
    let world = World::new();
    let mut worker = world.worker();
    let old = i64::try_from(limit::SINK_SMALL_FILES).expect("few") - 1;
    for n in 0..old {
        world.put(0, n..n + 1);
        worker.drain().expect("drains");
    }
    drop(worker);
    // Somebody drops `seq` and adds `team`.
    let table = world.stored();
    let schema = table.metadata.current_schema();
    let mut fields: Vec<_> = schema.as_struct().fields().iter().filter(|field| field.name != "seq").cloned().collect();
    fields.push(Arc::new(NestedField::optional(45, "team", Type::Primitive(PrimitiveType::String))));
    let other = Schema::builder().with_schema_id(1).with_fields(fields).build().expect("schema");
    let builder = table.metadata.as_ref().clone().into_builder(Some(table.location.clone())).add_current_schema(other).expect("adds");
    let next = Next::from(builder.build().expect("builds"));
    assert!(matches!(world.catalogue().commit(&world.warehouse(), &table, &next), Ok(Swap::Done(_))));

    let mut worker = world.worker();
    world.put(0, old..old + 1);
    worker.drain().expect("drains");
    assert_eq!(world.stored().metadata.current_schema().field_id_by_name("seq"), Some(46));
    // Files of both schemas become one.
    worker.rewrite().expect("rewrites");
    let table = world.stored();
    assert_eq!(world.live(&table).len(), 1);
    let mut expected = ids(0, 0..old + 1);
    expected.sort_unstable();
    assert_eq!(world.ids(), expected);
}

#[test]
fn a_recreated_topic_is_refused_and_adopted_by_name() {
    refused_and_adopted(World::new());
    refused_and_adopted(World::new().of::<WindowRows>());
}

fn refused_and_adopted<R: Sample>(mut world: World<R>) {
    world.put(0, 0..4);
    world.worker().drain().expect("drains");

    // The log lost its tail: same topic, fewer records.
    let full = std::mem::replace(&mut world.log, FakeLog::new("trusted-1", 2));
    world.put(0, 0..2);
    assert!(matches!(refusal(&world), Refusal::PastEnd { stored: 4, end: 2, .. }));

    world.log = FakeLog::new("trusted-2", 2);
    world.put(0, 0..6);
    assert!(matches!(refusal(&world), Refusal::OtherTopic { .. }));
    let adopting = Config { adopt_topic: Some("trusted-2".into()), ..world.config() };
    world.worker_with(adopting).expect("adopts").drain().expect("drains");
    // The four that the table had were recognised by where they came from.
    assert_eq!(world.ids(), ids(0, 0..6));

    world.log = full;
    assert!(matches!(refusal(&world), Refusal::OtherTopic { .. }));
}

fn refusal<R: Sample>(world: &World<R>) -> Refusal {
    match world.worker_with(world.config()).err().expect("refuses") {
        SinkError::Refused(refusal) => refusal,
        other => panic!("{other}"),
    }
}

#[test]
fn a_table_whose_catalogue_is_lost_is_left_alone() {
    let world = World::new();
    world.worker();
    std::fs::remove_file(world.folder.path().join("catalog.sqlite")).expect("removes");
    assert!(matches!(refusal(&world), Refusal::Uncatalogued { .. }));
}

#[test]
fn a_catalogue_that_is_no_database_is_named() {
    let world = World::new();
    let path = world.folder.path().join("catalog.sqlite");
    std::fs::write(&path, "no database at all, only text").expect("written");
    assert_eq!(refusal(&world), Refusal::NoCatalogue { path: path.display().to_string() });
}

#[test]
fn records_that_retention_took_are_not_skipped_in_silence() {
    not_skipped(World::new());
    not_skipped(World::new().of::<WindowRows>());
}

fn not_skipped<R: Sample>(world: World<R>) {
    world.put(0, 0..4);
    let mut worker = world.worker();
    worker.drain().expect("drains");
    world.put(0, 4..9);
    world.log.forget(TopicPartition { topic: R::SHAPE.topic, partition: 0 }, 6);
    assert!(matches!(refusal(&world), Refusal::BelowStart { stored: 4, start: 6, .. }));
    // While it runs, the log says so, and the beginning anew what to do about it.
    assert!(!worker.drain().expect_err("is not passed over").is_final());
    assert!(matches!(worker.begin_again(), Err(SinkError::Refused(Refusal::BelowStart { stored: 4, start: 6, .. }))));
}

#[test]
fn a_record_given_twice_is_kept_once() {
    let world = World::new();
    world.put(0, 0..4);
    let mut worker = world.worker();
    worker.drain().expect("drains");
    // The same four and one more under new offsets; the one more even twice in a read.
    world.put(0, 0..5);
    world.put(0, 4..6);
    // Another fact from the same place is none of them.
    world.log.put(Topic::Trusted, 0, TrustedRows::value(0, 0, "other"));
    worker.drain().expect("drains");
    assert_eq!(world.ids(), [ids(0, 0..6), vec!["other".into()]].concat());
    assert_eq!(world.stored().offsets().expect("offsets").expect("some").next[&0], 12);
}

#[test]
fn a_record_that_cannot_be_read_stops_the_sink() {
    let world = World::new();
    world.put(0, 0..1);
    world.log.put(Topic::Trusted, 0, b"\x00\x00\x00\x00\x09nonsense".to_vec());
    let error = world.worker().drain().expect_err("stops");
    assert!(error.is_final());
    assert!(error.to_string().starts_with("trusted partition 0, offset 1: avro: not a message"), "{error}");
}

#[test]
fn snapshots_expire_small_files_merge_and_nothing_unnamed_stays() {
    expire_and_merge(World::new());
    expire_and_merge(World::new().of::<WindowRows>());
}

fn expire_and_merge<R: Sample>(world: World<R>) {
    let mut worker = world.worker();
    let commits = i64::try_from(5 * limit::SINK_SMALL_FILES + 3).expect("few");
    for n in 0..commits {
        world.put(0, n..n + 1);
        worker.drain().expect("drains");
    }
    let mut expected = ids(0, 0..commits);
    expected.sort_unstable();
    assert_eq!(world.ids(), expected);
    let table = world.stored();
    assert_eq!(table.metadata.snapshots().len(), 3);
    let live = world.live(&table).len();
    assert!(live < limit::SINK_SMALL_FILES, "{live} files");
    // The last two commits before the present one still have their files; of all others nothing is left.
    assert!(world.files(".parquet").len() <= live + limit::SINK_SMALL_FILES, "{:?}", world.files(".parquet"));
    let kept = super::expire::kept_manifests(&table, &world.warehouse()).expect("manifests").len();
    assert_eq!(world.files(".avro").len(), kept + 3);
    assert_eq!(world.files(".metadata.json").len(), 21);

    // What a crash leaves goes once it is old enough, and not before; what another program puts there stays.
    let put = |name: &str| world.objects().put_if_absent(&format!("forebay/{}/{name}", R::SHAPE.name), Content::Bytes(b"x")).expect("puts");
    let young = Uuid::now_v7();
    let left = [
        format!("data/{}=2026-11-30/{young}.parquet", R::SHAPE.day),
        format!("metadata/{young}-m0.avro"),
        format!("metadata/snap-7-0-{young}.avro"),
        format!("metadata/00001-{young}.metadata.json"),
    ];
    let others = [format!("data/00000-0-{}-00001.parquet", Uuid::new_v4()), format!("metadata/99999-{young}.metadata.json")];
    left.iter().chain(&others).for_each(|name| assert_eq!(put(name), Put::Created));
    let sweep = |grace, ours| super::sweep::sweep(&table, &world.warehouse(), std::time::Duration::from_secs(grace), ours).expect("sweeps");
    assert_eq!((sweep(60, false), sweep(60, true), sweep(0, true), sweep(0, true)), (0, 1, 3, 0));
    assert!(others.iter().all(|name| world.objects().size(&format!("forebay/{}/{name}", R::SHAPE.name)).is_ok()));
    assert_eq!(world.ids(), expected);
}

#[test]
fn lookup_tells_what_is_covered_and_since_when() {
    let world = World::new();
    assert_eq!(world.lookup(0, 0), None);
    let mut worker = world.worker();
    assert_eq!(world.lookup(0, 0), None);
    world.put(0, 0..2);
    worker.drain().expect("drains");
    let first = world.stored().metadata.current_snapshot_id().expect("snapshot");
    world.put(0, 2..3);
    worker.drain().expect("drains");
    let second = world.stored().metadata.current_snapshot_id().expect("snapshot");
    drop(worker);
    let mut seen = Vec::new();
    for offset in 0..4 {
        let found = world.lookup(0, offset).expect("a table");
        assert_eq!((found.table.as_str(), found.topic.as_str(), found.next), ("forebay.trusted_events", "trusted-1", 3));
        seen.push((found.has_it, found.snapshot.map(|s| (s.id, s.or_before))));
    }
    let (a, b) = (Some((first, false)), Some((second, false)));
    assert_eq!(seen, [(true, a), (true, a), (true, b), (false, None)]);
}

#[test]
fn the_running_sink_starts_fills_and_stops() {
    let world = World::new();
    let registry = prometheus::Registry::new();
    let sink = waited(TableSink::start(world.config(), &[Table::TrustedEvents], Arc::new(world.log.clone()), world.objects(), &registry))
        .expect("starts");
    assert_eq!((sink.ready(), sink.failed()), (Ok(()), None));
    let folder = world.folder.path().canonicalize().expect("folder");
    assert_eq!(sink.duckdb_lines(), [format!("SELECT * FROM iceberg_scan('{}/warehouse/forebay/trusted_events');", folder.display())]);
    world.put(0, 0..100);
    world.put(1, 0..50);
    waited(sink.stop()).expect("stops");
    assert_eq!(world.ids(), [ids(0, 0..100), ids(1, 0..50)].concat());
    let metrics = registry.gather();
    let lag = metrics.iter().find(|family| family.name() == "forebay_sink_lag_records").expect("lag");
    assert_eq!(lag.get_metric()[0].get_gauge().get_value(), 0.0);
}
