//! The reference model: the whole path as a few obvious lines, and generated traffic on which the real one must agree.
//!
//! The model knows only the contract (design §3, §6.7): the first copy of a (source, id) is judged by its type; a later copy of
//! the same fact is a duplicate, another fact a collision; a reject leaves no trace, so its copies are rejects again.

use crate::harness::{Form, on_both, soak};
use serde_json::{Value, json};
use std::collections::BTreeMap;

on_both! {
    the_real_path_agrees_with_the_model,
}

/// A small generator of its own, so that a seed means the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.next(from.len() as u64) as usize]
    }
}

const DIALECTS: [&str; 4] = ["segment", "snowplow", "posthog", "native"];

/// A fact, apart from any dialect: who, what, which variant of its content.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Fact {
    id: u64,
    dialect: &'static str,
    kind: Kind,
    variant: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Page,
    Click,
    Unknown,
    Broken,
}

impl Fact {
    /// Ids and devices are functions of the number, so that copies land where their first landed.
    fn event_id(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.id)
    }
    fn device(&self) -> String {
        format!("device-{}", self.id % 17)
    }
    fn event_type(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Page => Some("page_viewed"),
            Kind::Click => Some("product_clicked"),
            Kind::Unknown | Kind::Broken => None,
        }
    }

    /// The request that carries it; `attempt` changes only what SDKs change between attempts.
    fn request(&self, attempt: u64) -> (&'static str, String) {
        let (id, device, sent) = (self.event_id(), self.device(), format!("2026-11-30T10:00:{:02}.000Z", attempt % 60));
        let time = "2026-11-30T09:00:00.000Z";
        let broken = if self.kind == Kind::Broken { "\"x\":NaN," } else { "" };
        match self.dialect {
            "segment" => {
                let what = match self.kind {
                    Kind::Page => "\"type\":\"page\",\"name\":\"Home\"",
                    Kind::Click | Kind::Broken => "\"type\":\"track\",\"event\":\"Product Clicked\"",
                    Kind::Unknown => "\"type\":\"track\",\"event\":\"Nobody Knows This\"",
                };
                let user = if attempt == 0 { "null".to_owned() } else { format!("\"u-{attempt}\"") };
                (
                    "/v1/batch",
                    format!(
                        "{{\"batch\":[{{{broken}{what},\"messageId\":\"{id}\",\"anonymousId\":\"{device}\",\"userId\":{user},\"timestamp\":\"{time}\",\"properties\":{{\"position\":{}}},\"_metadata\":{{\"retryCount\":{attempt}}}}}],\"sentAt\":\"{sent}\"}}",
                        self.variant
                    ),
                )
            }
            "snowplow" => {
                let what = match self.kind {
                    Kind::Page => "\"e\":\"pv\"".to_owned(),
                    Kind::Click | Kind::Broken => {
                        let schema = |name: &str| format!("iglu:{name}/jsonschema/1-0-0");
                        let event = json!({"schema": schema("com.acme/nobody_knows"), "data": {}});
                        let event = json!({"schema": schema("com.snowplowanalytics.snowplow/unstruct_event"), "data": event});
                        format!("\"e\":\"ue\",\"ue_pr\":{}", Value::from(event.to_string()))
                    }
                    Kind::Unknown => "\"e\":\"zz\"".to_owned(),
                };
                (
                    "/com.snowplowanalytics.snowplow/tp2",
                    format!(
                        "{{\"schema\":\"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4\",\"data\":[{{{broken}{what},\"eid\":\"{id}\",\"duid\":\"{device}\",\"dtm\":\"1796029200000\",\"page\":\"v{}\",\"stm\":\"179602{attempt:07}\"}}]}}",
                        self.variant
                    ),
                )
            }
            "posthog" => {
                let name = match self.kind {
                    Kind::Page => "$pageview",
                    Kind::Click | Kind::Broken => "product clicked",
                    Kind::Unknown => "nobody knows this",
                };
                (
                    "/batch/",
                    format!(
                        "{{\"api_key\":\"k\",\"sent_at\":\"{sent}\",\"batch\":[{{{broken}\"uuid\":\"{id}\",\"event\":\"{name}\",\"timestamp\":\"{time}\",\"properties\":{{\"distinct_id\":\"{device}\",\"$device_id\":\"{device}\",\"position\":{}}}}}]}}",
                        self.variant
                    ),
                )
            }
            "native" => {
                let kind = match self.kind {
                    Kind::Page => "page_viewed",
                    Kind::Click | Kind::Broken => "product_clicked",
                    Kind::Unknown => "nobody_knows_this",
                };
                (
                    "/v1/events",
                    format!(
                        "{{\"batch\":[{{{broken}\"event_id\":\"{id}\",\"event_type\":\"{kind}\",\"event_time\":\"{time}\",\"anonymous_id\":\"{device}\",\"properties\":{{\"position\":{}}}}}],\"sent_at\":\"{sent}\"}}",
                        self.variant
                    ),
                )
            }
            other => unreachable!("no dialect {other}"),
        }
    }
}

