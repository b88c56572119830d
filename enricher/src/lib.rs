//! The enricher's hands: threads, state on disk, transactions on the log, around the decisions of its core.
//!
//! The path of a record: `lane` reads it → `task` steps through it (core: admit → dedup → deliver; `seen`, `totals`,
//! `progress` through the `overlay`) → `delta` tells what changed → `commit` makes outputs, deltas and offset one
//! transaction → the `state` backend gets the overlay. `recovery` brings a task back to its last commit.
//! Owns: E3 to E6 of the design's laws. Does not own: what happens to an event (core), sinks, the gateway.

pub mod config;
pub mod keys;
mod layout;
mod format;
mod supervisor;
mod custody;
mod recovery;
pub mod seek;
mod lane;
mod at_once;
mod task;
mod guard;
mod progress;
mod seen;
mod totals;
mod windows;
mod overlay;
mod delta;
mod commit;
mod patience;
pub mod state;
pub mod find;
mod lag;
mod status;
mod stop;
mod metrics;
pub mod error;

pub use config::{CatalogConfig, Config, StateChanges, WindowConfig, options};
pub use error::StartError;
pub use layout::lane_id;
pub use status::Field;

use crate::config::ConfigError;
use crate::error::LaneError;
use crate::format::Format;
use crate::layout::Layout;
use crate::metrics::Metrics;
use crate::state::Stores;
use crate::status::Status;
use crate::stop::Stop;
use crate::supervisor::Supervisor;
use forebay_enricher_core::Pipeline;
use forebay_schemas::outcome::Outcome;
use forebay_schemas::topic::Topic;
use forebay_stores::log::{Log, LogError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The lanes of this process. Dropping it without `stop` leaves their threads running.
pub struct Enricher {
    stop: Arc<Stop>,
    /// Of what comes before the lanes.
    start: Arc<Status>,
    lanes: Vec<(String, Arc<Status>)>,
    thread: JoinHandle<()>,
}

/// How many harvested records of a source had an outcome, since ever.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Total {
    pub source: String,
    pub outcome: Outcome,
    pub count: u64,
}

/// How often a field was left out because nobody classified it, since ever.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnclassifiedCount {
    /// The catalogue's name.
    pub event_type: String,
    /// Known names as they are, unknown ones as shape and keyed hash.
    pub path: String,
    pub field: Field,
}

impl Enricher {
    /// Starts the lanes' threads and returns; they take their tasks over, fence, recover and run, however long the log does
    /// not answer. What the log refuses at once is an error. State lies in `state_dir/<job>`.
    pub fn start(
        config: Config,
        pipeline: Arc<Pipeline>,
        log: Arc<dyn Log>,
        state_dir: &Path,
        registry: &prometheus::Registry,
    ) -> Result<Enricher, StartError> {
        config.check()?;
        match log.topic_id(Topic::Harvested) {
            Ok(_) | Err(LogError::Io(_)) => {}
            Err(error) => return Err(StartError::Log(error)),
        }
        let layout = Layout::new(&config.job, config.lanes, log.partitions(Topic::Harvested));
        let assigned =
            |lane: &i32| config.assign.as_ref().is_none_or(|assigned| assigned.iter().any(|n| i64::from(*n) == i64::from(*lane)));
        let lanes: Vec<(i32, Arc<Status>)> = (0..layout.lanes()).filter(assigned).map(|lane| (lane, Arc::default())).collect();
        if lanes.is_empty() {
            return Err(ConfigError { key: "enricher.assign", what: "there are fewer partitions: none is left for these lanes" }.into());
        }
        let tasks = lanes.iter().map(|(lane, _)| layout.tasks(*lane).len()).sum();
        let stores = Stores::new(config.backend, &state_dir.join(&config.job), tasks, Format::writing(config.format));
        let (stop, start) = (Arc::<Stop>::default(), Arc::<Status>::default());
        let told = lanes.iter().map(|(lane, status)| (lane_id(&config.job, *lane), status.clone())).collect();
        let supervisor = Supervisor {
            config,
            layout,
            pipeline,
            log,
            stores: Arc::new(stores),
            metrics: Metrics::register(registry)?,
            stop: stop.clone(),
            status: start.clone(),
            lanes,
        };
        let thread = thread::Builder::new().name("enricher".to_owned()).spawn(move || supervisor.run())?;
        Ok(Enricher { stop, start, lanes: told, thread })
    }

    /// Why not every lane works, if one does not.
    pub fn ready(&self) -> Result<(), String> {
        self.start.ready()?;
        self.lanes.iter().try_for_each(|(id, status)| status.ready().map_err(|why| format!("lane {id} {why}")))
    }

    /// What stopped with an error, and the error. It does not start again by itself.
    pub fn failed(&self) -> Option<String> {
        self.start.failed().or_else(|| self.lanes.iter().find_map(|(id, status)| Some(format!("lane {id}: {}", status.failed()?))))
    }

    /// Commits what was read, flushes the state and ends the threads. Only what was not committed is left to do again.
    pub fn stop(self) -> Result<(), String> {
        self.stop.set();
        let panicked = self.thread.join().is_err().then(|| LaneError::Panicked.to_string());
        let of_lanes = self.lanes.iter().filter_map(|(id, status)| Some(format!("lane {id}: {}", status.failed()?)));
        let failures: Vec<String> = self.start.failed().into_iter().chain(of_lanes).chain(panicked).collect();
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    }

    /// Outcomes by source, as committed.
    pub fn totals(&self) -> Vec<Total> {
        let mut sums: BTreeMap<(String, Outcome), u64> = BTreeMap::new();
        for (key, count) in self.lanes.iter().flat_map(|(_, status)| status.outcomes()) {
            *sums.entry(key).or_default() += count;
        }
        sums.into_iter().map(|((source, outcome), count)| Total { source, outcome, count }).collect()
    }

    /// Fields left out, as committed.
    pub fn unclassified(&self) -> Vec<UnclassifiedCount> {
        let mut sums: BTreeMap<(String, String), Field> = BTreeMap::new();
        for (key, field) in self.lanes.iter().flat_map(|(_, status)| status.unclassified()) {
            let sum = sums.entry(key).or_default();
            sum.count += field.count;
            sum.in_clear = sum.in_clear.take().or(field.in_clear);
        }
        sums.into_iter().map(|((event_type, path), field)| UnclassifiedCount { event_type, path, field }).collect()
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
