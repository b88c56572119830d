//! From a configuration to running lanes, and to their end: the thread that all others of an enricher hang on.
//!
//! Owns: what lanes share (the topics' ids, the rules, custody of the tasks), starting and joining the threads.
//! Does not own: a lane's life (`lane`), what the outside is told (`status`). Invariant: no lane opens before every task
//! of this process is held by its own lane, for taking over fences by name and may hit a lane of this very process.

use crate::config::{self, Config};
use crate::custody;
use crate::error::{LaneError, RecoveryError};
use crate::format::Format;
use crate::lag;
use crate::lane::{self, Plan};
use crate::layout::Layout;
use crate::metrics::Metrics;
use crate::patience::insist;
use crate::progress;
use crate::recovery::Recovery;
use crate::state::{Origin, Stores};
use crate::status::{Note, Status};
use crate::stop::Stop;
use crate::task::{self, Rules};
use forebay_enricher_core::Pipeline;
use forebay_schemas::limit;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use forebay_stores::log::{Log, LogError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

/// What an enricher is made of.
pub struct Supervisor {
    pub config: Config,
    pub layout: Layout,
    pub pipeline: Arc<Pipeline>,
    pub log: Arc<dyn Log>,
    pub stores: Arc<Stores>,
    pub metrics: Metrics,
    pub stop: Arc<Stop>,
    /// Of what comes before the lanes.
    pub status: Arc<Status>,
    /// The lanes that run here.
    pub lanes: Vec<(i32, Arc<Status>)>,
}

impl Supervisor {
    /// The thread's whole life.
    pub fn run(&self) {
        guarded(&self.status, || self.begin().map(|rules| self.run_lanes(&rules)).map_err(LaneError::while_starting));
    }

    fn run_lanes(&self, rules: &Arc<Rules>) {
        self.status.running();
        thread::scope(|scope| {
            let statuses: Vec<_> = self.lanes.iter().map(|(_, status)| status.clone()).collect();
            let watch = move || lag::watch(&*self.log, &statuses, &self.metrics, &self.stop);
            if let Err(error) = thread::Builder::new().name("lag".to_owned()).spawn_scoped(scope, watch) {
                tracing::warn!(%error, "lag is not watched");
            }
            for (lane, status) in &self.lanes {
                let plan = self.plan(*lane, status, rules);
                let id = plan.id.clone();
                let lives = move || guarded(status, || lane::run(&plan));
                if let Err(error) = thread::Builder::new().name(format!("lane-{id}")).spawn_scoped(scope, lives) {
                    status.fail(format!("thread: {error}"));
                }
            }
        });
    }

    /// What must be known, and held, before a lane can open.
    fn begin(&self) -> Result<Arc<Rules>, LaneError> {
        let rules = Arc::new(insist(&self.status, Note::Starting, &self.stop, || self.rules())?);
        let recovery = Recovery {
            rules: &rules,
            log: &*self.log,
            stores: &self.stores,
            patience: Duration::from_millis(limit::RECOVERY_WAIT_MS),
            stop: &self.stop,
            report: &|_, _| {},
        };
        let tasks: Vec<i32> = self.lanes.iter().flat_map(|(lane, _)| rules.layout.tasks(*lane)).collect();
        insist(&self.status, Note::Starting, &self.stop, || custody::take(&recovery, &tasks))?;
        Ok(rules)
    }

    fn rules(&self) -> Result<Rules, LogError> {
        let Supervisor { config, layout, pipeline, log, .. } = self;
        Ok(Rules {
            admit: pipeline.clone(),
            pipeline: pipeline.clone(),
            time: progress::Rules {
                watermark_delay_micros: config::micros(config.watermark.delay.0),
                gateway_retire_after_micros: config::micros(config.gateway_retire_after.0),
            },
            refresh_after_micros: config::micros(config.refresh_after()),
            deltas_needed_micros: config::micros(config.deltas_needed()),
            changes: config.changes.clone(),
            started_at: Micros::from(SystemTime::now()),
            window_keys: limit::WINDOW_KEYS,
            origin: Origin {
                harvested: log.topic_id(Topic::Harvested)?,
                delta: log.topic_id(Topic::Delta)?,
                partitions: layout.partitions(),
            },
            layout: layout.clone(),
            format: Format::writing(config.format),
            life: task::fresh::<8>().iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }

    fn plan(&self, lane: i32, status: &Arc<Status>, rules: &Arc<Rules>) -> Plan {
        Plan {
            id: crate::lane_id(&self.config.job, lane),
            partitions: self.layout.tasks(lane),
            commit_interval: self.config.commit_interval.0,
            idle_commit: Duration::from_millis(limit::IDLE_COMMIT_MS),
            state_bytes_max: self.config.state.max_bytes.0,
            patience: Duration::from_millis(limit::RECOVERY_WAIT_MS),
            rules: rules.clone(),
            log: self.log.clone(),
            stores: self.stores.clone(),
            metrics: self.metrics.clone(),
            status: status.clone(),
            stop: self.stop.clone(),
        }
    }
}

/// Runs a thread's life and tells how it ended.
fn guarded(status: &Status, life: impl FnOnce() -> Result<(), LaneError>) {
    match catch_unwind(AssertUnwindSafe(life)) {
        Ok(Ok(()) | Err(LaneError::Interrupted | LaneError::Recovery { error: RecoveryError::Stopped, .. })) => status.stopped(),
        Ok(Err(error)) => {
            tracing::error!(%error, "an enricher's thread stopped");
            status.fail(error.to_string());
        }
        Err(_) => status.fail(LaneError::Panicked.to_string()),
    }
}
