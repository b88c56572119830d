//! One process: everything on the embedded log and a folder (`dev`), or one part alone (a role).
//!
//! Owns: the order of start and stop, the minute's housekeeping. Does not own: what the parts do, how one is started (`parts`).
//! Invariants: nothing listens before its configuration, keys and catalogue are known to be right; a drain stops the parts in the
//! order of the path, so that each finds what the one before it has left.

mod housekeeping;
mod parts;
mod rejects;
mod remaining;

use crate::admin::{self, Access, AdminServer, Readiness, Tokens};
use crate::config::{Config, EFFECTIVE_FILE};
use crate::data::{self, Admin, DataFolder};
use crate::failure::{Failure, Next};
use crate::read;
use crate::stores::{self, Stores};
use crate::system;
use anyhow::Context;
use forebay_enricher::Enricher;
use forebay_enricher_core::Pipeline;
use forebay_gateway::Gateway;
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use forebay_sinks::TableSink;
use forebay_stores::log::{Log, TopicPartition};
use housekeeping::Housekeeping;
use parts::{Ground, NotStarted, Parts};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

pub use parts::Part;
pub use rejects::RejectPrinter;
pub use remaining::Remaining;

/// How long each part may take to finish what it has.
const DRAIN: Duration = Duration::from_millis(limit::DRAIN_MS);

/// Everything that is checked before anything is opened.
pub struct Plan {
    config: Config,
    parts: Vec<Part>,
    pipeline: Option<Arc<Pipeline>>,
    tokens: Tokens,
    /// Held by `dev`. Roles may share a folder: what is one process's alone in it has a lock of its own.
    folder: Option<DataFolder>,
}

pub struct Node {
    config: Config,
    stores: Stores,
    parts: Arc<Parts>,
    /// Parts whose start waits for what they stand on.
    starting: Vec<JoinHandle<()>>,
    admin: AdminServer,
    folder: Option<DataFolder>,
    housekeeping: Option<Housekeeping>,
    /// Where events come in, when there is a gateway.
    pub listen: Option<SocketAddr>,
}

/// What a stop leaves on disk, one sentence each.
pub type Leftovers = Vec<String>;

impl Plan {
    /// All parts. Takes the folder, makes keys where there are none, reads keys and catalogue.
    pub fn dev(config: Config) -> Result<Plan, Failure> {
        config.check_dev().map_err(|e| Failure::configuration(&e))?;
        let folder =
            DataFolder::take(&config.data).or_next(|| "stop that process, or give this one a folder of its own by --data".to_owned())?;
        make_keys(&config)?;
        let pipeline = Some(system::pipeline(&config)?);
        let tokens = Tokens { all: Some(Access::fresh_token()?), view: Some(Access::fresh_token()?) };
        Ok(Plan { config, parts: vec![Part::Enricher, Part::Table, Part::Gateway], pipeline, tokens, folder: Some(folder) })
    }

    /// One part, in production: makes no keys, and checks only what this part reads.
    pub fn role(config: Config, part: Part) -> Result<Plan, Failure> {
        let tokens = config.check_role(part).map_err(|e| Failure::configuration(&e))?;
        let pipeline = (part == Part::Enricher).then(|| system::pipeline(&config)).transpose()?;
        Ok(Plan { config, parts: vec![part], pipeline, tokens, folder: None })
    }

