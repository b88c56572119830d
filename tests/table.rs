//! The table of window results: what the topic has, each once, also after a kill; and the page's query on it.

use crate::harness::{Form, on_both, poll, repository};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const CONFIG: &str = r#"
[enricher]
watermark.delay = "1s"
[sink.table]
commit_interval = "0s"
[[window]]
uid = "views"
kind = "sliding"
size = "2s"
slide = "1s"
key = ["anonymous_id"]
lateness = "1s"
[[window]]
uid = "visits"
kind = "session"
gap = "1s"
key = ["anonymous_id"]
"#;

on_both! {
    window_results_are_in_their_table_once,
}

fn window_results_are_in_their_table_once(form: Form) {
    let mut system = form.with(CONFIG, &[]);
    let mut finals = 0;
    for round in 0..3 {
        for n in 0..5 {
            let event = json!({"event_id": format!("e{round}-{n}"), "event_type": "product_viewed", "anonymous_id": format!("a-{n}"),
                               "properties": {"product_id": "sku-1"}});
            system.accepted("/v1/events", &event);
        }
        let all = |windows: &[Value]| windows.iter().filter(|told| told["final"] == true).count();
        poll("windows to end", || all(&system.tail("windows")) > finals, || system.log());
        if round == 1 {
            system.kill();
            system.start();
        }
        finals = all(&system.tail("windows"));
    }
    assert_eq!(system.stop(), 0, "{}", system.log());
    let told = sorted(system.tail("windows").into_iter().map(plain).collect());
    assert!(told.iter().any(|row| row["revision"].as_i64() > Some(1)), "{told:?}");
    for reader in ["duckdb", "pyiceberg"] {
        assert_eq!(sorted(system.read_by(&["--with", reader, "--table", "windows"])), told, "{reader}");
    }
    assert_eq!(system.table("duckdb").len(), 15);

    let page = std::fs::read_to_string(repository().join("docs/table.md")).expect("a page");
    let query = page.split("```").find(|part| part.starts_with("sql\n") && part.contains("QUALIFY")).expect("a query");
    let mut latest: BTreeMap<String, Value> = BTreeMap::new();
    for row in told {
        let place = format!("{} {} {}", row["window"], row["key"], row["start"]);
        let last = latest.entry(place).or_insert(row.clone());
        if row["revision"].as_i64() > last["revision"].as_i64() {
            *last = row;
        }
    }
    let latest = latest.into_values().filter(|row| row["end"].as_str() > row["start"].as_str()).collect();
    assert_eq!(sorted(system.read_by(&["--table", "windows", "--sql", query.trim_start_matches("sql\n")])), sorted(latest));
}

/// A record of the topic as a row.
fn plain(mut record: Value) -> Value {
    let fields = record.as_object_mut().expect("an object");
    for (name, column) in [("_partition", "partition"), ("_offset", "offset")] {
        let value = fields.remove(name).expect("a place");
        fields.insert(column.to_owned(), value);
    }
    fields.retain(|name, _| !name.starts_with('_'));
    record
}

fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(|row| (row["partition"].as_i64(), row["offset"].as_i64()));
    rows
}
