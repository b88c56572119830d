//! Canaries: a string planted in every field that no schema publishes must not come out anywhere but in the raw landing.

use crate::harness::{Dev, Form, System, http, on_both, poll};
use base64::Engine;
use serde_json::{Value, json};
use std::io::Write;

on_both! {
    nothing_unclassified_comes_out,
}

/// Eight letters that nothing else contains, and a number to tell where it was planted.
fn canary(n: usize) -> String {
    format!("Zqxvkwpj{n:03}")
}

/// Every form in which the string could hide.
fn forms(canary: &str) -> Vec<String> {
    let engine = base64::engine::general_purpose::STANDARD;
    // base64 of the string at each of the three alignments, without the characters that depend on its neighbours.
    let shifted = |pad: &str, skip: usize| {
        let text = engine.encode(format!("{pad}{canary}"));
        text[skip..text.len() - 4].to_owned()
    };
    let percent: String = canary.bytes().map(|b| format!("%{b:02x}")).collect();
    vec![canary.to_lowercase(), percent, shifted("", 0).to_lowercase(), shifted("x", 2).to_lowercase(), shifted("xx", 3).to_lowercase()]
}

fn found(place: &str, text: &str, planted: usize) -> Vec<String> {
    let text = text.to_lowercase();
    (0..planted).filter(|n| forms(&canary(*n)).iter().any(|form| text.contains(form))).map(|n| format!("canary {n} in {place}")).collect()
}

/// Hands out canaries and counts them.
struct Plant(usize);

impl Plant {
    fn next(&mut self) -> String {
        self.0 += 1;
        canary(self.0 - 1)
    }
    fn email(&mut self) -> String {
        format!("{}@example.com", self.next())
    }
}

fn segment(plant: &mut Plant) -> Value {
    let (key, nested) = (plant.next(), plant.next());
    json!({
        "type": "track", "event": "Product Clicked", "messageId": "canary-segment-1", "anonymousId": plant.next(), "userId": plant.next(),
        "timestamp": "2026-11-30T10:00:00Z",
        "properties": {key: plant.next(), "other": {nested: [plant.next(), {"x": plant.next()}]}, "email": plant.email(), "phone": plant.next(),
                       "url": format!("http://{}:{}@shop.example/a?{}={}#{}", plant.next(), plant.next(), plant.next(), plant.next(), plant.next())},
        "context": {"ip": "203.0.113.7", "userAgent": plant.next(), "traits": {"email": plant.email(), "firstName": plant.next()}, "page": {"custom": plant.next(), "url": format!("http://shop.example/reset/{}?token={}", plant.email(), plant.next())},
                    "device": {"id": plant.next(), "advertisingId": plant.next()}, "library": {"name": plant.next()}, "groupId": plant.next()},
        "integrations": {plant.next(): true}, "_metadata": {"x": plant.next()}, plant.next(): plant.next()
    })
}

fn identify(plant: &mut Plant) -> Value {
    json!({"type": "identify", "messageId": "canary-segment-2", "userId": plant.next(), "anonymousId": plant.next(), "timestamp": "2026-11-30T10:00:00Z",
           "traits": {"email": plant.email(), "name": plant.next(), "firstName": plant.next(), "lastName": plant.next(), "phone": plant.next(), "username": plant.next(),
                      "birthday": plant.next(), "address": {"street": plant.next(), "city": plant.next(), "postalCode": plant.next()}, "avatar": plant.next(), "secret": plant.next()}})
}

/// A name nobody knows is itself a payload value.
fn unknown(plant: &mut Plant) -> Value {
    json!({"type": "track", "event": plant.next(), "messageId": "canary-segment-3", "anonymousId": plant.next(), "properties": {plant.next(): plant.next()}})
}

/// A value of a wrong type, whose schema error must not quote it.
fn invalid(plant: &mut Plant) -> Value {
    json!({"type": "track", "event": "Product Clicked", "messageId": "canary-segment-4", "anonymousId": plant.next(), "properties": {"price": {"nested": plant.next()}, "currency": [plant.next()], "quantity": plant.next()}})
}