    pub async fn start(self) -> Result<Node, Failure> {
        let Plan { config, parts: wanted, pipeline, tokens, folder } = self;
        let stores = stores::open(&config)?;
        // `dev` is asked where its gateway is, which is last.
        let addr = config.admin(wanted[wanted.len() - 1]);
        let listener = admin::bind(addr)
            .await
            .or_next(|| "is another forebay running? another address is named by its admin key (in `dev` by --admin)".to_owned())?;
        match &folder {
            Some(folder) => write_effective(folder, &config)?,
            None => data::make(&config.data)?,
        }
        let parts = Arc::new(Parts::of(&wanted));
        let ground =
            Arc::new(Ground { config: config.clone(), stores: stores.clone(), pipeline: pipeline.clone(), registries: Arc::default() });
        let addr = listener.local_addr().map_err(Failure::failed)?;
        let of_parts = parts.clone();
        let admin = AdminServer::start(
            listener,
            Arc::new(asked(&config, &stores, pipeline, &parts)),
            Access::new(&tokens, addr),
            ground.registries.clone(),
            Box::new(move || Readiness { reasons: of_parts.not_ready(), notes: of_parts.notes() }),
        )?;
        let mut node = Node { config, stores, parts, starting: Vec::new(), admin, folder, housekeeping: None, listen: None };
        for part in wanted {
            node.start_part(part, &ground).await?;
        }
        node.listen = node.parts.gateway.lock().as_ref().map(Gateway::addr);
        if let (Some(folder), Tokens { all: Some(token), view: Some(view_token) }) = (&node.folder, tokens) {
            folder.write_admin(&Admin { url: node.admin_url(), pid: std::process::id(), token, view_token })?;
        }
        let warehouse = node.stores.warehouse.clone();
        node.housekeeping = node.stores.embedded.clone().map(|log| Housekeeping::start(node.config.clone(), log, warehouse));
        Ok(node)
    }
}

impl Node {
    /// A gateway stands on its own disk alone, and on the embedded log nothing is ever away: those start now or not at all.
    async fn start_part(&mut self, part: Part, ground: &Arc<Ground>) -> Result<(), Failure> {
        if part != Part::Gateway && self.stores.embedded.is_none() {
            let (parts, ground) = (self.parts.clone(), ground.clone());
            self.starting.push(tokio::spawn(async move { parts.start_patiently(part, &ground).await }));
            return Ok(());
        }
        let started = self.parts.start(part, ground).await.map_err(NotStarted::into_error);
        let started = started.with_context(|| format!("the {} does not start", part.name()));
        match part {
            Part::Gateway => started.or_next(|| "is the port taken? gateway.listen (in `dev` --listen) names another address".to_owned()),
            Part::Enricher | Part::Table => Ok(started?),
        }
    }

    pub fn admin_url(&self) -> String {
        format!("http://{}", self.admin.addr)
    }
    pub fn duckdb_lines(&self) -> Vec<String> {
        self.parts.table.lock().as_ref().map_or_else(Vec::new, TableSink::duckdb_lines)
    }
    /// Prints each reject from now on.
    pub fn print_rejects(&self) -> Result<RejectPrinter, Failure> {
        Ok(RejectPrinter::start(self.stores.log.clone())?)
    }

    /// A part that has given up, and why.
    pub fn failed(&self) -> Option<String> {
        self.parts.failed()
    }

    /// For whoever does not wait for the end of `drain`.
    pub fn remaining(&self) -> Remaining {
        Remaining { config: self.config.clone(), stores: self.stores.clone() }
    }

