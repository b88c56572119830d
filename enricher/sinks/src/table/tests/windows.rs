//! Window results in their table: each revision once, beside trusted events, as other programs read it.

use super::*;
use forebay_schemas::wire::window::{self, WindowResult};
use serde_json::{Value, json};
use std::process::Command;

impl Sample for WindowRows {
    const ID: &'static str = "window";
    fn value(_: i32, _: i64, id: &str) -> Vec<u8> {
        window::encode(&result(id, "{}", 1_796_021_280_000_000, 60_000_000, 1))
    }
}

fn result<'a>(window: &'a str, key: &'a str, start: i64, micros: i64, revision: i64) -> WindowResult<'a> {
    WindowResult {
        window: window.into(),
        key: key.into(),
        start: Micros(start),
        end: Micros(start + micros),
        values: format!(r#"{{"n":{revision}}}"#).into(),
        revision,
        is_final: micros == 0,
        fingerprint: "f1".into(),
    }
}

fn world() -> World<WindowRows> {
    World::new().of()
}

impl World<WindowRows> {
    fn tell(&self, partition: i32, result: &WindowResult<'_>) {
        self.log.put(Topic::Windows, partition, window::encode(result));
    }
    /// `tests/readers.py` on this folder.
    fn read_by(&self, arguments: &[&str]) -> Vec<Value> {
        let python = std::env::var("FOREBAY_PYTHON").expect("FOREBAY_PYTHON: run the tests by ./x test");
        let readers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/readers.py");
        let output = Command::new(python).arg(readers).arg(self.folder.path()).args(arguments).output().expect("python starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let told = String::from_utf8(output.stdout).expect("text");
        told.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
    }
}

/// A row as `tests/readers.py` prints it.
fn row(partition: i32, offset: i64, result: &WindowResult<'_>) -> Value {
    json!({
        "window": result.window, "key": result.key, "start": result.start.to_rfc3339(), "end": result.end.to_rfc3339(),
        "values": result.values, "revision": result.revision, "final": result.is_final, "fingerprint": result.fingerprint,
        "partition": partition, "offset": offset,
    })
}

fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(|row| (row["partition"].as_i64(), row["offset"].as_i64()));
    rows
}

#[test]
fn every_revision_is_read_back_before_1970_and_after_a_rewrite_too() {
    let world = world();
    let mut worker = world.worker();
    let key = r#"{"page.path":"/ünïcode-🌊","n":1.10}"#;
    let starts = [-86_400_000_001, -1, 0, 1_796_021_280_000_001];
    let mut expected = Vec::new();
    for revision in 1..=i64::try_from(limit::SINK_SMALL_FILES).expect("few") {
        for (partition, window) in [(0, "first"), (1, "second")] {
            for (n, start) in (0..).zip(starts) {
                let told = result(window, key, start, 86_400_000_000, revision);
                world.tell(partition, &told);
                expected.push(row(partition, (revision - 1) * 4 + n, &told));
            }
        }
        worker.drain().expect("drains");
    }
    let expected = sorted(expected);
    let table = world.stored();
    let days = ["1969-12-30", "1969-12-31", "1970-01-01", "2026-11-30"].map(|day| format!("/data/start_day={day}/"));
    let live = world.live(&table);
    assert!(days.iter().all(|day| live.iter().filter(|file| file.contains(day)).count() == 1), "rewritten by day: {live:?}");
    for reader in ["duckdb", "pyiceberg"] {
        assert_eq!(sorted(world.read_by(&["--with", reader, "--table", "windows"])), expected, "{reader}");
    }
}

/// The first SQL of the page that has `part`.
fn query(part: &str) -> &'static str {
    let page = include_str!("../../../../../docs/table.md");
    let mut queries = page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
    queries.find(|query| query.contains(part)).expect("a query")
}

