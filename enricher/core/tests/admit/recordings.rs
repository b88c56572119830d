//! The recordings of real SDKs come out as their truth says: counts by type, retries as the same fact.

use crate::fixtures::{Recording, pipeline, recordings};
use std::collections::{BTreeMap, BTreeSet};

fn check(recording: &Recording) {
    let pipeline = pipeline();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut facts: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for event in &recording.events {
        let id = event.event_id.as_str().to_owned();
        let first = !facts.contains_key(&id);
        let copies = facts.entry(id).or_default();
        let outcome = match pipeline.admit(event) {
            Ok(admitted) => {
                copies.insert(admitted.fingerprint);
                admitted.masked.event_type().to_owned()
            }
            Err(reject) => format!("bad:{}", reject.reason.name()),
        };
        if first {
            *counts.entry(outcome).or_default() += 1;
        }
    }
    assert_eq!(counts, recording.expect, "{}", recording.name);
    for (id, fingerprints) in facts {
        assert!(fingerprints.len() <= 1, "{}: {id} was sent again and is another fact", recording.name);
    }
}

#[test]
fn as_their_truth_says() {
    let recordings = recordings();
    assert!(recordings.len() >= 12, "only {} recordings", recordings.len());
    recordings.iter().for_each(check);
}
