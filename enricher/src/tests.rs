//! The transaction under faults and crashes, against an obvious model of what each record must have become.
//!
//! A `World` has a log that fails on demand and a state folder that outlives its lives; a `Life` is what a process is
//! between a start and a crash, driven here one turn after another, without threads.

mod embedded;
mod faults;
mod formats;
mod garbage;
mod kafka;
mod lanes;
mod outage;
mod recovery;
mod threads;
mod time;
mod ttl;
mod windows;

use crate::commit::Committer;
use crate::config::StateChanges;
use crate::custody;
use crate::error::LaneError;
use crate::format::Format;
use crate::lane::{self, Plan};
use crate::metrics::Metrics;
use crate::recovery::Recovery;
use crate::state::{Kind, Stores};
use crate::status::Status;
use crate::stop::Stop;
use crate::task::{Cut, Rules, Task};
use crate::testing::{self, Body, FakeLog, SOURCE};
use forebay_enricher_core::{Collision, Pipeline};
use forebay_schemas::limit;
use forebay_schemas::outcome::Outcome;
use forebay_schemas::reason::Reason;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::{bad, trusted};
use forebay_stores::log::{Log, Reader};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const PARTITIONS: i32 = 2;
const LANE: &str = "job/0";

/// How the next life begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Restart {
    /// State on disk as a kill leaves it.
    Killed,
    /// State on disk as a graceful stop leaves it.
    Stopped,
    /// No state on disk.
    FromDeltas,
}

impl Restart {
    const ALL: [Restart; 3] = [Restart::Killed, Restart::Stopped, Restart::FromDeltas];
}

struct World {
    log: FakeLog,
    kind: Kind,
    pipeline: Arc<Pipeline>,
    refresh_after: Duration,
    changes: StateChanges,
    window_keys: usize,
    format: Format,
    /// Before the folder: dropped first, as closing a store writes into it.
    life: Option<Life>,
    dir: tempfile::TempDir,
    models: Vec<Model>,
}

/// One lane, as a process runs it.
struct Life {
    tasks: Vec<(Task, Box<dyn Reader>)>,
    /// Of the repartition topic, by task.
    partials: Vec<Option<Box<dyn Reader>>>,
    committer: Committer,
}

impl World {
    fn new(kind: Kind, pipeline: Arc<Pipeline>) -> World {
        World::of(kind, pipeline, PARTITIONS)
    }

    fn of(kind: Kind, pipeline: Arc<Pipeline>, partitions: i32) -> World {
        let ttl = pipeline.options().dedup_ttl_micros;
        let collision = pipeline.options().collision;
        World {
            log: FakeLog::new(partitions),
            kind,
            pipeline,
            refresh_after: Duration::from_secs(10),
            changes: StateChanges::default(),
            window_keys: limit::WINDOW_KEYS,
            format: Format::writing(Format::DEFAULT),
            dir: tempfile::tempdir().expect("a folder"),
            life: None,
            models: (0..partitions).map(|_| Model::new(ttl, collision)).collect(),
        }
    }

    /// Appends an event to partition 0 or 1 and tells the model.
    fn event(&mut self, partition: i32, id: u32, body: Body, received_ago: Duration) {
        let now = self.log.now();
        let received_at = now.saturating_add_micros(-(received_ago.as_micros() as i64));
        let at = forebay_stores::log::TopicPartition { topic: Topic::Harvested, partition };
        let offset = self.log.bounds(at).expect("fake").end;
        self.log.append(vec![testing::event(partition, id, body, received_at)]).expect("fake");
        self.models[partition as usize].event(offset, now, id, body, received_at);
    }

    fn tick(&mut self, partition: i32, gateway: &str) {
        let now = self.log.now();
        self.log.append(vec![testing::tick(partition, gateway, now)]).expect("fake");
        self.models[partition as usize].advance(now, Some(now));
    }

    fn plan(&self) -> Plan {
        self.plan_of(1, 0)
    }

    /// Of one lane under a layout.
    fn plan_of(&self, lanes: u32, lane: i32) -> Plan {
        let rules = testing::rules(&self.log, self.pipeline.clone(), self.refresh_after, lanes, self.format);
        let rules = Arc::new(Rules { changes: self.changes.clone(), window_keys: self.window_keys, ..rules });
        Plan {
            id: crate::lane_id(testing::JOB, lane),
            partitions: rules.layout.tasks(lane),
            commit_interval: Duration::from_millis(1),
            idle_commit: Duration::from_secs(3600),
            state_bytes_max: u64::MAX,
            patience: Duration::from_millis(1),
            rules,
            log: Arc::new(self.log.clone()),
            stores: Arc::new(Stores::new(self.kind, self.dir.path(), 2, self.format)),
            metrics: Metrics::register(&prometheus::Registry::new()).expect("registers"),
            status: Arc::new(Status::default()),
            stop: Arc::new(Stop::default()),
        }
    }

