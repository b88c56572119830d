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

/// The fingerprint of a payload: the first 8 bytes of SHA-256 over the rule, the names, the client's time and the
/// canonical JSON of what was told, each part behind its length.
pub fn of(dialect: Dialect, payload: &Json<'_>) -> u64 {
    let mut hash = Sha256::new();
    part(&mut hash, Some(RULE));
    let mut text = String::new();
    let mut told = |hash: &mut Sha256, value: Option<&Json<'_>>, skip: &dyn Fn(&str) -> bool| {
        text.clear();
        if let Some(value) = value {
            canonical::write(value, skip, &mut text);
        }
        part(hash, value.map(|_| text.as_bytes()));
    };
    let whole = &|_: &str| false;
    match dialect {
        Dialect::Native => {
            names(&mut hash, payload, ["event_type"], ["event_time"]);
            told(&mut hash, payload.get("properties"), whole);
        }
        Dialect::Segment => {
            names(&mut hash, payload, ["type", "event", "name"], ["timestamp", "originalTimestamp"]);
            told(&mut hash, payload.get("properties"), whole);
            told(&mut hash, payload.get("traits"), whole);
        }
        Dialect::Posthog => {
            names(&mut hash, payload, ["event"], ["timestamp"]);
            told(&mut hash, payload.get("properties"), &of_a_sender);
        }
        Dialect::Snowplow => told(&mut hash, Some(payload), &of_an_attempt),
    }
    first_8(hash)
}

/// The fingerprint of what nobody can read: its bytes.
pub fn of_bytes(payload: &[u8]) -> u64 {
    let mut hash = Sha256::new();
    part(&mut hash, Some(RULE));
    part(&mut hash, Some(payload));
    first_8(hash)
}

/// Names as sent, then the first time that is there as sent.
fn names<const N: usize, const T: usize>(hash: &mut Sha256, payload: &Json<'_>, names: [&str; N], times: [&str; T]) {
    for name in names {
        part(hash, payload.get(name).and_then(Json::as_text).map(str::as_bytes));
    }
    let time = times.iter().find_map(|time| payload.get(time).and_then(Json::as_text));
    part(hash, time.map(str::as_bytes));
}

/// PostHog properties that say who sends and how it fares, which an SDK fills in anew.
fn of_a_sender(name: &str) -> bool {
    matches!(name, "token" | "distinct_id" | "$device_id" | "$user_id" | "$anon_distinct_id" | "mp_sent_by_lib_version")
        || name.starts_with("$sdk_debug")
        || name.starts_with("$set")
}

/// Snowplow parameters that say who sends and when.
fn of_an_attempt(name: &str) -> bool {
    matches!(name, "stm" | "uid" | "duid" | "nuid" | "tnuid" | "sid" | "vid")
}

/// A missing part is another than an empty one.
fn part(hash: &mut Sha256, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
        None => hash.update(u64::MAX.to_be_bytes()),
    }
}

fn first_8(hash: Sha256) -> u64 {
    u64::from_be_bytes(*hash.finalize().first_chunk().expect("SHA-256 has 32 bytes"))
}

#[cfg(test)]
mod tests;