    /// Stops accepting, lets each part finish what the one before it left, and says what is not finished.
    pub async fn drain(self) -> Leftovers {
        let mut left = Leftovers::new();
        if let Some(housekeeping) = &self.housekeeping {
            housekeeping.stop();
        }
        for starting in &self.starting {
            starting.abort();
        }
        let gateway = self.parts.gateway.lock().take();
        if let Some(gateway) = gateway {
            let leftover = gateway.drain(DRAIN).await;
            if leftover.segments > 0 {
                left.push(format!(
                    "{} spool segments ({} bytes) in {}",
                    leftover.segments,
                    leftover.bytes,
                    self.config.spool_dir().display()
                ));
            }
        }
        let waiting = self.caught_up().await;
        if waiting > 0 {
            left.push(format!("at least {waiting} events in the log in {}", self.config.log_dir().display()));
        }
        let enricher = self.parts.enricher.lock().take();
        if let Some(enricher) = enricher {
            match tokio::time::timeout(DRAIN, tokio::task::spawn_blocking(move || enricher.stop())).await {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(why))) => left.push(format!("the enricher's last commit ({why})")),
                Ok(Err(_)) | Err(_) => left.push("the enricher's last commit (it takes too long)".to_owned()),
            }
        }
        let table = self.parts.table.lock().take();
        if let Some(table) = table {
            match tokio::time::timeout(DRAIN, table.stop()).await {
                Ok(Ok(())) => {}
                Ok(Err(why)) => left.push(format!("the table's last rows ({why})")),
                Err(_) => left.push("the table's last rows (it takes too long)".to_owned()),
            }
        }
        self.admin.stop();
        if let Some(Err(error)) = self.folder.as_ref().map(DataFolder::remove_admin) {
            tracing::warn!(error = format!("{error:#}"), "admin.json stays behind");
        }
        left
    }

    /// Waits until the enricher has committed every harvested event of its own process's log; the number that it has not, at
    /// the deadline. In another's log more may come at any time.
    async fn caught_up(&self) -> u64 {
        let Some(log) = &self.stores.embedded else { return 0 };
        let until = Instant::now() + DRAIN;
        loop {
            let behind = behind(&**log, &self.config);
            if behind == 0 || Instant::now() > until || self.failed().is_some() {
                return behind;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// What `/api` answers from.
fn asked(config: &Config, stores: &Stores, pipeline: Option<Arc<Pipeline>>, parts: &Arc<Parts>) -> read::Parts {
    let (of_parts, log, of_config) = (parts.clone(), stores.log.clone(), config.clone());
    let unclassified = move || {
        let here = of_parts.enricher.lock().as_ref().map(Enricher::unclassified);
        here.map_or_else(
            || system::unclassified_in_deltas(&*log, &of_config),
            |fields| Ok(fields.into_iter().map(system::unclassified_field).collect()),
        )
    };
    let of_config = config.clone();
    let pipeline = move || pipeline.clone().map_or_else(|| system::pipeline(&of_config).map_err(Failure::into_error), Ok);
    system::parts(config, stores, Box::new(pipeline), Box::new(unclassified), true)
}

/// Where the enricher has committed to in a partition that it reads.
fn committed(log: &dyn Log, config: &Config, at: TopicPartition) -> i64 {
    let lanes = i32::try_from(config.enricher.lanes).unwrap_or(i32::MAX).clamp(1, log.partitions(Topic::Harvested));
    let lane = forebay_enricher::lane_id(&config.enricher.job, at.partition % lanes);
    log.committed(&lane, at).ok().flatten().map_or(0, |committed| committed.offset)
}

/// Events, ticks aside, that are in the log and not committed; counted up to a first batch of each partition.
fn behind(log: &dyn Log, config: &Config) -> u64 {
    let of_partition = |partition: i32| -> Option<u64> {
        let at = TopicPartition { topic: Topic::Harvested, partition };
        let bounds = log.bounds(at).ok()?;
        let from = committed(log, config, at).max(bounds.start);
        let records = log.reader(at, from).ok()?.read_to(bounds.end, 1 << 20, 10_000).ok()?;
        Some(records.iter().filter(|record| record.value.is_some()).count() as u64)
    };
    (0..log.partitions(Topic::Harvested)).filter_map(of_partition).sum()
}

/// Makes keys in `DATA/keys` where they are the ones that count, and only once: another key in the place of one that is lost
/// would change every token unseen. A folder with a log has had its keys.
fn make_keys(config: &Config) -> Result<(), Failure> {
    if config.log_dir().exists() {
        return Ok(());
    }
    let named = &config.catalog.keys;
    let ours = |file: &Option<PathBuf>| file.as_deref().is_some_and(|file| file.parent() == Some(&config.keys_dir()));
    if ours(&named.mask_file) || ours(&named.bad_public_file) {
        forebay_enricher::keys::ensure(&config.keys_dir()).context("keys cannot be made")?;
    }
    Ok(())
}

fn write_effective(folder: &DataFolder, config: &Config) -> Result<(), Failure> {
    let head = "# The settings that `forebay dev` last started with here, defaults included. Written at each start; commands that are\n# given this folder read it. To change a setting, give `dev` a file of your own by --config.\n\n";
    Ok(folder.write_private(EFFECTIVE_FILE, format!("{head}{}", config.effective_text()).as_bytes())?)
}

/// A path as people type it.
pub fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let relative = here.and_then(|here| path.strip_prefix(here).ok().map(|p| format!("./{}", p.display())));
    relative.unwrap_or_else(|| path.display().to_string())
}