    fn start(&mut self) -> Result<(), LaneError> {
        let plan = self.plan();
        take(&plan)?;
        self.life = Some(Life::of(&plan)?);
        Ok(())
    }

    fn end(&mut self, how: Restart) {
        let next = tempfile::tempdir().expect("a folder");
        match how {
            Restart::Killed => crate::state::tests::copy(self.dir.path(), next.path()),
            Restart::Stopped | Restart::FromDeltas => {}
        }
        self.life = None;
        match how {
            Restart::Killed | Restart::FromDeltas => self.dir = next,
            Restart::Stopped => {}
        }
    }

    fn life(&mut self) -> &mut Life {
        self.life.as_mut().expect("started")
    }

    /// Turns until nothing is left to read.
    fn run(&mut self) -> Result<(), LaneError> {
        while self.life().turn(100)? {}
        Ok(())
    }

    /// Everything fed has become what the model says, in order, and is counted.
    fn check(&self, what: &str) {
        let life = self.life.as_ref().expect("started");
        for ((partition, model), (task, _)) in (0..).zip(&self.models).zip(&life.tasks) {
            assert_eq!(self.trusted(partition), model.trusted, "{what}: trusted of {partition}");
            assert_eq!(self.bad(partition), model.bad, "{what}: bad of {partition}");
            let everything = task.totals().everything();
            let outcomes: BTreeMap<(String, Outcome), u64> =
                everything.outcomes.into_iter().map(|(source, outcome, count)| ((source, outcome), count)).collect();
            assert_eq!(outcomes, model.totals, "{what}: totals of {partition}");
            assert_eq!(everything.unclassified.iter().map(|field| field.count).sum::<u64>(), model.odd, "{what}: fields of {partition}");
            assert_eq!(task.progress().clock, model.clock, "{what}: clock of {partition}");
        }
    }

    /// (input offset, its own id) of what is trusted.
    fn trusted(&self, partition: i32) -> Vec<(i64, String)> {
        let records = self.log.records(Topic::Trusted, partition).into_iter();
        records
            .map(|record| {
                let value = record.value.expect("has a value");
                let event = trusted::decode(&value).expect("decodes");
                assert_eq!(record.key, event.event_id.as_str());
                assert_eq!(event.provenance.partition, partition);
                (event.provenance.offset, event.original_event_id.as_deref().unwrap_or(event.event_id.as_str()).to_owned())
            })
            .collect()
    }

    fn bad(&self, partition: i32) -> Vec<(i64, Reason)> {
        let records = self.log.records(Topic::Bad, partition).into_iter();
        records
            .map(|record| bad::decode(&record.value.expect("has a value")).expect("decodes").clear)
            .map(|clear| (clear.provenance.offset, clear.reason))
            .collect()
    }
}

/// Custody of the plan's tasks.
fn take(plan: &Plan) -> Result<(), LaneError> {
    let Plan { rules, log, stores, stop, .. } = plan;
    let recovery = Recovery { rules, log: &**log, stores, patience: plan.patience, stop, report: &|_, _| {} };
    custody::take(&recovery, &plan.partitions)
}

impl Life {
    fn of(plan: &Plan) -> Result<Life, LaneError> {
        let (tasks, committer) = lane::recover(plan)?;
        let (tasks, partials) = tasks.into_iter().map(|ready| ((ready.task, ready.reader), ready.partials)).unzip();
        Ok(Life { tasks, partials, committer })
    }

    /// One commit of up to `records` of each task. False when there was nothing.
    fn turn(&mut self, records: usize) -> Result<bool, LaneError> {
        self.read(records)?;
        let cuts = self.cut();
        if cuts.is_empty() {
            return Ok(false);
        }
        self.commit(cuts).map(|()| true)
    }

    /// Two commits, the second filled while the first is in flight.
    fn two_turns(&mut self, records: usize) -> Result<(), LaneError> {
        self.read(records)?;
        let first = self.cut();
        self.read(records)?;
        self.commit(first)?;
        let second = self.cut();
        self.commit(second)
    }

