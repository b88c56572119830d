//! What the roles wrote on Kafka, with a schema registry, read by other people's programs: record for record what
//! `forebay tail` says. `tests/interop/` holds what they are told to do.

use crate::harness::{Cluster, System, poll, repository, traffic};
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire;
use forebay_services::{Kafka, Registry};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// The topics of a system that has stopped.
struct Written {
    registry: Registry,
    topics: Vec<(Topic, String, Vec<Value>)>,
}

fn written() -> &'static Written {
    static WRITTEN: LazyLock<Written> = LazyLock::new(write);
    &WRITTEN
}

fn write() -> Written {
    let registry = Registry::start().expect("the registry starts");
    let windows = "[enricher]\nwatermark.delay = \"1s\"\n[[window]]\nuid = \"views\"\nkind = \"sliding\"\nsize = \"2s\"\nslide = \"1s\"\nkey = [\"event_type\"]\n";
    let mut cluster = Cluster::with(&format!("[log.registry]\nurl = \"{}\"\n{windows}", registry.url()), &[]);
    for recording in ["browser-segment.jsonl", "browser-snowplow.jsonl", "posthog-node.jsonl"] {
        cluster.send(&[traffic().join(recording).to_str().expect("a path")]);
    }
    let viewed =
        json!({"event_id": "ünïcode-🌊", "event_type": "product_viewed", "anonymous_id": "a-1", "properties": {"product_id": "sku-1"}});
    // Once something has been told, there is a time to be late by.
    poll("a window to close", || !cluster.tail("windows").is_empty(), || cluster.log());
    let late = json!({"event_id": "late", "event_type": "product_viewed", "anonymous_id": "a-1", "event_time": "2020-01-01T00:00:00Z"});
    let unknown = json!({"event_id": "rejected", "event_type": "no_such_type", "anonymous_id": "a-1"});
    for event in [&viewed, &viewed, &late, &unknown] {
        cluster.accepted("/v1/events", event);
    }
    let totals = cluster.settled();
    assert!(totals.of("trusted") > 10 && totals.of("duplicate") >= 1 && totals.of("bad") >= 1, "{totals:?}");
    cluster.stop();
    let read = |topic: Topic| {
        let lines = cluster.run(&["tail", topic.word(), "--from", "earliest", "--until-idle", "1", "--ticks", "--json"]);
        let records: Vec<Value> = lines.lines().map(|line| plain(serde_json::from_str(line).expect("a JSON line"))).collect();
        assert!(!records.is_empty(), "{topic:?}");
        (topic, format!("{}.{}", cluster.name, topic.word()), sorted(records))
    };
    Written { registry, topics: Topic::ALL.map(read).into() }
}

/// A record as its schema has it: what `tail` adds to it or shows as a list is undone.
fn plain(mut record: Value) -> Value {
    let fields = record.as_object_mut().expect("an object");
    if let Some(Value::Array(headers)) = fields.get("headers") {
        let map = headers.iter().map(|header| (header["name"].as_str().expect("a name").to_owned(), header["value"].clone()));
        fields.insert("headers".to_owned(), Value::Object(map.collect()));
    }
    if fields.contains_key("provenance") {
        fields.remove("pipeline");
    }
    for partial in fields.get_mut("partials").and_then(Value::as_array_mut).into_iter().flatten() {
        for name in ["bucket", "since"] {
            if let Some(time) = partial[name].as_str() {
                partial[name] = Micros::parse_rfc3339(time).expect("a time").0.into();
            }
        }
    }
    for name in ["watermark", "clock"] {
        if let Some(time) = fields.get_mut(name) {
            *time = time.as_str().map_or(i64::MIN, |text| Micros::parse_rfc3339(text).expect("a time").0).into();
        }
    }
    record
}

fn sorted(mut records: Vec<Value>) -> Vec<Value> {
    records.sort_by_key(|record| (record["_partition"].as_i64(), record["_offset"].as_i64()));
    records
}