fn snowplow(plant: &mut Plant) -> Value {
    let context = json!({"schema": "iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-0", "data": [{"schema": "iglu:com.acme/user/jsonschema/1-0-0", "data": {"name": plant.next()}}]});
    json!({"schema": "iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4", "data": [
        {"e": "pv", "eid": "11111111-1111-4111-8111-111111111111", "duid": plant.next(), "uid": plant.next(), "sid": plant.next(), "nuid": plant.next(), "dtm": "1796021398000", "stm": "1796021398001", "aid": "shop",
         "url": format!("http://shop.example/a?q={}#{}", plant.next(), plant.next()), "ip": plant.next(), "ua": plant.next(), "fp": plant.next(), "co": context.to_string(), plant.next(): plant.next(), "tna": plant.next()},
        {"e": "ue", "eid": "22222222-2222-4222-8222-222222222222", "duid": plant.next(), "ue_pr": json!({"schema": "iglu:com.snowplowanalytics.snowplow/unstruct_event/jsonschema/1-0-0", "data": {"schema": format!("iglu:com.acme/{}/jsonschema/1-0-0", plant.next()), "data": {"x": plant.next()}}}).to_string()}]})
}

fn posthog(plant: &mut Plant) -> Value {
    json!({"api_key": plant.next(), "sent_at": "2026-11-30T10:00:01Z", "batch": [
        {"uuid": "01a22b38-1176-7f47-86bb-2a4f22dbcb91", "event": "$pageview", "timestamp": "2026-11-30T10:00:00Z", "properties": {
            "distinct_id": plant.next(), "$device_id": plant.next(), "$session_id": plant.next(), "$window_id": plant.next(), "token": plant.next(), "$current_url": format!("http://shop.example/{}?{}={}", plant.email(), plant.next(), plant.next()),
            "$raw_user_agent": plant.next(), "$ip": plant.next(), plant.next(): plant.next(), "$el_text": plant.next()}, "$set": {"email": plant.email(), "name": plant.next()}},
        {"uuid": "01a22b38-1176-7f47-86bb-2a4f22dbcb92", "event": plant.next(), "properties": {"distinct_id": plant.next()}}]})
}

/// Windows that tell as much of an event as they can.
const CONFIG: &str = r#"
[enricher]
backend = "rocksdb"
watermark.delay = "1s"
[sink.table]
commit_interval = "1s"
[[window]]
uid = "all"
kind = "tumbling"
size = "1s"
key = ["page.url", "page.title", "page.referrer", "user_id", "anonymous_id", "session_id", "device.library", "campaign.name"]
values = { urls = "top(9, page.url)", titles = "top(9, page.title)", paths = "top(9, page.path)", people = "top(9, user_id)" }
[[window]]
uid = "visits"
kind = "session"
gap = "1s"
key = ["anonymous_id", "device.os"]
"#;

