//! One gateway: started as a whole, drained as a whole.
//!
//! Owns: the order of start and stop, the threads. Does not own: what they do.
//! Invariants: nothing is listened to before the spool is repaired and held; a drain leaves on disk only what it counts.

use crate::budget::Budget;
use crate::clock;
use crate::config::{Config, SourceConfig, validate};
use crate::error::StartError;
use crate::http::handler::App;
use crate::http::server::serve;
use crate::lander::Lander;
use crate::metrics::{self, Metrics};
use crate::publisher::cutter::Cutter;
use crate::publisher::outbox::{Outbox, Piece};
use crate::publisher::{Progress, Publisher};
use crate::sources::Sources;
use crate::spool::dir::SpoolDir;
use crate::spool::file::{Disk, Files};
use crate::spool::intake::Intake;
use crate::spool::shared::{Phase, Shared};
use crate::spool::writer::{Rules, Writer};
use bytes::Bytes;
use forebay_gateway_core::Limits;
use forebay_schemas::limit;
use forebay_schemas::quantity::Size;
use forebay_schemas::topic::Topic;
use forebay_stores::log::Log;
use forebay_stores::objects::Objects;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

pub struct Gateway {
    addr: SocketAddr,
    app: Arc<App>,
    shared: Arc<Shared>,
    outbox: Arc<Outbox>,
    dir: Arc<SpoolDir>,
    stop: watch::Sender<bool>,
    server: tokio::task::JoinHandle<()>,
    threads: Vec<JoinHandle<()>>,
}

/// What a drain leaves on disk; the next start goes on with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Leftover {
    pub segments: usize,
    pub bytes: u64,
}

/// Where the spool lies when nothing else is said.
const SPOOL_DIR: &str = "forebay-data/spool";
/// A log that takes events has them sooner.
const LATE: Duration = Duration::from_secs(10);
/// Between two looks at threads that are to end.
const LOOK: Duration = Duration::from_millis(5);

impl Gateway {
    /// Takes the spool's lock, repairs it, binds the listener and starts the threads. Without sources: the one of `dev`.
    pub async fn start(
        config: Config,
        sources: Vec<SourceConfig>,
        log: Arc<dyn Log>,
        objects: Arc<dyn Objects>,
        registry: &prometheus::Registry,
    ) -> Result<Gateway, StartError> {
        Gateway::start_on(config, sources, log, objects, registry, Arc::new(Disk)).await
    }

    pub(crate) async fn start_on(
        config: Config,
        sources: Vec<SourceConfig>,
        log: Arc<dyn Log>,
        objects: Arc<dyn Objects>,
        registry: &prometheus::Registry,
        files: Arc<dyn Files>,
    ) -> Result<Gateway, StartError> {
        let sources = if sources.is_empty() { vec![SourceConfig::dev()] } else { sources };
        validate(&config, &sources)?;
        let metrics = Metrics::new(registry)?;
        let path = config.spool.dir.clone().unwrap_or_else(|| PathBuf::from(SPOOL_DIR));
        let dir = Arc::new(SpoolDir::open(&path, files)?);
        let name = dir.gateway(config.name.as_deref()).map_err(|error| dir.error(error))?;
        let found = dir.repair().map_err(|error| dir.error(error))?;
        let listen = config.listen;
        let listener = TcpListener::bind(listen).await.map_err(|error| StartError::Listen { listen, error })?;
        let addr = listener.local_addr().map_err(|error| StartError::Listen { listen, error })?;

        let newest = found.newest;
        let received_at = newest.map_or(clock::now(), |newest| newest.received_at);
        let intake = Arc::new(Intake::new(newest.map(|newest| newest.request_id), received_at, config.limits.in_flight));
        // A share of the memory: the rest is for requests that are not durable yet.
        let handover_max = limit::HANDOVER_BYTES.min(bytes(config.limits.memory) / 4);
        let shared = Arc::new(Shared::new(found.segments, config.spool.max_bytes.0, handover_max));
        let of_spool = shared.clone();
        metrics::show_spool(registry, move || of_spool.view())?;
        let app = Arc::new(app(&config, name, sources, intake, shared.clone(), metrics));
        let (stop, stopped) = watch::channel(false);
        let server = tokio::spawn(serve(listener, app.clone(), stopped));
        let mut gateway = Gateway { addr, app, shared, outbox: Arc::default(), dir, stop, server, threads: Vec::new() };
        gateway.start_threads(&config, log, objects)?;
        Ok(gateway)
    }

