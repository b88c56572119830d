//! One process with everything: gateway, enricher and table sink on the embedded log and a folder.
//!
//! Owns: the order of start and stop, the minute's housekeeping, what is ready and what has failed. Does not own: what the parts do.
//! Invariants: nothing listens before its configuration, keys and catalogue are known to be right; a drain stops the parts in the
//! order of the path, so that each finds what the one before it has left.

mod housekeeping;
mod rejects;
mod remaining;

use crate::admin::{self, Access, AdminServer};
use crate::config::{Config, EFFECTIVE_FILE};
use crate::data::{self, Admin, DataFolder};
use crate::failure::{Failure, Next};
use crate::system;
use anyhow::Context;
use forebay_enricher::Enricher;
use forebay_enricher_core::Pipeline;
use forebay_gateway::Gateway;
use forebay_schemas::topic::Topic;
use forebay_sinks::TableSink;
use forebay_stores::log::embedded::EmbeddedLog;
use forebay_stores::log::{Log, TopicPartition};
use forebay_stores::objects::folder::Folder;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use rejects::RejectPrinter;
pub use remaining::Remaining;

/// How long each part may take to finish what it has.
const DRAIN: Duration = Duration::from_secs(30);

/// Everything that is checked before anything is opened.
pub struct Plan {
    config: Config,
    pipeline: Arc<Pipeline>,
    folder: DataFolder,
}

pub struct Node {
    config: Config,
    folder: DataFolder,
    log: Arc<EmbeddedLog>,
    parts: Arc<Parts>,
    admin: AdminServer,
    housekeeping: housekeeping::Housekeeping,
    pub listen: SocketAddr,
}

/// The running parts. A stop takes them out one by one.
#[derive(Default)]
struct Parts {
    gateway: Mutex<Option<Gateway>>,
    enricher: Mutex<Option<Enricher>>,
    table: Mutex<Option<TableSink>>,
}

/// What a stop leaves on disk, one sentence each.
pub type Leftovers = Vec<String>;

impl Plan {
    /// Takes the folder, makes keys where there are none, reads keys and catalogue.
    pub fn new(config: Config) -> Result<Plan, Failure> {
        config.check_files().map_err(|e| Failure::configuration(&e))?;
        let folder =
            DataFolder::take(&config.data).or_next(|| "stop that process, or give this one a folder of its own by --data".to_owned())?;
        make_keys(&config)?;
        let pipeline = system::pipeline(&config)?;
        Ok(Plan { config, pipeline, folder })
    }

    pub async fn start(self) -> Result<Node, Failure> {
        let Plan { config, pipeline, folder } = self;
        let admin_addr = config.gateway.admin.expect("the defaults name an admin listener");
        let listener = admin::bind(admin_addr).await.or_next(|| "is another forebay running? --admin names another address".to_owned())?;
        write_effective(&folder, &config)?;
        let registry = prometheus::Registry::new();
        let log = Arc::new(open_log(&config).or_next(|| {
            "a log that another version wrote, or that is damaged, is kept as it is: give a new folder by --data".to_owned()
        })?);
        let objects = Arc::new(Folder::new(config.objects_dir()));

        let parts = Arc::new(Parts::default());
        let enricher = Enricher::start(config.enricher.clone(), pipeline.clone(), log.clone(), &config.state_dir(), &registry);
        *parts.enricher.lock() = Some(enricher.context("the enricher does not start")?);
        let table = TableSink::start(config.table.clone(), log.clone(), &registry).await;
        *parts.table.lock() = Some(table.context("the table sink does not start")?);
        data::close_to_others(&config.table.catalogue)?;
        let gateway = Gateway::start(config.gateway.clone(), config.sources.clone(), log.clone(), objects.clone(), &registry).await;
        let gateway =
            gateway.context("the gateway does not start").or_next(|| "is the port taken? --listen names another address".to_owned())?;
        let listen = gateway.addr();
        *parts.gateway.lock() = Some(gateway);

        let of_parts = parts.clone();
        let unclassified = move || {
            Ok(of_parts
                .enricher
                .lock()
                .as_ref()
                .map_or(Vec::new(), |e| e.unclassified().into_iter().map(system::unclassified_field).collect()))
        };
        let asked =
            Arc::new(system::parts(&config, log.clone(), objects, Box::new(move || Ok(pipeline.clone())), Box::new(unclassified), true));
        let addr = listener.local_addr().map_err(Failure::failed)?;
        let (token, view_token) = (Access::fresh_token()?, Access::fresh_token()?);
        let access = Access::new(&token, &view_token, addr);
        let of_parts = parts.clone();
        let admin = AdminServer::start(listener, asked, access, registry, Box::new(move || of_parts.not_ready()))?;
        let url = format!("http://{}", admin.addr);
        folder.write_admin(&Admin { url, pid: std::process::id(), token, view_token })?;
        let housekeeping = housekeeping::Housekeeping::start(config.clone(), log.clone());
        Ok(Node { config, folder, log, parts, admin, housekeeping, listen })
    }
}

