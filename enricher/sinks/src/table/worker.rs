//! The sink's thread: reads the trusted topic, fills batches, commits them, mends what went wrong.
//!
//! Owns: the order of things and the clock by which a commit is due. Does not own: each of them (see `table`).
//! Invariants: what is read and not committed is read again after any trouble; the sink never passes over a record that
//! it cannot read or a gap in the log, it stops with the reason.

use super::batch::Batch;
use super::catalogue::Catalogue;
use super::commit::{Committer, Outcome};
use super::config::Config;
use super::disk::{self, at};
use super::error::SinkError;
use super::expire::{self, Expired, Keep};
use super::file::Format;
use super::metrics::{Ended, Metrics};
use super::offsets::{LogView, resume};
use super::redelivery::{self, Mark};
use super::sink::{Shared, Stop};
use super::stored::{self, Stored};
use super::{NAMESPACE, TABLE, compact, hint, sweep};
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::trusted::{self, Trusted};
use forebay_stores::log::{Log, Reader, Record, TopicPartition};
use iceberg::io::FileIO;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SWEEP_EVERY: Duration = Duration::from_secs(3_600);
/// The longest sleep: how soon a stop is seen.
const NAP: Duration = Duration::from_millis(200);
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);

pub(super) struct Worker {
    config: Config,
    log: Arc<dyn Log>,
    io: FileIO,
    catalogue: Catalogue,
    table: Stored,
    pub(super) format: Arc<Format>,
    readers: BTreeMap<i32, Box<dyn Reader>>,
    pub(super) batch: Batch,
    metrics: Metrics,
    shared: Arc<Shared>,
    last_commit: Option<Instant>,
    /// When the batch got its first record.
    filled_since: Option<Instant>,
    commits: usize,
    last_sweep: Instant,
    lag_told: Option<Instant>,
}

impl Worker {
    pub(super) async fn open(config: Config, log: Arc<dyn Log>, metrics: Metrics, shared: Arc<Shared>) -> Result<Worker, SinkError> {
        disk::create_dirs(&std::path::absolute(&config.warehouse).unwrap_or_else(|_| config.warehouse.clone()))?;
        let warehouse = at(&config.warehouse, config.warehouse.canonicalize())?;
        let io = FileIO::new_with_fs();
        let mut catalogue = Catalogue::open(&config.catalogue).await?;
        let table = stored::open(&mut catalogue, &io, &warehouse).await?;
        hint::write(&table)?;
        let (format, readers, batch) = begin(&config, log.as_ref(), &table)?;
        let mut worker = Worker {
            config,
            log,
            io,
            catalogue,
            table,
            format,
            readers,
            batch,
            metrics,
            shared,
            last_commit: None,
            filled_since: None,
            commits: 0,
            last_sweep: Instant::now(),
            lag_told: None,
        };
        worker.sweep().await;
        worker.tell_lag(true)?;
        tracing::info!(table = %format!("{NAMESPACE}.{TABLE}"), location = %worker.table.location, "table sink started");
        Ok(worker)
    }

    /// The table's folder.
    pub(super) fn folder(&self) -> PathBuf {
        self.table.folder()
    }

    /// Until it is stopped or cannot go on.
    pub(super) async fn run(mut self) {
        let mut retry = RETRY_MIN;
        loop {
            let stop = self.shared.state().stop;
            let result = match stop {
                Stop::Leave => return,
                Stop::Drain => match self.drain().await {
                    Ok(()) => {
                        self.shared.state().trouble = None;
                        return self.catalogue.close().await;
                    }
                    Err(error) => Err(error),
                },
                Stop::No => self.turn().await,
            };
            let Err(error) = result else {
                if retry != RETRY_MIN {
                    retry = RETRY_MIN;
                    self.shared.state().trouble = None;
                }
                continue;
            };
            self.metrics.commit(Ended::Failed);
            if error.is_final() || stop == Stop::Drain {
                tracing::error!(%error, "table sink stopped");
                self.shared.state().failed = Some(error.to_string());
                return;
            }
            tracing::warn!(%error, "table sink in trouble; trying again in {retry:?}");
            self.shared.state().trouble = Some(error.to_string());
            self.rest(retry).await;
            retry = (retry * 2).min(RETRY_MAX);
            if let Err(error) = self.begin_again().await {
                tracing::warn!(%error, "table sink still in trouble");
                if error.is_final() {
                    self.shared.state().failed = Some(error.to_string());
                    return;
                }
            }
        }
    }

    /// One look at every partition, and a commit when it is due.
    pub(super) async fn turn(&mut self) -> Result<(), SinkError> {
        let read = self.pass().await?;
        if self.is_full() || (!self.batch.is_empty() && self.due_in() == Duration::ZERO) {
            self.commit().await?;
        }
        if self.last_sweep.elapsed() >= SWEEP_EVERY {
            self.sweep().await;
        }
        self.tell_lag(false)?;
        if read == 0 {
            let wait = if self.batch.is_empty() { NAP } else { NAP.min(self.due_in()) };
            self.log.wait_past(&self.positions(), wait);
        }
        Ok(())
    }

