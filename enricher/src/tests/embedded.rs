//! The whole shell on the log that `dev` runs on, and its stories told from the folder it leaves.

use super::threads::{total, until};
use super::*;
use crate::find::{self, Query, Said, Story};
use crate::{Config, Enricher};
use forebay_enricher_core::{Options, UnclassifiedPolicy};
use forebay_schemas::stage::Stage;
use forebay_stores::log::TopicPartition;
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

/// What two pipelines say of the same events, the second of which has other options.
#[test]
fn what_was_decided_stands_and_what_changed_is_said_beside_it() {
    let of = |unclassified| testing::pipeline_with(Options { unclassified, ..Options::default() });
    for (decides, looks, outcome, today) in [
        (
            UnclassifiedPolicy::Omit,
            UnclassifiedPolicy::Reject,
            "trusted: decode ok, validate ok, sanitize ok, mask ok, dedup ok",
            "rejected unclassified_field",
        ),
        (
            UnclassifiedPolicy::Reject,
            UnclassifiedPolicy::Omit,
            "bad: decode ok, validate ok, sanitize ok, mask unclassified_field, dedup -",
            "passed",
        ),
    ] {
        let dir = tempfile::tempdir().expect("a folder");
        let options = EmbeddedOptions { partitions: 1, ..EmbeddedOptions::default() };
        let log: Arc<dyn Log> = Arc::new(EmbeddedLog::open(dir.path(), options).expect("opens"));
        let (decider, looker) = (of(decides), of(looks));
        let registry = prometheus::Registry::new();
        let enricher = Enricher::start(Config::new(Kind::Memory), decider.clone(), log.clone(), &dir.path().join("state"), &registry);
        let enricher = enricher.expect("starts");
        let now = Micros::from(std::time::SystemTime::now());
        log.append(vec![testing::event(0, 1, Body::Odd(1), now), testing::event(0, 2, Body::Fact(1), now), testing::tick(0, "g", now)])
            .expect("appends");
        until("all are counted", || enricher.totals().iter().map(|total| total.count).sum::<u64>() == 2);
        let unnamed = enricher.unclassified().into_iter().map(|field| (field.event_type, field.path)).collect::<Vec<_>>();
        enricher.stop().expect("stops");
        let mut trusted = log.reader(TopicPartition { topic: Topic::Trusted, partition: 0 }, 0).expect("reads");
        for record in trusted.read(usize::MAX, 10).expect("reads") {
            let value = record.value.expect("has a value");
            let event = trusted::decode(&value).expect("decodes");
            assert_eq!(event.provenance.pipeline, decider.fingerprint(), "it says who decided");
        }

        let told = |pipeline, event_id| {
            let stories = find::stories(&*log, pipeline, Query { event_id, source: None, from: None, to: None }).expect("reads");
            let today = stories[0].today.as_ref().map(|said| match said {
                Said::Passed => "passed".to_owned(),
                Said::Rejected(reject) => format!("rejected {}", reject.reason.name()),
                other => format!("{other:?}"),
            });
            (line(&stories[0]), today)
        };
        assert_eq!(told(&looker, "e1"), (outcome.to_owned(), Some(today.to_owned())));
        assert_eq!(told(&decider, "e1"), (outcome.to_owned(), None));
        assert_eq!(told(&looker, "e2").1, None, "the same verdict");

        // A name that only its keyed hash is kept of is found again in the event that brought it.
        let names = find::unknown_names(&*log, &decider, unnamed.clone()).expect("reads");
        match decides {
            UnclassifiedPolicy::Omit => assert!(unnamed[0].1.contains('{') && names[&unnamed[0]].ends_with("odd key"), "{names:?}"),
            UnclassifiedPolicy::Reject => assert!(unnamed.is_empty() && names.is_empty(), "a reject's fields are not counted"),
        }
        let none = find::unknown_names(&*log, &decider, vec![("page_viewed".to_owned(), "{8a#00}".to_owned())]).expect("reads");
        assert!(none.is_empty());
    }
}