impl Parts {
    fn not_ready(&self) -> Vec<String> {
        let stopped = || Some("is not running".to_owned());
        let told = [
            ("gateway", self.gateway.lock().as_ref().map_or_else(stopped, |g| g.ready().err())),
            ("enricher", self.enricher.lock().as_ref().map_or_else(stopped, |e| e.ready().err())),
            ("table sink", self.table.lock().as_ref().map_or_else(stopped, |t| t.ready().err())),
        ];
        told.into_iter().filter_map(|(part, why)| Some(format!("{part}: {}", why?))).collect()
    }
}

impl Node {
    pub fn admin_url(&self) -> String {
        format!("http://{}", self.admin.addr)
    }
    pub fn duckdb_line(&self) -> String {
        self.parts.table.lock().as_ref().map_or_else(String::new, TableSink::duckdb_line)
    }
    /// Prints each reject from now on.
    pub fn print_rejects(&self) -> Result<RejectPrinter, Failure> {
        Ok(RejectPrinter::start(self.log.clone())?)
    }

    /// A part that has given up, and why.
    pub fn failed(&self) -> Option<String> {
        let enricher = self.parts.enricher.lock().as_ref().and_then(Enricher::failed);
        let table = self.parts.table.lock().as_ref().and_then(TableSink::failed);
        enricher.map(|why| format!("the enricher has stopped: {why}")).or(table.map(|why| format!("the table sink has stopped: {why}")))
    }

    /// For whoever does not wait for the end of `drain`.
    pub fn remaining(&self) -> Remaining {
        Remaining { config: self.config.clone(), log: self.log.clone() }
    }

    /// Stops accepting, lets each part finish what the one before it left, and says what is not finished.
    pub async fn drain(self) -> Leftovers {
        let mut left = Leftovers::new();
        self.housekeeping.stop();
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
        if let Some(enricher) = enricher
            && let Ok(Err(why)) = tokio::task::spawn_blocking(move || enricher.stop()).await
        {
            left.push(format!("the enricher's last commit ({why})"));
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
        if let Err(error) = self.folder.remove_admin() {
            tracing::warn!(error = format!("{error:#}"), "admin.json stays behind");
        }
        left
    }

    /// Waits until the enricher has committed every harvested event; the number that it has not, at the deadline.
    async fn caught_up(&self) -> u64 {
        let until = Instant::now() + DRAIN;
        loop {
            let behind = behind(&*self.log, &self.config);
            if behind == 0 || Instant::now() > until || self.failed().is_some() {
                return behind;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Where the enricher has committed to in a partition of the harvested topic.
fn committed(log: &dyn Log, config: &Config, partition: i32) -> i64 {
    let lanes = i32::try_from(config.enricher.lanes).unwrap_or(i32::MAX).clamp(1, log.partitions(Topic::Harvested));
    let lane = forebay_enricher::lane_id(&config.enricher.job, partition % lanes);
    let at = TopicPartition { topic: Topic::Harvested, partition };
    log.committed(&lane, at).ok().flatten().map_or(0, |committed| committed.offset)
}

/// Events, ticks aside, that are in the log and not committed; counted up to a first batch of each partition.
fn behind(log: &dyn Log, config: &Config) -> u64 {
    let of_partition = |partition: i32| -> Option<u64> {
        let at = TopicPartition { topic: Topic::Harvested, partition };
        let bounds = log.bounds(at).ok()?;
        let from = committed(log, config, partition).max(bounds.start);
        let records = log.reader(at, from).ok()?.read_to(bounds.end, 1 << 20, 10_000).ok()?;
        Some(records.iter().filter(|record| record.value.is_some()).count() as u64)
    };
    (0..log.partitions(Topic::Harvested)).filter_map(of_partition).sum()
}

fn open_log(config: &Config) -> anyhow::Result<EmbeddedLog> {
    EmbeddedLog::open(&config.log_dir(), config.log_options())
        .with_context(|| format!("the log in {} cannot be opened", config.log_dir().display()))
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
