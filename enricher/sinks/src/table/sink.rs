//! The running sink, as the one who started it sees it.
//!
//! Owns: a thread for each table, what is told between it and its owner. Does not own: what the thread does (`worker`).

use super::config::Config;
use super::disk::at;
use super::error::{SinkError, StartError};
use super::metrics::{Families, Metrics};
use super::rows::Rows;
use super::shape::Table;
use super::shape::trusted::TrustedRows;
use super::shape::windows::WindowRows;
use super::worker::Worker;
use forebay_stores::log::Log;
use forebay_stores::objects::Objects;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The running sink: a thread for each of its tables.
pub struct TableSink {
    tables: Vec<Running>,
}

struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
pub(super) struct Shared(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    pub stop: Stop,
    /// Why the table was given up, with its name.
    pub failed: Option<String>,
    /// Why it is tried again at present, with its name.
    pub trouble: Option<String>,
    /// By what DuckDB finds the table: its folder, or in a bucket its current metadata file.
    pub place: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Stop {
    #[default]
    No,
    /// Take what the log holds now, commit it, end.
    Drain,
    /// End without a commit; the next start reads the same records.
    Leave,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TableSink {
    /// Opens each of `tables`, making those that are not there, and begins to fill them from the offsets that they hold.
    /// `objects` has the root of `config.warehouse`.
    pub async fn start(
        config: Config,
        tables: &[Table],
        log: Arc<dyn Log>,
        objects: Arc<dyn Objects>,
        registry: &prometheus::Registry,
    ) -> Result<TableSink, StartError> {
        let of = |table: Table| move |source| StartError { table: table.shape().to_string(), source: Box::new(source) };
        let mut running = Vec::new();
        let mut families = None;
        for &table in tables {
            let families = match &families {
                Some(families) => families,
                None => families.insert(Families::new(registry).map_err(of(table))?),
            };
            let ground = (config.clone(), log.clone(), objects.clone(), families.of(table.shape()));
            let started = match table {
                Table::TrustedEvents => Running::start::<TrustedRows>(ground).await,
                Table::Windows => Running::start::<WindowRows>(ground).await,
            };
            running.push(started.map_err(of(table))?);
        }
        Ok(TableSink { tables: running })
    }

    /// Whether rows reach every table at present; else why not.
    pub fn ready(&self) -> Result<(), String> {
        self.tables.iter().try_for_each(|table| {
            let state = table.shared.state();
            state.failed.clone().or(state.trouble.clone()).map_or(Ok(()), Err)
        })
    }

    /// Why a table was given up; it needs a person.
    pub fn failed(&self) -> Option<String> {
        self.tables.iter().find_map(|table| table.shared.state().failed.clone())
    }

    /// Commits what the log holds now and ends.
    pub async fn stop(mut self) -> Result<(), String> {
        self.tables.iter().for_each(|table| table.shared.state().stop = Stop::Drain);
        let threads: Vec<_> = self.tables.iter_mut().filter_map(|table| table.thread.take()).collect();
        let joined = tokio::task::spawn_blocking(|| threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count()).await;
        if !matches!(joined, Ok(0)) {
            return Err("a thread of the table sink panicked".into());
        }
        self.ready()
    }

    /// For each table the SQL by which DuckDB reads it.
    pub fn duckdb_lines(&self) -> Vec<String> {
        let line = |table: &Running| format!("SELECT * FROM iceberg_scan('{}');", table.shared.state().place.replace('\'', "''"));
        self.tables.iter().map(line).collect()
    }
}

type Ground = (Config, Arc<dyn Log>, Arc<dyn Objects>, Metrics);

impl Running {
    async fn start<R: Rows>((config, log, objects, metrics): Ground) -> Result<Running, SinkError> {
        let shared = Arc::new(Shared::default());
        let (started, opened) = tokio::sync::oneshot::channel();
        let theirs = shared.clone();
        let run = move || match Worker::<R>::open(config, log, objects, metrics, theirs) {
            Ok(worker) => {
                if started.send(Ok(())).is_ok() {
                    worker.run();
                }
            }
            Err(error) => drop(started.send(Err(error))),
        };
        // Log, object store and catalogue block: a thread of its own keeps them off the caller's runtime.
        let name = format!("sink-{}", R::SHAPE.sink);
        let thread = at(Path::new(&name), std::thread::Builder::new().name(name.clone()).spawn(run))?;
        opened.await.map_err(|_| SinkError::Ended)??;
        Ok(Running { shared, thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if state.stop == Stop::No {
            state.stop = Stop::Leave;
        }
    }
}
