//! Windows through `kill -9` under load: what the enricher told is what DuckDB makes of the trusted events, by the ticks that
//! stand in the log; what it called late is what the ticks say was late.

use crate::harness::{Form, System, on_both, poll, repository, soak, traffic};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const CONFIG: &str = r#"
[gateway]
spool.segment_age = "2s"
[enricher]
backend = "rocksdb"
watermark.delay = "1s"
[sink.table]
commit_interval = "1s"
[[window]]
uid = "tumbling"
kind = "tumbling"
size = "2s"
key = ["page.path", "event_type"]
values = { n = "count", users = "count(user_id)", widths = "sum(device.screen_width)", widest = "max(device.screen_width)" }
[[window]]
uid = "sliding"
kind = "sliding"
size = "6s"
slide = "2s"
lateness = "1s"
emit = { update = "1s" }
where = { event_type = { not = "page_viewed" } }
[[window]]
uid = "sketches"
kind = "tumbling"
size = "10s"
key = ["event_type"]
values = { ids = "distinct(session_id)", middle = "quantile(0.5, device.screen_width)", most = "top(3, page.path)" }
[[window]]
uid = "sessions"
kind = "session"
gap = "1s"
key = ["anonymous_id"]
values = { count = "count", paths = "distinct(page.path)" }
lateness = "1s"
"#;

on_both! {
    kills_move_no_result,
}

fn kills_move_no_result(form: Form) {
    let (rounds, repeat) = if soak() { (20, 3_000) } else { (3, 120) };
    let mut system = form.with(CONFIG, &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let recordings = ["segment-node", "browser-segment", "browser-snowplow", "posthog-node", "browser-posthog"];
    let mut send = Command::new(crate::harness::binary())
        .arg("send")
        .args(recordings.map(|name| traffic().join(format!("{name}.jsonl"))))
        .args(["--to", &format!("http://{}", system.listen()), "--repeat", &repeat.to_string(), "--unique", "--resend", "--rate", "150"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let mut kills = 0;
    while kills < rounds && send.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(700 + 400 * (kills % 4)));
        system.kill();
        system.start();
        kills += 1;
    }
    assert!(send.wait().expect("a child").success());
    assert!(kills > 1, "send ended before the kills");
    system.settled();
    // Every window closes: its end, its lateness and the delay are over, and the ticks have said so.
    let told = || system.tail("windows");
    let mut before = 0;
    poll(
        "nothing more to be told",
        || told().len() == std::mem::replace(&mut before, told().len()) && open_keys(&*system) == 0.0,
        || system.log(),
    );
    compare(&*system, folder.path());
    explained(&*system);
    let result =
        |row: &Value| ["window", "key", "start", "end", "values", "revision", "final", "fingerprint"].map(|name| row[name].to_string());
    let mut told: Vec<_> = system.tail("windows").iter().map(result).collect();
    assert_eq!(system.stop(), 0, "{}", system.log());
    // What was told is in the table, each revision once.
    told.sort();
    for reader in ["duckdb", "pyiceberg"] {
        let mut rows: Vec<_> = system.read_by(&["--with", reader, "--table", "windows"]).iter().map(result).collect();
        rows.sort();
        assert!(rows == told, "{reader}: {} rows, {} results", rows.len(), told.len());
    }
}

fn open_keys(system: &dyn System) -> f64 {
    let metrics = system.get("/metrics").text();
    let samples = metrics.lines().filter(|line| line.starts_with("forebay_timers{"));
    samples.map(|line| line.rsplit(' ').next().expect("a sample").parse::<f64>().expect("a number")).sum()
}

/// An event's story names the windows that it counts in, and those that it missed.
fn explained(system: &dyn System) {
    let story = |id: &str| -> Value {
        let told = system.run(&["explain", id, "--json"]);
        let stories: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
        stories.into_iter().find(|story| story["outcome"] == "trusted").expect("the story of a trusted event")
    };
    let of = |story: &Value, uid: &str| -> Value {
        story["trusted"]["windows"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|window| window["window"] == uid)
            .expect("in the window")
            .clone()
    };
    let late = system.tail("late").into_iter().find(|late| late["window"] == "sliding").expect("a late event");
    let window = of(&story(late["event"]["event_id"].as_str().expect("an id")), "sliding");
    assert_eq!(window["missed"]["newest"]["start"], late["start"], "{window}");
    assert_eq!(window["missed"]["late_by_micros"], late["late_by_micros"]);
    assert!(window["counts_in"].as_array().expect("a list").iter().all(|span| span["start"].as_str() > late["start"].as_str()), "{window}");
    let text = system.run(&["explain", late["event"]["event_id"].as_str().expect("an id")]);
    assert!(text.contains("   window     sliding {}") && text.contains("too late by "), "{text}");
    let session = system.tail("windows").into_iter().find(|told| told["window"] == "sessions").expect("a session");
    let visitor = serde_json::from_str::<Value>(session["key"].as_str().expect("a key")).expect("JSON")["anonymous_id"].clone();
    let event = system.tail("trusted").into_iter().find(|event| event["anonymous_id"] == visitor).expect("an event");
    let window = of(&story(event["event_id"].as_str().expect("an id")), "sessions");
    assert_eq!(window["key"], session["key"]);
}

/// `tests/windows.py` compares what was told with what the trusted events come to.
fn compare(system: &dyn System, folder: &Path) {
    for topic in ["harvested", "trusted", "windows", "late"] {
        let lines = system.run(&["tail", topic, "--from", "earliest", "--until-idle", "1", "--ticks", "--json"]);
        std::fs::write(folder.join(format!("{topic}.jsonl")), lines).expect("written");
    }
    let python = std::env::var("FOREBAY_PYTHON").expect("FOREBAY_PYTHON: run the tests by ./x test");
    let output = Command::new(python).arg(repository().join("tests/windows.py")).arg(folder).output().expect("python starts");
    assert!(output.status.success(), "windows.py: {}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).expect("text");
    println!("{told}");
    let windows: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
    assert_eq!(windows.len(), 4);
    for window in windows {
        assert_eq!(window["differences"], serde_json::json!([]), "{window}");
        assert!(window["results"].as_u64() >= Some(3) && window["events"].as_u64() > Some(100), "{window}");
    }
}
