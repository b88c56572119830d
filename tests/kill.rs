//! `kill -9` at any moment costs no event and shows none twice: at named failpoints, and at random under load.

use crate::harness::{Dev, PATIENCE, System, column, oracle, soak, traffic};
use serde_json::json;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FAILPOINTS: [&str; 13] = [
    "spool.before_fsync",
    "spool.after_fsync",
    "publish.before_append",
    "publish.after_append",
    "log.before_commit",
    "log.after_commit",
    "enrich.before_produce",
    "enrich.after_commit",
    "enrich.after_apply",
    "sink.before_commit",
    "sink.after_commit",
    "land.before_put",
    "land.after_put",
];

/// One event before, one whose handling dies at the failpoint, the same again after the restart: each is there once.
#[test]
fn every_failpoint_keeps_every_acknowledged_event_once() {
    for failpoint in FAILPOINTS {
        // Landing happens when a segment is sealed: by age here.
        let config = "[gateway]\nspool.segment_age = \"1s\"\n[enricher]\nbackend = \"rocksdb\"\n[sink.table]\ncommit_interval = \"1s\"\n";
        let mut dev = Dev::with(config, &[]);
        let event =
            |id: &str| json!({"event_id": id, "event_type": "product_viewed", "anonymous_id": "a", "properties": {"product_id": "sku-1"}});
        dev.accepted("/v1/events", &event("before"));
        dev.settled();
        assert_eq!(dev.stop(), 0);
        dev.set_env(&[("FOREBAY_FAILPOINT", failpoint)]);
        dev.spawn();
        // The process may die before it is ready (a sink or lander that has work at once) or while it answers.
        let started = Instant::now();
        let mut acked = false;
        while dev.is_running() {
            if !acked && dev.ready() {
                let headers = [("content-type", "application/json")];
                acked = crate::harness::http::request(&dev.listen, "POST", "/v1/events", &headers, event("during").to_string().as_bytes())
                    .is_ok_and(|a| a.status == 200);
            }
            assert!(started.elapsed() < PATIENCE, "{failpoint} was never passed:\n{}", dev.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        dev.set_env(&[]);
        dev.start();
        if !acked {
            dev.accepted("/v1/events", &event("during"));
        }
        dev.settled();
        assert_eq!(column(&dev.tail("trusted"), "event_id"), ["before", "during"], "{failpoint}");
        assert_eq!(dev.stop(), 0, "{failpoint}");
        assert_eq!(column(&dev.table("duckdb"), "event_id"), ["before", "during"], "{failpoint}: the table");
    }
}

/// 20 kills at random while every SDK's recordings are played with fresh ids; what was answered 2xx is there once.
#[test]
fn random_kills_under_load() {
    let (rounds, repeat) = if soak() { (20, 4_500) } else { (4, 250) };
    let mut dev = Dev::with(
        "[gateway]\nspool.segment_age = \"2s\"\n[enricher]\nbackend = \"rocksdb\"\n[sink.table]\ncommit_interval = \"1s\"\n",
        &[],
    );
    let folder = dev.data.parent().expect("a parent").to_owned();
    let (acked, sent) = (folder.join("acked"), folder.join("sent"));
    let recordings: Vec<_> =
        ["segment-node", "segment-node-retries", "browser-segment", "browser-snowplow", "posthog-node", "browser-posthog"]
            .iter()
            .map(|n| traffic().join(format!("{n}.jsonl")))
            .collect();
    let log = std::fs::File::create(folder.join("send.json")).expect("a file");
    let mut send = Command::new(crate::harness::binary())
        .arg("send")
        .args(&recordings)
        .args([
            "--to",
            &format!("http://{}", dev.listen),
            "--repeat",
            &repeat.to_string(),
            "--unique",
            "--resend",
            "--connections",
            "4",
            "--json",
            "--acked",
        ])
        .arg(&acked)
        .arg("--sent")
        .arg(&sent)
        .stdin(Stdio::null())
        .stdout(log)
        .spawn()
        .expect("the binary starts");
    let mut seed = u64::from(std::process::id()) | 1;
    println!("seed {seed}");
    let mut kills = 0;
    for _ in 0..rounds {
        // xorshift: any moment will do, the seed tells which.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        std::thread::sleep(Duration::from_millis(300 + seed % 1_700));
        if send.try_wait().expect("a child").is_some() {
            break;
        }
        dev.kill();
        dev.start();
        kills += 1;
    }
    assert!(send.wait().expect("a child").success());
    let totals = dev.settled();
    let (facts, trusted) = oracle::trusted_once(&dev, std::slice::from_ref(&acked));
    println!("{kills} kills, {facts} facts acknowledged, {totals:?}");
    assert!(kills > 0, "send ended before the first kill");
    if soak() {
        assert!(kills == rounds && facts >= 200_000, "too little was tried");
    }
    let harvested = dev.tail("harvested");
    assert_eq!(harvested.len() as u64, totals.sum(), "totals balance");
    assert_eq!(dev.stop(), 0, "a graceful stop lands everything");
    for reader in ["duckdb", "pyiceberg"] {
        assert_eq!(column(&dev.table(reader), "event_id"), trusted, "{reader} sees trusted's ids, each once");
    }
    oracle::bodies_landed(&dev, std::slice::from_ref(&sent), oracle::refused(&folder.join("send.json")));
}
