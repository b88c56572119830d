//! The whole shell on the log that `dev` runs on, and its stories told from the folder it leaves.

use super::threads::{total, until};
use super::*;
use crate::find::{self, Query, Said, Story};
use crate::{Config, Enricher};
use forebay_schemas::stage::Stage;
use forebay_stores::log::embedded::{EmbeddedLog, EmbeddedOptions};

/// The outcome, and what each stage said, in one line.
fn line(story: &Story) -> String {
    let outcome = story.told.as_ref().map_or("pending", |told| told.outcome.name());
    let said = story.stages.iter().map(|(stage, said)| match said {
        Said::Passed => format!("{} ok", stage.name()),
        Said::Rejected(reject) => format!("{} {}", stage.name(), reject.reason.name()),
        Said::Duplicate => format!("{} duplicate", stage.name()),
        Said::NotReached => format!("{} -", stage.name()),
        Said::NotAsked => format!("{} ?", stage.name()),
    });
    format!("{outcome}: {}", said.collect::<Vec<_>>().join(", "))
}

#[test]
fn stories_are_told_from_a_folder_that_nobody_runs() {
    let dir = tempfile::tempdir().expect("a folder");
    let pipeline = testing::pipeline(Duration::from_secs(3600), Collision::Bad);
    let folder = dir.path().join("log");
    {
        let options = EmbeddedOptions { partitions: 2, ..EmbeddedOptions::default() };
        let log: Arc<dyn Log> = Arc::new(EmbeddedLog::open(&folder, options).expect("opens"));
        let registry = prometheus::Registry::new();
        let enricher = Enricher::start(Config::new(Kind::RocksDb), pipeline.clone(), log.clone(), &dir.path().join("state"), &registry);
        let enricher = enricher.expect("starts");
        let now = Micros::from(std::time::SystemTime::now());
        for (n, (id, body)) in (0..).zip([
            (1, Body::Fact(1)),
            (2, Body::Broken),
            (1, Body::Fact(1)),
            (3, Body::Fact(1)),
            (1, Body::Fact(2)),
            (1, Body::Fact(1)),
        ]) {
            log.append(vec![testing::event(1, id, body, now.saturating_add_micros(n))]).expect("appends");
            log.append(vec![testing::tick(1, "g", now)]).expect("appends");
        }
        until("all are counted", || enricher.totals().iter().map(|total| total.count).sum::<u64>() == 6);
        assert_eq!(total(&enricher, Outcome::Duplicate), 2);
        enricher.stop().expect("stops");
        log.append(vec![testing::event(1, 3, Body::Fact(1), now)]).expect("appends");
    }
    let log = EmbeddedLog::open_read_only(&folder).expect("opens");
    let query = |event_id| Query { event_id, source: None, from: None, to: None };
    let lines = |query| find::stories(&log, &pipeline, query).expect("reads").iter().map(line).collect::<Vec<_>>();
    assert_eq!(
        lines(query("e1")),
        [
            "trusted: decode ok, validate ok, sanitize ok, mask ok, dedup ok",
            "duplicate: decode ok, validate ok, sanitize ok, mask ok, dedup duplicate",
            "bad: decode ok, validate ok, sanitize ok, mask ok, dedup id_collision",
            "duplicate: decode ok, validate ok, sanitize ok, mask ok, dedup duplicate",
        ]
    );
    assert_eq!(lines(query("e2")), ["bad: decode malformed, validate -, sanitize -, mask -, dedup -"]);
    assert_eq!(
        lines(query("e3")),
        [
            "pending: decode ok, validate ok, sanitize ok, mask ok, dedup ?",
            "trusted: decode ok, validate ok, sanitize ok, mask ok, dedup ok",
        ]
    );
    assert!(lines(query("e4")).is_empty());
    assert!(lines(Query { source: Some("other"), ..query("e1") }).is_empty());
    let all = find::stories(&log, &pipeline, query("e1")).expect("reads");
    let second = all[1].place.event.received_at;
    assert_eq!(lines(Query { from: Some(second), to: Some(second.saturating_add_micros(1)), ..query("e1") }).len(), 1);
    assert!(all.iter().all(|story| story.stages.iter().map(|(stage, _)| *stage).eq([
        Stage::Decode,
        Stage::Validate,
        Stage::Sanitize,
        Stage::Mask,
        Stage::Dedup
    ])));
}
