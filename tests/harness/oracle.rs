//! What must be true of a system when the dust has settled, whatever was done to it.

use super::{System, column};
use base64::Engine;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every acknowledged id stands in trusted once, or in bad; nothing stands in trusted twice. Answers how many ids were
/// acknowledged, and trusted's ids, sorted.
pub fn trusted_once(system: &dyn System, acked: &[PathBuf]) -> (usize, Vec<String>) {
    let read = |file: &PathBuf| std::fs::read_to_string(file).expect("the acked ids");
    let acked: BTreeSet<String> = acked.iter().map(read).flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    assert!(!acked.is_empty());
    let ids = column(&system.tail("trusted"), "event_id");
    let mut trusted: BTreeMap<&str, u32> = BTreeMap::new();
    for id in &ids {
        *trusted.entry(id).or_default() += 1;
    }
    let twice: Vec<_> = trusted.iter().filter(|(_, n)| **n > 1).take(5).collect();
    assert!(twice.is_empty(), "in trusted more than once: {twice:?}");
    let bad: BTreeSet<String> = column(&system.tail("bad"), "event_id").into_iter().collect();
    let lost: Vec<_> = acked.iter().filter(|id| !trusted.contains_key(id.as_str()) && !bad.contains(*id)).take(5).collect();
    assert!(lost.is_empty(), "acknowledged and gone: {lost:?}");
    (acked.len(), ids)
}

/// The answered bodies are landed as they were sent; of them only those that were refused, `refused` at most, may be missing.
pub fn bodies_landed(system: &dyn System, sent: &[PathBuf], refused: u64) {
    let decode = |body: &Value| base64::engine::general_purpose::STANDARD.decode(body.as_str().expect("base64")).expect("base64");
    let landed: BTreeMap<String, Vec<u8>> =
        system.raw().into_iter().map(|r| (r["request_id"].as_str().expect("an id").to_owned(), decode(&r["body"]))).collect();
    let (mut compared, mut missing) = (0, 0);
    let files = sent.iter().flat_map(|folder| std::fs::read_dir(folder).expect("the sent bodies"));
    for path in files.map(|entry| entry.expect("an entry").path()) {
        let name = path.file_stem().and_then(|n| n.to_str()).expect("a name").to_owned();
        if name.starts_with("unanswered-") {
            continue;
        }
        let body = std::fs::read(&path).expect("a body");
        match landed.get(&name) {
            Some(landed) => {
                assert_eq!(landed, &body, "request {name} is landed as it was sent");
                compared += 1;
            }
            // A preflight is answered, has no body and is never landed.
            None if body.is_empty() => {}
            None => missing += 1,
        }
    }
    assert!(missing <= refused, "{missing} answered bodies are not landed, but only {refused} were refused");
    assert!(compared > 100, "only {compared} bodies were compared");
}

/// Answers other than 2xx in a summary of `send`; those after which it sent again are not among them (`retried`).
pub fn refused(summary: &Path) -> u64 {
    let summary = read(summary);
    let answers = summary["answers"].as_object().expect("answers by status");
    answers.iter().filter(|(status, _)| !status.starts_with('2')).map(|(_, n)| n.as_u64().expect("a count")).sum()
}

/// Attempts after which `send` sent again: a refusal's body lies among the sent ones, too.
pub fn retried(summary: &Path) -> u64 {
    read(summary)["retries"].as_u64().expect("a count")
}

fn read(summary: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(summary).expect("a summary")).expect("JSON")
}
