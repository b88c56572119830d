//! The running parts: which ones are here, how each starts, what is ready and what has given up.
//!
//! Owns: the parts, the tries to start one while what it stands on is away. Does not own: what the parts do.
//! Invariant: what waits says so in `not_ready`; what was refused often enough is in `failed` and is not tried again.

use crate::admin::Registries;
use crate::config::Config;
use crate::data;
use crate::stores::Stores;
use anyhow::Context;
use forebay_enricher::Enricher;
use forebay_enricher_core::Pipeline;
use forebay_gateway::Gateway;
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use forebay_sinks::{SinkError, TableSink};
use forebay_stores::config::LogKind;
use forebay_stores::log::LogError;
use forebay_stores::log::kafka::topics::{self, Finding, Verdict};
use parking_lot::Mutex;
use prometheus::Registry;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a process may run, in the order of start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    Enricher,
    Table,
    Gateway,
}

/// What the parts are made of.
pub struct Ground {
    pub config: Config,
    pub stores: Stores,
    /// Where there is an enricher.
    pub pipeline: Option<Arc<Pipeline>>,
    pub registries: Registries,
}

pub struct Parts {
    here: Vec<Part>,
    pub gateway: Mutex<Option<Gateway>>,
    pub enricher: Mutex<Option<Enricher>>,
    pub table: Mutex<Option<TableSink>>,
    /// Why a part that is here does not run yet, or ever.
    waits: Mutex<BTreeMap<Part, Wait>>,
}

struct Wait {
    why: String,
    /// It is not tried again.
    over: bool,
}

/// A start that did not go well.
pub struct NotStarted {
    error: anyhow::Error,
    hindrance: Hindrance,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hindrance {
    /// Nobody answers: it may pass by itself.
    Away,
    /// An answer that waiting does not change, unless somebody is changing it at the moment.
    Refused,
    /// It stays.
    Stays,
}

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Part::Gateway => "gateway",
            Part::Enricher => "enricher",
            Part::Table => "table sink",
        }
    }
}

impl Parts {
    /// Places for `parts`, none of which runs yet.
    pub fn of(parts: &[Part]) -> Parts {
        let starting = |part: &Part| (*part, Wait { why: "is starting".to_owned(), over: false });
        Parts {
            here: parts.to_vec(),
            gateway: Mutex::default(),
            enricher: Mutex::default(),
            table: Mutex::default(),
            waits: Mutex::new(parts.iter().map(starting).collect()),
        }
    }

    /// One try.
    pub async fn start(&self, part: Part, ground: &Ground) -> Result<(), NotStarted> {
        let registry = Registry::new();
        match part {
            Part::Gateway => self.start_gateway(ground, &registry).await,
            Part::Enricher => self.start_enricher(ground, &registry).await,
            Part::Table => self.start_table(ground, &registry).await,
        }?;
        ground.registries.lock().push(registry);
        self.waits.lock().remove(&part);
        Ok(())
    }

    /// Tries until it goes well, or will not.
    pub async fn start_patiently(&self, part: Part, ground: &Ground) {
        let (mut refusals, mut wait) = (0, Duration::from_millis(limit::START_BACKOFF_MS_MIN));
        while let Err(NotStarted { error, hindrance }) = self.start(part, ground).await {
            let why = format!("{error:#}");
            refusals = if hindrance == Hindrance::Refused { refusals + 1 } else { 0 };
            let over = hindrance == Hindrance::Stays || refusals >= limit::START_REFUSALS;
            let before = self.waits.lock().insert(part, Wait { why: why.clone(), over });
            if over {
                return;
            }
            if before.is_none_or(|before| before.why != why) {
                tracing::warn!(part = part.name(), why, "not ready; it is tried until it is");
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_millis(limit::START_BACKOFF_MS_MAX));
        }
    }

    async fn start_gateway(&self, ground: &Ground, registry: &Registry) -> Result<(), NotStarted> {
        let Ground { config, stores, .. } = ground;
        let started =
            Gateway::start(config.gateway.clone(), config.sources.clone(), stores.log.clone(), stores.objects.clone(), registry).await;
        *self.gateway.lock() = Some(started.map_err(|error| NotStarted { error: error.into(), hindrance: Hindrance::Stays })?);
        Ok(())
    }