    /// Everything up to the log's present end, committed.
    pub(super) async fn drain(&mut self) -> Result<(), SinkError> {
        let ends = LogView::of(self.log.as_ref())?.bounds;
        while self.readers.iter().any(|(partition, reader)| reader.position() < ends.get(partition).map_or(0, |bounds| bounds.end)) {
            if self.pass().await? == 0 {
                break;
            }
            if self.is_full() {
                self.commit().await?;
            }
        }
        self.commit().await?;
        self.tell_lag(true)
    }

    fn is_full(&self) -> bool {
        self.batch.bytes() as u64 >= self.config.commit_bytes.0 || self.batch.is_wide()
    }

    /// Not sooner than an interval after the last commit; a little after the first record, so that its kin come along.
    fn due_in(&self) -> Duration {
        let interval = self.config.commit_interval.0;
        let linger = self.filled_since.map_or(Duration::ZERO, |since| (interval / 10).saturating_sub(since.elapsed()));
        let pause = self.last_commit.map_or(Duration::ZERO, |last| interval.saturating_sub(last.elapsed()));
        linger.max(pause)
    }

    pub(super) async fn pass(&mut self) -> Result<usize, SinkError> {
        let mut count = 0;
        for partition in self.readers.keys().copied().collect::<Vec<_>>() {
            let Some(reader) = self.readers.get_mut(&partition) else { continue };
            let records = reader.read(limit::SINK_READ_BYTES, limit::SINK_READ_RECORDS)?;
            let next = reader.position();
            if records.is_empty() {
                continue;
            }
            count += records.len();
            self.take(partition, records).await?;
            // A commit within `take` may have found the table changed and begun anew elsewhere.
            if self.readers.get(&partition).is_some_and(|reader| reader.position() == next) {
                self.batch.advance(partition, next);
            }
            if self.is_full() {
                break;
            }
        }
        if count > 0 && self.filled_since.is_none() {
            self.filled_since = Some(Instant::now());
        }
        Ok(count)
    }

    /// Puts records into the batch, but for those that the table has already.
    async fn take(&mut self, partition: i32, records: Vec<Record>) -> Result<(), SinkError> {
        let mut records = records.into_iter();
        for record in records.by_ref() {
            let event = decode(partition, &record)?;
            if redelivery::is_suspect(&event, partition, self.batch.offsets()) {
                return self.take_suspects(partition, event, record, records).await;
            }
            self.batch.push(partition, &event, size(&record))?;
        }
        Ok(())
    }

    /// The rest of a read whose first record may be in the table already.
    async fn take_suspects(
        &mut self,
        partition: i32,
        event: Trusted,
        record: Record,
        rest: std::vec::IntoIter<Record>,
    ) -> Result<(), SinkError> {
        let mut events = vec![(event, size(&record))];
        for record in rest {
            events.push((decode(partition, &record)?, size(&record)));
        }
        // The table can only be asked about what is in it.
        self.batch.advance(partition, record.offset);
        if !self.commit().await? {
            return Ok(());
        }
        let marks: BTreeSet<_> = events.iter().map(|(event, _)| Mark::of(event)).collect();
        let mut known = redelivery::in_table(&marks, &self.table, &self.io).await?;
        let mut left_out = 0;
        for (event, bytes) in events {
            if known.insert(Mark::of(&event)) {
                self.batch.push(partition, &event, bytes)?;
            } else {
                self.batch.pass_over();
                left_out += 1;
            }
        }
        if left_out > 0 {
            tracing::warn!(partition, records = left_out, "records that the table has already were left out");
            self.metrics.redelivered(left_out);
        }
        Ok(())
    }

    /// Commits the batch, if there is something in it. `false`: the table had moved on; everything is read anew.
    pub(super) async fn commit(&mut self) -> Result<bool, SinkError> {
        if self.batch.is_empty() {
            return Ok(true);
        }
        let to = self.batch.offsets().clone();
        let next = Batch::new(self.format.clone(), Some(to.clone()), to);
        let written = std::mem::replace(&mut self.batch, next).finish()?;
        self.filled_since = None;
        let rows = written.rows;
        match self.committer().append(&written).await? {
            Outcome::Committed { table, expired } => {
                self.committed(table, expired).await;
                self.metrics.commit(Ended::Committed);
                self.last_commit = Some(Instant::now());
                tracing::debug!(rows, location = %self.table.location, "committed");
                self.tell_lag(true)?;
                self.commits += 1;
                if self.config.compact && self.commits.is_multiple_of(limit::SINK_SMALL_FILES) {
                    return self.rewrite().await;
                }
                Ok(true)
            }
            Outcome::Superseded { table } => self.superseded(table),
        }
    }