    fn start_threads(&mut self, config: &Config, log: Arc<dyn Log>, objects: Arc<dyn Objects>) -> Result<(), StartError> {
        let app = &self.app;
        let rules =
            Rules { segment_bytes: config.spool.segment_bytes.0, segment_age: config.spool.segment_age.0, codec: config.spool.codec };
        let writer = Writer {
            dir: self.dir.clone(),
            intake: app.intake.clone(),
            shared: self.shared.clone(),
            gateway: app.gateway.clone(),
            rules,
            errors: app.metrics.spool_errors.clone(),
            open: None,
            records: Vec::new(),
            probe_due: Instant::now(),
        };
        let cutter = Cutter {
            dir: self.dir.clone(),
            shared: self.shared.clone(),
            outbox: self.outbox.clone(),
            partitions: log.partitions(Topic::Harvested),
            limits: app.limits,
            metrics: app.metrics.clone(),
            piece: Piece::default(),
            reader: None,
            read_failures: 0,
        };
        let publisher = Publisher {
            dir: self.dir.clone(),
            shared: self.shared.clone(),
            intake: app.intake.clone(),
            outbox: self.outbox.clone(),
            log,
            metrics: app.metrics.clone(),
            gateway: Bytes::copy_from_slice(app.gateway.as_bytes()),
            progress: Progress::default(),
        };
        let lander = Lander { dir: self.dir.clone(), shared: self.shared.clone(), objects, metrics: app.metrics.clone() };
        self.thread("forebay-spool", move || writer.run())?;
        self.thread("forebay-cut", move || cutter.run())?;
        self.thread("forebay-publish", move || publisher.run())?;
        for _ in 0..limit::LANDERS {
            let lander = lander.clone();
            self.thread("forebay-land", move || lander.run())?;
        }
        Ok(())
    }

    fn thread(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
        let started = thread::Builder::new().name(name.to_owned()).spawn(run).map_err(StartError::Thread)?;
        self.threads.push(started);
        Ok(())
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Whether the gateway may take traffic; why not, if not.
    pub fn ready(&self) -> Result<(), String> {
        if self.app.draining.load(Ordering::Relaxed) {
            return Err("the gateway is stopping".to_owned());
        }
        if let Some(dead) = self.threads.iter().find(|thread| thread.is_finished()) {
            return Err(format!("thread {} has ended", dead.thread().name().unwrap_or("?")));
        }
        self.shared.trouble().map_or(Ok(()), |trouble| Err(trouble.to_string()))
    }

    /// What an operator should know though the gateway takes traffic: what the log or the object store has not taken.
    pub fn notes(&self) -> Vec<String> {
        let (view, outage) = (self.shared.view(), self.shared.log.note());
        let behind = format!("{} bytes of the spool are not on the log, the oldest for {} s", view.behind, view.age.as_secs());
        let late = view.age >= LATE || outage.is_some();
        outage.into_iter().chain(late.then_some(behind)).chain(self.shared.objects.note()).collect()
    }

    /// Stops accepting, finishes what is in flight, seals, publishes and lands; gives up at the deadline.
    pub async fn drain(mut self, deadline: Duration) -> Leftover {
        let begun = Instant::now();
        let until = begun + deadline;
        self.app.draining.store(true, Ordering::Relaxed);
        self.shared.hasten();
        let _ = self.stop.send(true);
        // Half of the time at most: a client that dawdles must not keep the rest from the log.
        if tokio::time::timeout_at((begun + deadline / 2).into(), &mut self.server).await.is_err() {
            tracing::warn!("requests are still in flight; they are cut");
            self.server.abort();
        }
        self.app.intake.close();
        self.shared.enter(Phase::Draining);
        while !self.threads.iter().all(JoinHandle::is_finished) && Instant::now() < until {
            tokio::time::sleep(LOOK).await;
        }
        self.shared.enter(Phase::Stopped);
        self.join(STOP_WAIT);
        self.shared.reap(&self.dir);
        let (segments, bytes) = self.shared.left();
        Leftover { segments, bytes }
    }

    /// Ends the threads where they stand, as a kill would; work that does not end in time is left behind.
    fn join(&mut self, wait: Duration) {
        self.app.intake.abandon();
        self.outbox.stop();
        let until = Instant::now() + wait;
        for thread in self.threads.drain(..) {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(LOOK);
            }
            if thread.is_finished() && thread.join().is_err() {
                tracing::error!("a thread of the gateway has panicked");
            }
        }
    }
}

/// For threads that were told to stop.
const STOP_WAIT: Duration = Duration::from_secs(2);

impl Drop for Gateway {
    fn drop(&mut self) {
        self.server.abort();
        self.shared.enter(Phase::Stopped);
        self.join(STOP_WAIT);
    }
}

fn app(config: &Config, gateway: String, sources: Vec<SourceConfig>, intake: Arc<Intake>, shared: Arc<Shared>, metrics: Metrics) -> App {
    App {
        gateway,
        proxy_hops: config.proxy_hops,
        limits: limits(config),
        limits_config: config.limits.clone(),
        sources: Sources::new(sources),
        intake,
        shared,
        metrics,
        budget: Budget::new(bytes(config.limits.memory)),
        in_flight: Semaphore::new(config.limits.in_flight),
        waiting: Semaphore::new(limit::ACKS_WAITING),
        decodes: Semaphore::new(limit::DECODES),
        drains: Semaphore::new(limit::DRAINS),
        draining: AtomicBool::new(false),
    }
}

fn limits(config: &Config) -> Limits {
    Limits {
        wire_bytes: bytes(config.limits.wire_bytes),
        inflated_bytes: bytes(config.limits.inflated_bytes),
        events: config.limits.events,
        event_bytes: bytes(config.limits.event_bytes),
    }
}

fn bytes(size: Size) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}
