//! Fingerprint: what makes two copies the same fact (design §4.5).
//!
//! Owns: which members a fact consists of, by dialect. Does not own: identity (the gateway), the verdict (`dedup`).
//! Invariants: taken from the payload as harvested, so that no catalogue, key or option changes it; it says what a
//! fact is and never lists what it is not, since SDKs fill user fields and metadata anew at each attempt.
//! Golden values: `schemas/vectors/fingerprint.json`.

use forebay_schemas::canonical;
use forebay_schemas::dialect::Dialect;
use forebay_schemas::json::Json;
use sha2::{Digest, Sha256};

/// Changes with every change of the rule: old and new copies of one fact would differ.
const RULE: &[u8] = b"1";
/// What most facts need, so that memory is asked for once.
const USUAL_BYTES: usize = 1_024;

/// The fingerprint of a payload: the first 8 bytes of SHA-256 over the rule, the names, the client's time and the
/// canonical JSON of what was told, each part behind its length.
pub fn of(dialect: Dialect, payload: &Json<'_>) -> u64 {
    let mut fact = Fact::new();
    let whole = &|_: &str| false;
    match dialect {
        Dialect::Native => {
            fact.names(payload, ["event_type"], ["event_time"]);
            fact.told(payload.get("properties"), whole);
        }
        Dialect::Segment => {
            fact.names(payload, ["type", "event", "name"], ["timestamp", "originalTimestamp"]);
            fact.told(payload.get("properties"), whole);
            fact.told(payload.get("traits"), whole);
        }
        Dialect::Posthog => {
            fact.names(payload, ["event"], ["timestamp"]);
            fact.told(payload.get("properties"), &of_a_sender);
        }
        Dialect::Snowplow => fact.told(Some(payload), &of_an_attempt),
        Dialect::Amplitude => {
            fact.names(payload, ["event_type"], ["time", "timestamp"]);
            fact.told(payload.get("event_properties"), whole);
            fact.told(payload.get("user_properties"), whole);
            fact.told(payload.get("group_properties"), whole);
        }
        Dialect::Mixpanel => {
            fact.names(payload, ["event"], ["$time"]);
            match payload.get("properties") {
                Some(properties) => fact.told(Some(properties), &of_a_mixpanel_sender),
                None => fact.told(Some(payload), &of_a_mixpanel_sender),
            }
        }
        Dialect::Ga4 => {
            fact.names(payload, ["name"], ["timestamp_micros"]);
            fact.told(payload.get("params"), &|name| name == "engagement_time_msec");
        }
        Dialect::CloudEvents => {
            fact.names(payload, ["type", "source", "subject"], ["time"]);
            fact.told(payload.get("data"), whole);
            fact.told(payload.get("data_base64"), whole);
        }
    }
    fact.fingerprint()
}

/// The fingerprint of what nobody can read: its bytes.
pub fn of_bytes(payload: &[u8]) -> u64 {
    let mut fact = Fact::new();
    fact.part(Some(payload));
    fact.fingerprint()
}

/// What is hashed.
struct Fact {
    parts: Vec<u8>,
}

impl Fact {
    fn new() -> Fact {
        let mut fact = Fact { parts: Vec::with_capacity(USUAL_BYTES) };
        fact.part(Some(RULE));
        fact
    }

    /// A missing part is another than an empty one.
    fn part(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                self.parts.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
                self.parts.extend_from_slice(bytes);
            }
            None => self.parts.extend_from_slice(&u64::MAX.to_be_bytes()),
        }
    }

    /// Names as sent, then the first time that is there as sent.
    fn names<const N: usize, const T: usize>(&mut self, payload: &Json<'_>, names: [&str; N], times: [&str; T]) {
        for name in names {
            self.part(payload.get(name).and_then(Json::as_text).map(str::as_bytes));
        }
        let time = times.iter().find_map(|time| payload.get(time).and_then(Json::as_text));
        self.part(time.map(str::as_bytes));
    }

    /// The canonical form of `value`, without the members that `skip` accepts.
    fn told(&mut self, value: Option<&Json<'_>>, skip: &dyn Fn(&str) -> bool) {
        let text = value.map(|value| {
            let mut text = String::with_capacity(USUAL_BYTES);
            canonical::write(value, skip, &mut text);
            text
        });
        self.part(text.as_deref().map(str::as_bytes));
    }

    fn fingerprint(&self) -> u64 {
        u64::from_be_bytes(*Sha256::digest(&self.parts).first_chunk().expect("SHA-256 has 32 bytes"))
    }
}

/// PostHog properties that say who sends and how it fares, which an SDK fills in anew.
fn of_a_sender(name: &str) -> bool {
    matches!(name, "token" | "distinct_id" | "$device_id" | "$user_id" | "$anon_distinct_id" | "mp_sent_by_lib_version")
        || name.starts_with("$sdk_debug")
        || name.starts_with("$set")
}

/// Mixpanel properties that say who sends, which an SDK fills in anew.
fn of_a_mixpanel_sender(name: &str) -> bool {
    matches!(name, "token" | "$token" | "distinct_id" | "$distinct_id" | "$device_id" | "$user_id" | "mp_sent_by_lib_version")
}

/// Snowplow parameters that say who sends and when.
fn of_an_attempt(name: &str) -> bool {
    matches!(name, "stm" | "uid" | "duid" | "nuid" | "tnuid" | "sid" | "vid")
}

#[cfg(test)]
mod tests;