    /// Topics that are not as they must be are told before anything stands on them.
    async fn check_topics(&self, ground: &Ground, needed: Vec<Topic>) -> Result<(), NotStarted> {
        if ground.config.log.kind == LogKind::Embedded {
            return Ok(());
        }
        let options = ground.config.kafka_options().map_err(|error| NotStarted::stays(error.into()))?;
        let findings =
            tokio::task::spawn_blocking(move || topics::check(&options, &needed)).await.context("the topics").map_err(NotStarted::stays)?;
        let findings = findings.map_err(|error| NotStarted { hindrance: Hindrance::of(&error), error: error.into() })?;
        let told = findings.iter().find_map(|finding| {
            let Verdict::Refused(why) = finding.verdict else { return None };
            let Finding { name, setting, wanted, .. } = finding;
            Some(match &finding.found {
                None => format!("there is no topic {name}: `forebay topics apply` makes it"),
                Some(found) => format!("topic {name}: {setting} is {found} and must be {wanted}: {why}; `forebay topics check` tells all"),
            })
        });
        told.map_or(Ok(()), |why| Err(NotStarted { error: anyhow::anyhow!(why), hindrance: Hindrance::Refused }))
    }

    async fn start_enricher(&self, ground: &Ground, registry: &Registry) -> Result<(), NotStarted> {
        self.check_topics(ground, Topic::ALL.to_vec()).await?;
        let pipeline = ground.pipeline.clone().expect("made where there is an enricher");
        let (config, log, state, registry) =
            (ground.config.enricher.clone(), ground.stores.log.clone(), ground.config.state_dir(), registry.clone());
        // It asks the log, which may block.
        let started = tokio::task::spawn_blocking(move || Enricher::start(config, pipeline, log, &state, &registry)).await;
        let started = started.context("the enricher's start").map_err(NotStarted::stays)?;
        *self.enricher.lock() = Some(started.map_err(|error| {
            let hindrance = match &error {
                forebay_enricher::StartError::Log(error) => Hindrance::of(error),
                forebay_enricher::StartError::Config(_)
                | forebay_enricher::StartError::Metrics(_)
                | forebay_enricher::StartError::Thread(_) => Hindrance::Stays,
            };
            NotStarted { error: error.into(), hindrance }
        })?);
        Ok(())
    }

    async fn start_table(&self, ground: &Ground, registry: &Registry) -> Result<(), NotStarted> {
        let Ground { config, stores, .. } = ground;
        let tables = config.tables();
        self.check_topics(ground, tables.iter().map(|table| table.topic()).collect()).await?;
        let started = TableSink::start(config.table.clone(), &tables, stores.log.clone(), stores.warehouse.clone(), registry).await;
        *self.table.lock() = Some(started.map_err(|error| {
            let hindrance = match &*error.source {
                SinkError::Log(error) => Hindrance::of(error),
                error if error.is_final() => Hindrance::Stays,
                _ => Hindrance::Away,
            };
            NotStarted { error: error.into(), hindrance }
        })?);
        config.table.catalogue.file().map_or(Ok(()), data::close_to_others).map_err(NotStarted::stays)
    }

    /// Each part that cannot do its work, and why.
    pub fn not_ready(&self) -> Vec<String> {
        let why = |part: &Part| {
            let ready = match part {
                Part::Gateway => self.gateway.lock().as_ref().map(Gateway::ready),
                Part::Enricher => self.enricher.lock().as_ref().map(Enricher::ready),
                Part::Table => self.table.lock().as_ref().map(TableSink::ready),
            };
            let waits = || Err(self.waits.lock().get(part).map_or_else(|| "is not running".to_owned(), |wait| wait.why.clone()));
            Some(format!("{}: {}", part.name(), ready.unwrap_or_else(waits).err()?))
        };
        self.here.iter().filter_map(why).collect()
    }

    /// What stands in the way of the rest of the path, though the gateway acknowledges.
    pub fn notes(&self) -> Vec<String> {
        self.gateway.lock().as_ref().map_or_else(Vec::new, Gateway::notes)
    }

    /// A part that has given up, and why.
    pub fn failed(&self) -> Option<String> {
        let why = |part: &Part| {
            let failed = match part {
                // A gateway goes on acknowledging, whatever it meets.
                Part::Gateway => None,
                Part::Enricher => self.enricher.lock().as_ref().and_then(Enricher::failed),
                Part::Table => self.table.lock().as_ref().and_then(TableSink::failed),
            };
            let never_ran = || self.waits.lock().get(part).filter(|wait| wait.over).map(|wait| wait.why.clone());
            Some(format!("the {} has stopped: {}", part.name(), failed.or_else(never_ran)?))
        };
        self.here.iter().find_map(why)
    }
}

impl NotStarted {
    fn stays(error: anyhow::Error) -> NotStarted {
        NotStarted { error, hindrance: Hindrance::Stays }
    }
    pub fn into_error(self) -> anyhow::Error {
        self.error
    }
}

impl Hindrance {
    fn of(error: &LogError) -> Hindrance {
        match error {
            LogError::Io(_) => Hindrance::Away,
            LogError::Refused(_) => Hindrance::Refused,
            LogError::OffsetOutOfRange { .. } | LogError::TooLarge { .. } | LogError::Fenced(_) => Hindrance::Stays,
        }
    }
}