    fn read(&mut self, records: usize) -> Result<(), LaneError> {
        for ((task, reader), partials) in self.tasks.iter_mut().zip(&mut self.partials) {
            let state = |task: &Task, error| LaneError::State { task: task.partition(), error };
            task.work().map_err(|error| state(task, error))?;
            if let Some(partials) = partials.as_mut().filter(|_| !task.is_behind()) {
                let records = partials.read(usize::MAX, records)?;
                task.take_partials(records).map_err(|error| state(task, error))?;
            }
            if !task.is_behind() {
                let records = reader.read(usize::MAX, records)?;
                task.take(records).map_err(|error| state(task, error))?;
            }
        }
        Ok(())
    }

    fn cut(&mut self) -> Vec<Cut> {
        self.tasks
            .iter_mut()
            .filter(|(task, _)| task.pending().records + task.pending().events > 0)
            .map(|(task, _)| task.cut().expect("sound state"))
            .collect()
    }

    fn commit(&mut self, cuts: Vec<Cut>) -> Result<(), LaneError> {
        if cuts.is_empty() {
            return Ok(());
        }
        for cut in self.committer.commit(cuts)? {
            let (task, _) = self.tasks.iter_mut().find(|(task, _)| task.partition() == cut.partition).expect("its own");
            task.settled();
        }
        Ok(())
    }
}

/// What one task must do, said as simply as possible.
struct Model {
    ttl: i64,
    collision: Collision,
    clock: Micros,
    newest_told: Micros,
    /// Id → fact and first sight.
    seen: BTreeMap<String, (u32, Micros)>,
    trusted: Vec<(i64, String)>,
    bad: Vec<(i64, Reason)>,
    totals: BTreeMap<(String, Outcome), u64>,
    odd: u64,
}

impl Model {
    fn new(ttl: i64, collision: Collision) -> Model {
        let never = crate::progress::NEVER;
        Model {
            ttl,
            collision,
            clock: never,
            newest_told: never,
            seen: BTreeMap::new(),
            trusted: Vec::new(),
            bad: Vec::new(),
            totals: BTreeMap::new(),
            odd: 0,
        }
    }

    fn advance(&mut self, timestamp: Micros, told: Option<Micros>) {
        self.newest_told = self.newest_told.max(told.unwrap_or(self.newest_told));
        let ahead = self.newest_told.saturating_add_micros(limit::CLOCK_AHEAD_MS * 1_000);
        self.clock = self.clock.max(timestamp.min(ahead));
    }

    fn event(&mut self, offset: i64, timestamp: Micros, id: u32, body: Body, received_at: Micros) {
        self.advance(timestamp, (body != Body::Foreign).then_some(received_at));
        let id = testing::event_id(id);
        let outcome = match body {
            Body::Broken => Outcome::Bad(Reason::Malformed),
            Body::Poison => Outcome::Bad(Reason::ProcessingPanic),
            Body::Foreign => Outcome::Bad(Reason::Unreadable),
            Body::Fact(fact) => self.unique(&id, fact),
            Body::Odd(fact) => self.unique(&id, 1_000 + fact),
        };
        match outcome {
            Outcome::Trusted => {
                self.trusted.push((offset, id));
                self.odd += u64::from(matches!(body, Body::Odd(_)));
            }
            Outcome::Duplicate => {}
            Outcome::Bad(reason) => self.bad.push((offset, reason)),
        }
        let source = if body == Body::Foreign { "unknown" } else { SOURCE };
        *self.totals.entry((source.to_owned(), outcome)).or_default() += 1;
    }

    fn unique(&mut self, id: &str, fact: u32) -> Outcome {
        match self.dedup(id, fact) {
            Outcome::Bad(Reason::IdCollision) if self.collision == Collision::Rekey => self.dedup(&format!("{id}/{fact}"), fact),
            outcome => outcome,
        }
    }

    fn dedup(&mut self, id: &str, fact: u32) -> Outcome {
        match self.seen.get(id) {
            Some((known, at)) if self.clock.0 - at.0 < self.ttl => {
                if *known == fact {
                    Outcome::Duplicate
                } else {
                    Outcome::Bad(Reason::IdCollision)
                }
            }
            Some(_) | None => {
                self.seen.insert(id.to_owned(), (fact, self.clock));
                Outcome::Trusted
            }
        }
    }
}