#[test]
fn the_query_of_the_page_gives_the_latest_of_each_window() {
    let world = world();
    let (a, b) = (r#"{"k":"a"}"#, r#"{"k":"b"}"#);
    let minute = 60_000_000;
    let last = [
        result("sums", a, 0, minute, 3),
        result("sums", a, minute, minute, 1),
        result("sums", b, 0, minute, 1),
        result("other", a, 0, minute, 2),
        result("visits", a, -5, 9 * minute, 2),
    ];
    // Revisions of which the last does not stand last in the table, a session that grew at its end and one that it took in.
    let before = [
        result("sums", a, 0, minute, 1),
        result("sums", a, 0, minute, 2),
        result("other", a, 0, minute, 1),
        result("visits", a, -5, 2 * minute, 1),
        result("visits", a, 4 * minute, minute, 1),
    ];
    for told in before.iter().chain(&last) {
        world.tell(0, told);
    }
    world.tell(0, &result("visits", a, 4 * minute, 0, 2));
    world.worker().drain().expect("drains");
    let mut expected: Vec<_> = (5..).zip(&last).map(|(offset, told)| row(0, offset, told)).collect();
    expected = sorted(expected);
    assert_eq!(sorted(world.read_by(&["--table", "windows", "--sql", query("QUALIFY")])), expected);
}

#[test]
fn a_result_is_known_again_by_all_that_it_says() {
    let mut world = world();
    let told: Vec<_> = (1..=4).map(|revision| result("w", "{}", 0, 60_000_000, revision)).collect();
    told.iter().for_each(|told| world.tell(0, told));
    world.worker().drain().expect("drains");
    // The topic made anew: the first is not in it, one has other values.
    world.log = FakeLog::new("windows-2", 2);
    world.tell(0, &told[1]);
    world.tell(0, &WindowResult { values: r#"{"n":7}"#.into(), ..told[2].clone() });
    world.tell(0, &told[3]);
    world.tell(0, &result("w", "{}", 0, 60_000_000, 5));
    assert!(matches!(refusal(&world), Refusal::OtherTopic { of: "windows", .. }));
    let adopting = Config { adopt_topic: Some("trusted-9 windows-2".into()), ..world.config() };
    world.worker_with(adopting).expect("adopts").drain().expect("drains");
    let rows = world.read_by(&["--with", "duckdb", "--table", "windows"]);
    let mut seen: Vec<_> = rows.iter().map(|row| (row["revision"].as_i64().expect("a number"), row["values"].to_string())).collect();
    seen.sort_unstable();
    let values = |n: i64| json!(format!(r#"{{"n":{n}}}"#)).to_string();
    assert_eq!(seen, [(1, 1), (2, 2), (3, 3), (3, 7), (4, 4), (5, 5)].map(|(revision, n)| (revision, values(n))));
}

fn start(world: &World, registry: &prometheus::Registry) -> Result<TableSink, crate::StartError> {
    let tables = [Table::TrustedEvents, Table::Windows];
    waited(TableSink::start(world.config(), &tables, Arc::new(world.log.clone()), world.objects(), registry))
}

fn lags(registry: &prometheus::Registry) -> Vec<(String, f64)> {
    let metrics = registry.gather();
    let lag = metrics.iter().find(|family| family.name() == "forebay_sink_lag_records").expect("lag");
    lag.get_metric().iter().map(|metric| (metric.get_label()[0].value().to_owned(), metric.get_gauge().get_value())).collect()
}

#[test]
fn two_tables_with_one_catalogue_do_not_disturb_each_other() {
    let world = World::new();
    let registry = prometheus::Registry::new();
    let sink = start(&world, &registry).expect("starts");
    assert_eq!((sink.ready(), sink.failed(), sink.duckdb_lines().len()), (Ok(()), None, 2));
    let folder = world.folder.path().canonicalize().expect("folder");
    assert_eq!(sink.duckdb_lines()[1], format!("SELECT * FROM iceberg_scan('{}/warehouse/forebay/windows');", folder.display()));
    world.put(0, 0..100);
    let windows = World { folder: tempfile::tempdir().expect("folder"), log: world.log.clone(), ..World::new() }.of::<WindowRows>();
    windows.put(1, 0..50);
    waited(sink.stop()).expect("stops");
    assert_eq!(lags(&registry), [("table".to_owned(), 0.0), ("windows".to_owned(), 0.0)]);
    assert_eq!((world.ids(), world.lookup(0, 99).expect("a table").has_it), (ids(0, 0..100), true));
    let reached = |table| waited(crate::reached(&world.config(), table, &world.objects())).expect("looks");
    assert_eq!((reached(Table::TrustedEvents), reached(Table::Windows)), ([(0, 100), (1, 0)].into(), [(0, 0), (1, 50)].into()));

    // A search in the one takes nothing of the other.
    let windows = World { log: world.log.clone(), ..world }.of::<WindowRows>();
    super::super::sweep::sweep(&windows.stored(), &windows.warehouse(), std::time::Duration::ZERO, true).expect("sweeps");
    assert_eq!(windows.ids(), ids(1, 0..50));
    let world = windows.of::<TrustedRows>();
    super::super::sweep::sweep(&world.stored(), &world.warehouse(), std::time::Duration::ZERO, true).expect("sweeps");
    assert_eq!(world.ids(), ids(0, 0..100));

    // What one cannot read stops that one, and is told with its name; the other goes on to its end.
    let sink = start(&world, &prometheus::Registry::new()).expect("starts");
    world.log.put(Topic::Windows, 0, b"nonsense".to_vec());
    world.put(0, 100..120);
    let told = waited(sink.stop()).expect_err("cannot read it");
    assert!(told.starts_with("forebay.windows: windows partition 0, offset 0: avro: "), "{told}");
    assert_eq!(world.ids(), ids(0, 0..120));

    // A start says which table it is about.
    let world = World { log: FakeLog::new("other", 2), ..world };
    let adopting = |ids: &str| Config { adopt_topic: Some(ids.into()), ..world.config() };
    let tables = [Table::TrustedEvents, Table::Windows];
    let start = |config, tables: &[Table]| {
        waited(TableSink::start(config, tables, Arc::new(world.log.clone()), world.objects(), &prometheus::Registry::new()))
    };
    let error = start(world.config(), &tables).err().expect("refuses");
    assert_eq!((error.table.as_str(), error.source.is_final()), ("forebay.trusted_events", true));
    let error = start(world.config(), &tables[1..]).err().expect("refuses");
    assert_eq!((error.table.as_str(), error.source.is_final()), ("forebay.windows", true));
    waited(start(adopting("other"), &tables).expect("adopts both").stop()).expect("stops");
}