/// Each topic as `read` gives it, given brokers, registry and the topic's name, against what was written.
fn compare(read: impl Fn(&str, &str, &str) -> Vec<Value>) {
    let written = written();
    for (topic, name, ours) in &written.topics {
        let mut theirs = sorted(read(&Kafka::shared().brokers(), &written.registry.url(), name));
        for record in &mut theirs {
            let placed = record.as_object_mut().and_then(|fields| fields.remove("_partition_of_key"));
            if let (Topic::Harvested, Some(placed)) = (topic, placed) {
                assert_eq!(placed, record["_partition"], "the gateway puts keys where Kafka's own client does: {record}");
            }
        }
        assert_eq!(theirs.len(), ours.len(), "{name}");
        for (theirs, ours) in theirs.iter().zip(ours) {
            assert_eq!(theirs, ours, "{name}");
        }
    }
    let ticks = written.topics[0].2.iter().filter(|record| record["_tick"] == true).count();
    assert!(ticks > 0 && ticks < written.topics[0].2.len(), "{ticks} ticks");
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

#[test]
fn a_java_consumer_and_avros_own_library_read_every_topic() {
    let folder = tempfile::tempdir().expect("a folder");
    compare(|brokers, registry, topic| {
        let file = folder.path().join(topic);
        let mut java = forebay_services::java::source(&repository().join("tests/interop/Read.java")).expect("Java");
        java.args([Path::new(brokers), Path::new(registry), Path::new(topic), &file]);
        forebay_services::java::run(java).expect("it reads");
        lines(&std::fs::read_to_string(&file).expect("its answer"))
    });
}

#[test]
fn kcat_and_fastavro_read_every_topic() {
    let python = std::env::var("FOREBAY_PYTHON").expect("FOREBAY_PYTHON: run the tests by ./x test");
    compare(|brokers, registry, topic| {
        let mut command = Command::new(&python);
        let output =
            command.arg(repository().join("tests/interop/read.py")).args([brokers, registry, topic]).output().expect("python starts");
        assert!(output.status.success(), "read.py {topic}: {}", String::from_utf8_lossy(&output.stderr));
        lines(&String::from_utf8(output.stdout).expect("text"))
    });
}

/// The registry holds each topic's schema once, under the subject by which consumers look for it.
#[test]
fn schemas_are_registered_once_under_their_topics() {
    let written = written();
    let address = written.registry.url().replace("http://", "");
    let get = |target: &str| {
        let answer = crate::harness::http::get(&address, target, None).expect("an answer");
        serde_json::from_slice::<Value>(&answer.body).expect("JSON")
    };
    for (topic, name, _) in &written.topics {
        let path = format!("/subjects/{name}-value/versions");
        assert_eq!(get(&path), json!([1]));
        let registered = get(&format!("{path}/1"))["schema"].as_str().expect("a schema").to_owned();
        let parsed = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        assert_eq!(parsed(&registered), parsed(wire::schema(*topic)));
    }
}

/// It is needed to begin, and until then the gateway keeps what it is sent; once met it may be down.
#[test]
fn a_registry_that_is_down_costs_no_event() {
    let registry = Registry::start().expect("the registry starts");
    let mut cluster = Cluster::new(&format!("[log.registry]\nurl = \"{}\"\n", registry.url()));
    let event =
        |id: &str| json!({"event_id": id, "event_type": "product_viewed", "anonymous_id": "a-1", "properties": {"product_id": "sku-1"}});
    registry.kill();
    cluster.roles.iter_mut().for_each(|role| role.spawn());
    cluster.gateway().wait_ready();
    cluster.accepted("/v1/events", &event("before"));
    cluster.enricher().wait_not_ready("schema registry");
    registry.restart().expect("the registry starts again");
    cluster.start();
    assert_eq!(cluster.settled().of("trusted"), 1);
    registry.kill();
    cluster.accepted("/v1/events", &event("after"));
    poll("an event without the registry", || cluster.totals().of("trusted") == 2, || cluster.log());
    assert_eq!(cluster.stop(), 0, "{}", cluster.log());
}