/// The whole path.
#[derive(Default)]
struct Model {
    first: BTreeMap<String, Fact>,
    trusted: BTreeMap<String, String>,
    outcomes: BTreeMap<(String, String), u64>,
}

impl Model {
    fn take(&mut self, fact: &Fact) {
        let outcome = match (fact.kind, fact.event_type()) {
            (Kind::Broken, _) => ("bad", "malformed"),
            // A self-describing Snowplow event of a vendor's own schema is unknown here.
            (Kind::Unknown, _) => ("bad", "unknown_event_type"),
            (Kind::Click, _) if fact.dialect == "snowplow" => ("bad", "unknown_event_type"),
            (Kind::Page | Kind::Click, kind) => match self.first.get(&fact.event_id()) {
                None => {
                    self.first.insert(fact.event_id(), fact.clone());
                    self.trusted.insert(fact.event_id(), kind.expect("known").to_owned());
                    ("trusted", "")
                }
                Some(first) if first == fact => ("duplicate", ""),
                Some(_) => ("bad", "id_collision"),
            },
        };
        *self.outcomes.entry((outcome.0.to_owned(), outcome.1.to_owned())).or_default() += 1;
    }
}

fn traffic(random: &mut Random, events: u64) -> Vec<(Fact, u64)> {
    let mut facts: Vec<Fact> = Vec::new();
    let mut sends = Vec::new();
    for id in 0..events {
        let repeat = !facts.is_empty() && random.next(4) == 0;
        let mut fact = if repeat {
            random.pick(&facts).clone()
        } else {
            Fact {
                id,
                dialect: DIALECTS[random.next(4) as usize],
                kind: *random.pick(&[Kind::Page, Kind::Page, Kind::Click, Kind::Click, Kind::Unknown, Kind::Broken]),
                variant: random.next(1_000),
            }
        };
        if repeat && random.next(3) == 0 {
            fact.variant += 1;
        }
        if !repeat {
            facts.push(fact.clone());
        }
        sends.push((fact, random.next(5)));
    }
    sends
}

fn the_real_path_agrees_with_the_model(form: Form) {
    let rounds = if soak() { 20 } else { 2 };
    for round in 0..rounds {
        let seed = 0x9e37_79b9_7f4a_7c15 ^ (u64::from(std::process::id()) << 8) ^ round;
        let mut random = Random(seed | 1);
        let mut model = Model::default();
        let mut dev = form.fresh();
        for (n, (fact, attempt)) in traffic(&mut random, 600).iter().enumerate() {
            let (target, body) = fact.request(*attempt);
            let answer = dev.post(target, &[("content-type", "application/json")], body.as_bytes());
            assert_eq!(answer.status, 200, "seed {seed}: {body}: {}", answer.text());
            model.take(fact);
            if n == 300 {
                dev.kill();
                dev.start();
            }
        }
        let totals = dev.settled();
        // A crash may publish an event again (A2 before A3): never more trusted or fewer outcomes than the model has.
        let again = totals.sum() - model.outcomes.values().sum::<u64>();
        let trusted: BTreeMap<String, String> = dev
            .tail("trusted")
            .iter()
            .map(|t: &Value| (t["event_id"].as_str().expect("an id").to_owned(), t["event_type"].as_str().expect("a type").to_owned()))
            .collect();
        assert_eq!(trusted, model.trusted, "seed {seed}");
        let mut expected = model.outcomes.clone();
        let mut real = totals.0.clone();
        let key = |o: &str| (o.to_owned(), String::new());
        assert_eq!(real.remove(&key("trusted")), expected.remove(&key("trusted")), "seed {seed}");
        if again == 0 {
            assert_eq!(totals.0, model.outcomes, "seed {seed}");
        }
        for (outcome, count) in &expected {
            assert!(real.get(outcome).copied().unwrap_or(0) >= *count, "seed {seed}: {outcome:?} {real:?} {expected:?}");
        }
        for (outcome, count) in &real {
            assert!(*count <= expected.get(outcome).copied().unwrap_or(0) + again, "seed {seed}: {outcome:?} {real:?} {expected:?}");
        }
    }
}

#[test]
fn the_model_itself_says_what_the_contract_says() {
    let fact = |variant, kind| Fact { id: 1, dialect: "native", kind, variant };
    let mut model = Model::default();
    for f in [fact(1, Kind::Unknown), fact(1, Kind::Page), fact(1, Kind::Page), fact(2, Kind::Page)] {
        model.take(&f);
    }
    let outcomes: Vec<_> = model.outcomes.iter().map(|((o, r), n)| json!([o, r, n])).collect();
    assert_eq!(
        outcomes,
        [
            json!(["bad", "id_collision", 1]),
            json!(["bad", "unknown_event_type", 1]),
            json!(["duplicate", "", 1]),
            json!(["trusted", "", 1])
        ]
    );
}