fn nothing_unclassified_comes_out(form: Form) {
    let mut dev = form.with(CONFIG, &[("RUST_LOG", "debug")]);
    let mut plant = Plant(0);
    let agent = plant.next();
    let (referer, cookie, forwarded, key, odd) = (plant.next(), plant.next(), plant.next(), plant.next(), plant.next());
    let authorization = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{key}:")));
    let cookie = format!("sid={cookie}");
    let headers = [
        ("user-agent", agent.as_str()),
        ("referer", referer.as_str()),
        ("cookie", cookie.as_str()),
        ("x-forwarded-for", forwarded.as_str()),
        ("authorization", authorization.as_str()),
        ("x-odd", odd.as_str()),
        ("content-type", "application/json"),
    ];
    let mut answers = String::new();
    for (target, body) in [
        ("/v1/t", segment(&mut plant)),
        ("/v1/i", identify(&mut plant)),
        ("/v1/t", unknown(&mut plant)),
        ("/v1/t", invalid(&mut plant)),
        ("/com.snowplowanalytics.snowplow/tp2", snowplow(&mut plant)),
        ("/batch/", posthog(&mut plant)),
    ] {
        let answer = dev.post(target, &headers, body.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
        answers.push_str(&answer.text());
    }
    let broken = format!("{{\"batch\":[{{\"{}\":", plant.next());
    answers.push_str(&dev.post("/v1/batch", &headers, broken.as_bytes()).text());
    answers.push_str(&dev.post(&format!("/nowhere/{}/x/y", plant.next()), &headers, b"{}").text());
    let planted = plant.0;
    assert!(planted > 90, "{planted} canaries");

    let totals = dev.settled();
    assert!(totals.of("trusted") >= 4 && totals.of("bad") >= 5, "{totals:?}\n{}", dev.log());
    let admin = dev.admin();
    let view = dev.token("view_token");
    let api = |target: &str| http::get(&admin, target, Some(&view)).expect("an answer").text();
    poll("windows to be told", || ["windows", "late", "repartition"].iter().all(|topic| !dev.tail(topic).is_empty()), || dev.log());
    let told = |topic: &str| dev.run(&["tail", topic, "--from", "earliest", "--until-idle", "1", "--json"]);
    let raw_before_stop = dev.run(&["tail", "trusted", "--from", "earliest", "--until-idle", "1", "--json"]);
    let mut places = vec![
        ("the trusted topic", raw_before_stop),
        (
            "the clear part of bad",
            dev.run(&["tail", "bad", "--from", "earliest", "--until-idle", "1", "--json"])
                .lines()
                .map(clear_part)
                .collect::<Vec<_>>()
                .join("\n"),
        ),
        ("the topic of windows", told("windows")),
        ("the topic of late events", told("late")),
        ("the repartition topic", told("repartition")),
        ("answers", answers),
        ("metrics", http::get(&admin, "/metrics", None).expect("an answer").text()),
        ("/api/log/trusted", api("/api/log/trusted?from=earliest&until_idle=1")),
        ("/api/log/bad", api("/api/log/bad?from=earliest&until_idle=1").lines().map(clear_part).collect::<Vec<_>>().join("\n")),
        ("/api/unclassified", api("/api/unclassified")),
        ("/api/config", api("/api/config")),
        (
            "/api/explain",
            ["canary-segment-1", "canary-segment-3", "canary-segment-4"].map(|id| api(&format!("/api/explain?event_id={id}"))).join("\n"),
        ),
    ];
    assert_eq!(dev.stop(), 0);
    places.push(("logs", dev.log()));
    for reader in ["duckdb", "pyiceberg"] {
        let rows = dev.table_all(reader);
        assert!(!rows.is_empty());
        places.push(("the table", rows.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")));
    }
    let leaks: Vec<String> = places.iter().flat_map(|(place, text)| found(place, text, planted)).collect();
    assert!(leaks.is_empty(), "{leaks:?}");

    let objects = dev.run(&["raw", "ls"]);
    let bodies: String =
        objects.split_whitespace().filter(|w| w.starts_with("raw/dt=")).map(|o| dev.run(&["raw", "cat", o, "--body"])).collect();
    let landed = found("raw", &bodies, planted).len();
    assert!(landed > planted * 8 / 10, "the landing is verbatim: {landed} of {planted}");
}

/// The sealed part is base64 of ciphertext: it may spell anything, so only the clear part is searched.
fn clear_part(line: &str) -> String {
    let mut bad: Value = serde_json::from_str(line).expect("a JSON line");
    bad.as_object_mut().expect("an object").remove("sealed");
    bad.to_string()
}

/// The check above can fail: with one field marked `keep`, its canary comes out.
#[test]
fn a_field_marked_keep_is_seen_by_the_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let events = folder.path().join("wish_made");
    std::fs::create_dir_all(&events).expect("made");
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "wish_made", "type": "object",
        "properties": {"wish": {"type": "string", "pattern": "^[A-Za-z0-9]{1,64}$", "x-privacy": "keep"}}});
    std::fs::File::create(events.join("1-0-0.json")).expect("made").write_all(schema.to_string().as_bytes()).expect("written");
    let dev = Dev::with(&format!("[enricher]\nbackend = \"memory\"\n[catalog]\ndir = {:?}\n", folder.path()), &[]);
    dev.accepted("/v1/events", &json!({"event_id": "w-1", "event_type": "wish_made", "properties": {"wish": canary(0)}}));
    assert_eq!(dev.settled().of("trusted"), 1);
    assert_eq!(found("trusted", &dev.run(&["tail", "trusted", "--from", "earliest", "--until-idle", "1", "--json"]), 1).len(), 1);
}