    pub(super) async fn rewrite(&mut self) -> Result<bool, SinkError> {
        while let Some(change) = compact::rewrite(&self.table, &self.io).await? {
            match self.committer().replace(&change).await? {
                Outcome::Committed { table, expired } => {
                    self.committed(table, expired).await;
                    self.metrics.commit(Ended::Rewritten);
                }
                Outcome::Superseded { table } => return self.superseded(table),
            }
        }
        Ok(true)
    }

    pub(super) fn committer(&mut self) -> Committer<'_> {
        let keep = Keep {
            snapshots: self.config.snapshots_kept,
            age_ms: i64::try_from(self.config.snapshot_age.0.as_millis()).unwrap_or(i64::MAX),
        };
        Committer { catalogue: &mut self.catalogue, io: &self.io, keep, table: &self.table }
    }

    /// The table is a new one. What fails from here on leaves files or an old hint, and is mended later.
    async fn committed(&mut self, table: Stored, expired: Expired) {
        self.table = table;
        if let Err(error) = hint::write(&self.table) {
            tracing::warn!(%error, "could not write version-hint.text");
        }
        if let Err(error) = expire::clean(&self.table, expired, &self.io).await {
            tracing::warn!(%error, "could not remove the files of expired snapshots; a sweep will");
        }
    }

    fn superseded(&mut self, table: Stored) -> Result<bool, SinkError> {
        tracing::warn!("another sink committed to the table; going on from its offsets");
        self.metrics.commit(Ended::Superseded);
        self.table = table;
        (self.format, self.readers, self.batch) = begin(&self.config, self.log.as_ref(), &self.table)?;
        Ok(false)
    }

    /// Drops what is in hand and goes on from what the table says.
    async fn begin_again(&mut self) -> Result<(), SinkError> {
        let location = self.catalogue.location().await?.ok_or(SinkError::Gone)?;
        self.table = Stored::load(&self.io, location).await?;
        self.filled_since = None;
        (self.format, self.readers, self.batch) = begin(&self.config, self.log.as_ref(), &self.table)?;
        hint::write(&self.table)
    }

    async fn sweep(&mut self) {
        self.last_sweep = Instant::now();
        match sweep::sweep(&self.table, &self.io, self.config.orphan_grace()).await {
            Ok(0) => {}
            Ok(files) => tracing::info!(files, "removed files that no snapshot names"),
            Err(error) => tracing::warn!(%error, "could not look for orphaned files"),
        }
    }

    fn tell_lag(&mut self, now: bool) -> Result<(), SinkError> {
        if !now && self.lag_told.is_some_and(|told| told.elapsed() < Duration::from_secs(1)) {
            return Ok(());
        }
        self.lag_told = Some(Instant::now());
        let committed = self.table.offsets()?.unwrap_or_default();
        let view = LogView::of(self.log.as_ref())?;
        let lag = view.bounds.iter().map(|(partition, bounds)| {
            let next = committed.next.get(partition).copied().unwrap_or(bounds.start);
            (bounds.end - next).max(0)
        });
        self.metrics.lag(lag.sum());
        Ok(())
    }

    fn positions(&self) -> Vec<(TopicPartition, i64)> {
        let at = |partition: i32| TopicPartition { topic: Topic::Trusted, partition };
        self.readers.iter().map(|(&partition, reader)| (at(partition), reader.position())).collect()
    }

    async fn rest(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && self.shared.state().stop == Stop::No {
            tokio::time::sleep(NAP.min(time)).await;
        }
    }
}

type Begun = (Arc<Format>, BTreeMap<i32, Box<dyn Reader>>, Batch);

/// Readers and an empty batch at the offsets that the table holds.
fn begin(config: &Config, log: &dyn Log, table: &Stored) -> Result<Begun, SinkError> {
    let stored = table.offsets()?;
    let start = resume(stored.as_ref(), &LogView::of(log)?, config.adopt_topic.as_deref())?;
    let mut readers = BTreeMap::new();
    for (&partition, &offset) in &start.next {
        readers.insert(partition, log.reader(TopicPartition { topic: Topic::Trusted, partition }, offset)?);
    }
    let format = Arc::new(Format::of(table)?);
    let batch = Batch::new(format.clone(), stored, start);
    Ok((format, readers, batch))
}

fn decode(partition: i32, record: &Record) -> Result<Trusted, SinkError> {
    let value = record.value.as_deref().unwrap_or_default();
    trusted::decode(value).map_err(|source| SinkError::Decode { partition, offset: record.offset, source })
}

fn size(record: &Record) -> usize {
    record.value.as_ref().map_or(0, |value| value.len())
}
