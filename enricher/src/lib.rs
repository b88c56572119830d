//! The enricher's hands: threads, state on disk, transactions on the log, around the decisions of its core.
//!
//! The path of a record: `lane` reads it → `task` steps through it (core: admit → dedup → deliver; `seen`, `totals`,
//! `progress` through the `overlay`) → `delta` tells what changed → `commit` makes outputs, deltas and offset one
//! transaction → the `state` backend gets the overlay. `recovery` brings a task back to its last commit.
//! Owns: E3 to E6 of the design's laws. Does not own: what happens to an event (core), sinks, the gateway.

pub mod config;
pub mod keys;
mod recovery;
mod seek;
mod lane;
mod task;
mod guard;
mod progress;
mod seen;
mod totals;
mod overlay;
mod delta;
mod commit;
pub mod state;
pub mod find;
mod status;
mod stop;
mod metrics;
pub mod error;

pub use config::{CatalogConfig, Config, options};
pub use error::StartError;
pub use status::Field;

use crate::error::{LaneError, RecoveryError};
use crate::lane::Plan;
use crate::metrics::Metrics;
use crate::state::{Origin, Stores};
use crate::status::Status;
use crate::stop::Stop;
use crate::task::Rules;
use forebay_enricher_core::Pipeline;
use forebay_schemas::limit;
use forebay_schemas::outcome::Outcome;
use forebay_schemas::topic::Topic;
use forebay_stores::log::Log;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// All lanes of this process. Dropping it without `stop` leaves their threads running.
pub struct Enricher {
    stop: Arc<Stop>,
    lanes: Vec<Running>,
}

struct Running {
    id: String,
    status: Arc<Status>,
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
    /// Starts the lanes' threads and returns; they fence, recover and run. State lies in `state_dir/<job>`.
    pub fn start(
        config: Config,
        pipeline: Arc<Pipeline>,
        log: Arc<dyn Log>,
        state_dir: &Path,
        registry: &prometheus::Registry,
    ) -> Result<Enricher, StartError> {
        config.check()?;
        let partitions = log.partitions(Topic::Harvested);
        let origin = Origin { harvested: log.topic_id(Topic::Harvested)?, delta: log.topic_id(Topic::Delta)?, partitions };
        let metrics = Metrics::register(registry)?;
        let kind = config.backend;
        let stores = Arc::new(Stores::new(kind, &state_dir.join(&config.job), usize::try_from(partitions).unwrap_or(1)));
        let rules = Arc::new(Rules {
            admit: pipeline.clone(),
            pipeline,
            time: progress::Rules {
                watermark_delay_micros: config::micros(config.watermark.delay.0),
                gateway_retire_after_micros: config::micros(config.gateway_retire_after.0),
            },
            refresh_after_micros: config::micros(config.refresh_after()),
            origin,
            job: config.job.clone(),
            life: task::fresh::<8>().iter().map(|byte| format!("{byte:02x}")).collect(),
        });
        let stop = Arc::new(Stop::default());
        let mut lanes = Vec::new();
        for (id, partitions) in lanes_of(&config, partitions) {
            let status = Arc::new(Status::default());
            let plan = Plan {
                id: id.clone(),
                partitions,
                commit_interval: config.commit_interval.0,
                state_bytes_max: config.state.max_bytes.0,
                patience: Duration::from_millis(limit::RECOVERY_WAIT_MS),
                rules: rules.clone(),
                log: log.clone(),
                stores: stores.clone(),
                metrics: metrics.clone(),
                status: status.clone(),
                stop: stop.clone(),
            };
            match thread::Builder::new().name(format!("lane-{id}")).spawn(move || run_lane(&plan)) {
                Ok(thread) => lanes.push(Running { id, status, thread }),
                Err(error) => {
                    // Those that did start hold their lanes: let them go before telling.
                    let started = Enricher { stop, lanes };
                    let _ = started.stop();
                    return Err(error.into());
                }
            }
        }
        Ok(Enricher { stop, lanes })
    }

    /// Why not every lane works, if one does not.
    pub fn ready(&self) -> Result<(), String> {
        self.lanes.iter().try_for_each(|lane| lane.status.ready().map_err(|why| format!("lane {} {why}", lane.id)))
    }

    /// A lane that stopped with an error, and the error. It does not start again by itself.
    pub fn failed(&self) -> Option<String> {
        self.lanes.iter().find_map(|lane| Some(format!("lane {}: {}", lane.id, lane.status.failed()?)))
    }

    /// Commits what was read, flushes the state and ends the threads. Only what was not committed is left to do again.
    pub fn stop(self) -> Result<(), String> {
        self.stop.set();
        let mut failures = Vec::new();
        for lane in self.lanes {
            let joined = lane.thread.join();
            let failed = lane.status.failed().or_else(|| joined.is_err().then(|| LaneError::Panicked.to_string()));
            failures.extend(failed.map(|why| format!("lane {}: {why}", lane.id)));
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    }

    /// Outcomes by source, as committed.
    pub fn totals(&self) -> Vec<Total> {
        let mut sums: BTreeMap<(String, Outcome), u64> = BTreeMap::new();
        for (key, count) in self.lanes.iter().flat_map(|lane| lane.status.outcomes()) {
            *sums.entry(key).or_default() += count;
        }
        sums.into_iter().map(|((source, outcome), count)| Total { source, outcome, count }).collect()
    }

    /// Fields left out, as committed.
    pub fn unclassified(&self) -> Vec<UnclassifiedCount> {
        let mut sums: BTreeMap<(String, String), Field> = BTreeMap::new();
        for (key, field) in self.lanes.iter().flat_map(|lane| lane.status.unclassified()) {
            let sum = sums.entry(key).or_default();
            sum.count += field.count;
            sum.in_clear = sum.in_clear.take().or(field.in_clear);
        }
        sums.into_iter().map(|((event_type, path), field)| UnclassifiedCount { event_type, path, field }).collect()
    }
}

/// Partition p belongs to lane p % lanes; a lane without partitions is not started.
fn lanes_of(config: &Config, partitions: i32) -> impl Iterator<Item = (String, Vec<i32>)> {
    let lanes = i32::try_from(config.lanes).unwrap_or(i32::MAX).min(partitions);
    let job = config.job.clone();
    (0..lanes).map(move |lane| (lane_id(&job, lane), (lane..partitions).step_by(usize::try_from(lanes).unwrap_or(1)).collect()))
}

/// The name under which a lane commits: of its offsets and of its fence.
pub fn lane_id(job: &str, lane: i32) -> String {
    format!("{job}/{lane}")
}

fn run_lane(plan: &Plan) {
    match catch_unwind(AssertUnwindSafe(|| lane::run(plan))) {
        Ok(Ok(()) | Err(LaneError::Recovery { error: RecoveryError::Stopped, .. })) => plan.status.stopped(),
        Ok(Err(error)) => {
            tracing::error!(lane = plan.id, %error, "the lane stopped");
            plan.status.fail(error.to_string());
        }
        Err(_) => plan.status.fail(LaneError::Panicked.to_string()),
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
