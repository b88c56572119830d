//! The running sink, as the one who started it sees it.
//!
//! Owns: the thread and what is told between it and its owner. Does not own: what the thread does (`worker`).

use super::config::Config;
use super::disk::at;
use super::error::SinkError;
use super::metrics::Metrics;
use super::worker::Worker;
use forebay_stores::log::Log;
use forebay_stores::objects::Objects;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The running sink.
pub struct TableSink {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
pub(super) struct Shared(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    pub stop: Stop,
    /// Why the sink stopped for good.
    pub failed: Option<String>,
    /// Why it is trying again at present.
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
    /// Opens the table, making it if there is none, and begins to fill it from the offsets that it holds. `objects` has
    /// the root of `config.warehouse`.
    pub async fn start(
        config: Config,
        log: Arc<dyn Log>,
        objects: Arc<dyn Objects>,
        registry: &prometheus::Registry,
    ) -> Result<TableSink, SinkError> {
        let metrics = Metrics::new(registry)?;
        let shared = Arc::new(Shared::default());
        let (started, opened) = tokio::sync::oneshot::channel();
        let theirs = shared.clone();
        let run = move || match Worker::open(config, log, objects, metrics, theirs) {
            Ok(worker) => {
                if started.send(Ok(())).is_ok() {
                    worker.run();
                }
            }
            Err(error) => drop(started.send(Err(error))),
        };
        // Log, object store and catalogue block: a thread of its own keeps them off the caller's runtime.
        let thread = std::thread::Builder::new().name("sink-table".into()).spawn(run);
        let thread = at(Path::new("sink-table"), thread)?;
        opened.await.map_err(|_| SinkError::Ended)??;
        Ok(TableSink { shared, thread: Some(thread) })
    }

    /// Whether rows reach the table at present; else why not.
    pub fn ready(&self) -> Result<(), String> {
        let state = self.shared.state();
        state.failed.clone().or(state.trouble.clone()).map_or(Ok(()), Err)
    }

    /// Why the sink gave up; it needs a person.
    pub fn failed(&self) -> Option<String> {
        self.shared.state().failed.clone()
    }

    /// Commits what the log holds now and ends.
    pub async fn stop(mut self) -> Result<(), String> {
        self.shared.state().stop = Stop::Drain;
        if let Some(thread) = self.thread.take() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                return Err("the table sink's thread panicked".into());
            }
        }
        self.ready()
    }

    /// The SQL by which DuckDB reads the table.
    pub fn duckdb_line(&self) -> String {
        format!("SELECT * FROM iceberg_scan('{}');", self.shared.state().place.replace('\'', "''"))
    }
}

impl Drop for TableSink {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if state.stop == Stop::No {
            state.stop = Stop::Leave;
        }
    }
}
