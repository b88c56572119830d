//! A table's thread: reads the topic that fills it, fills batches, commits them, mends what went wrong.
//!
//! Owns: the order of things and the clock by which a commit is due. Does not own: each of them (see `table`).
//! Invariants: what is read and not committed is read again after any trouble; the sink never passes over a record that
//! it cannot read or a gap in the log, it stops with the reason.

use super::batch::Batch;
use super::catalogue::Catalogue;
use super::commit::{ASK_AGAIN, Committer, Outcome};
use super::config::Config;
use super::error::SinkError;
use super::expire::{self, Keep};
use super::file::Format;
use super::metrics::{Ended, Metrics};
use super::offsets::{LogView, bounds, resume};
use super::redelivery;
use super::rows::{Row, Rows};
use super::sink::{Shared, Stop};
use super::stored::{self, Stored};
use super::warehouse::Warehouse;
use super::{compact, hint, sweep};
use forebay_schemas::limit;
use forebay_stores::log::{Bounds, Log, LogError, Reader, Record, TopicPartition};
use forebay_stores::objects::Objects;
use iceberg::spec::SnapshotRef;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SWEEP_EVERY: Duration = Duration::from_secs(3_600);
/// The longest sleep: how soon a stop is seen.
const NAP: Duration = Duration::from_millis(200);
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How often the log is asked how much is left.
const LAG_EVERY: Duration = Duration::from_secs(1);
/// After how long without a commit the offsets are kept that moved over gaps alone: else retention would some day pass
/// them, and a start would take the gaps for lost records.
const GAPS_AFTER: Duration = Duration::from_secs(3_600);

pub(super) struct Worker<R> {
    config: Config,
    log: Arc<dyn Log>,
    pub(super) warehouse: Warehouse,
    catalogue: Catalogue,
    table: Stored,
    pub(super) format: Arc<Format>,
    readers: BTreeMap<i32, Box<dyn Reader>>,
    pub(super) batch: Batch<R>,
    metrics: Metrics,
    shared: Arc<Shared>,
    last_commit: Option<Instant>,
    pub(super) opened: Instant,
    /// When the batch got its first record.
    filled_since: Option<Instant>,
    commits: usize,
    pub(super) ask_again: [Duration; 4],
    last_sweep: Option<Instant>,
    lag_told: Option<Instant>,
}

impl<R: Rows> Worker<R> {
    pub(super) fn open(
        config: Config,
        log: Arc<dyn Log>,
        objects: Arc<dyn Objects>,
        metrics: Metrics,
        shared: Arc<Shared>,
    ) -> Result<Worker<R>, SinkError> {
        let warehouse = Warehouse::open(&config.warehouse, objects, R::SHAPE)?;
        let mut catalogue = Catalogue::open(&config, R::SHAPE)?;
        let table = stored::open(&mut catalogue, &warehouse)?;
        let (format, readers, batch) = begin(&config, log.as_ref(), &table)?;
        let mut worker = Worker {
            config,
            log,
            warehouse,
            catalogue,
            table,
            format,
            readers,
            batch,
            metrics,
            shared,
            last_commit: None,
            opened: Instant::now(),
            filled_since: None,
            commits: 0,
            ask_again: ASK_AGAIN,
            last_sweep: None,
            lag_told: None,
        };
        worker.tell_readers()?;
        worker.tell_lag()?;
        tracing::info!(table = %R::SHAPE, location = %worker.table.location, "table sink started");
        Ok(worker)
    }

    /// Until it is stopped or cannot go on.
    pub(super) fn run(mut self) {
        let (mut retry, mut anew) = (RETRY_MIN, false);
        loop {
            let stop = self.shared.state().stop;
            if stop == Stop::Leave {
                return;
            }
            let begun = if anew { self.begin_again() } else { Ok(()) };
            let Err(error) = begun.and_then(|()| if stop == Stop::Drain { self.drain() } else { self.turn() }) else {
                anew = false;
                // With rows in hand it is not known yet that they can be committed.
                if retry != RETRY_MIN && self.batch.is_empty() {
                    retry = RETRY_MIN;
                    self.shared.state().trouble = None;
                }
                if stop == Stop::Drain {
                    return self.catalogue.close();
                }
                continue;
            };
            self.metrics.commit(Ended::Failed);
            if error.is_final() || stop == Stop::Drain {
                tracing::error!(table = %R::SHAPE, %error, "table sink stopped");
                self.shared.state().failed = Some(format!("{}: {error}", R::SHAPE));
                return;
            }
            tracing::warn!(table = %R::SHAPE, %error, "table sink in trouble; trying again in {retry:?}");
            self.shared.state().trouble = Some(format!("{}: {error}", R::SHAPE));
            self.rest(retry);
            (retry, anew) = ((retry * 2).min(RETRY_MAX), true);
        }
    }

    /// One look at every partition, and a commit when it is due.
    pub(super) fn turn(&mut self) -> Result<(), SinkError> {
        let read = self.pass()?;
        self.mind_gaps()?;
        if self.is_full() || (!self.batch.is_empty() && self.due_in() == Duration::ZERO) {
            self.commit()?;
        }
        if self.lag_told.is_none_or(|told| told.elapsed() >= LAG_EVERY) {
            self.tell_lag()?;
        }
        if read == 0 {
            let wait = if self.batch.is_empty() { NAP } else { NAP.min(self.due_in()) };
            self.log.wait_past(&self.positions(), wait);
        }
        Ok(())
    }

    fn mind_gaps(&mut self) -> Result<(), SinkError> {
        if self.batch.is_empty()
            && self.last_commit.unwrap_or(self.opened).elapsed() >= GAPS_AFTER
            && self.table.offsets()?.is_some_and(|kept| kept.next != self.batch.offsets().next)
        {
            self.batch.pass_over();
        }
        Ok(())
    }

    /// Everything up to the log's present end, committed.
    pub(super) fn drain(&mut self) -> Result<(), SinkError> {
        let ends = bounds(self.log.as_ref(), R::SHAPE.topic)?;
        // Where another sink commits meanwhile, some of it is read again, from a later place.
        while !(self.drain_to(&ends)? && self.commit()?) {}
        self.tell_lag()
    }

    /// `false`: a commit on the way found that the table had moved on.
    fn drain_to(&mut self, ends: &BTreeMap<i32, Bounds>) -> Result<bool, SinkError> {
        for (&partition, bounds) in ends {
            while let Some(reader) = self.readers.get_mut(&partition) {
                let records = reader.read_to(bounds.end, limit::SINK_READ_BYTES, limit::SINK_READ_RECORDS)?;
                if records.is_empty() {
                    break;
                }
                if !self.take(partition, records)? || (self.is_full() && !self.commit()?) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
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

    pub(super) fn pass(&mut self) -> Result<usize, SinkError> {
        let mut count = 0;
        for partition in self.readers.keys().copied().collect::<Vec<_>>() {
            let Some(reader) = self.readers.get_mut(&partition) else { continue };
            let records = reader.read(limit::SINK_READ_BYTES, limit::SINK_READ_RECORDS)?;
            count += records.len();
            if !self.take(partition, records)? || self.is_full() {
                break;
            }
        }
        Ok(count)
    }

    /// Puts what was just read into the batch, but for what the table has already. `false`: a commit on the way found
    /// that the table had moved on, and everything is read anew.
    fn take(&mut self, partition: i32, records: Vec<Record>) -> Result<bool, SinkError> {
        if !records.is_empty() && self.filled_since.is_none() {
            self.filled_since = Some(Instant::now());
        }
        let mut records = records.into_iter();
        for record in records.by_ref() {
            let row = read::<R>(partition, &record)?;
            if redelivery::is_suspect(&row, partition, self.batch.offsets()) {
                drop(row);
                if !self.take_suspects(partition, std::iter::once(record).chain(records).collect())? {
                    return Ok(false);
                }
                break;
            }
            self.batch.push(partition, &row, size(&record))?;
        }
        // Beyond the last record, where the log holds none: offsets have gaps.
        if let Some(reader) = self.readers.get(&partition) {
            self.batch.advance(partition, reader.position());
        }
        Ok(true)
    }

    /// The rest of a read whose first record may be in the table already.
    fn take_suspects(&mut self, partition: i32, records: Vec<Record>) -> Result<bool, SinkError> {
        let rows = records.iter().map(|record| Ok((read::<R>(partition, record)?, size(record)))).collect::<Result<Vec<_>, SinkError>>()?;
        // The table can only be asked about what is in it.
        if let Some(first) = records.first() {
            self.batch.advance(partition, first.offset);
        }
        if !self.commit()? {
            return Ok(false);
        }
        let marks: BTreeSet<_> = rows.iter().map(|(row, _)| row.mark()).collect();
        let mut known = redelivery::in_table(&marks, &self.table, &self.warehouse)?;
        let mut left_out = 0;
        for (row, bytes) in rows {
            if known.insert(row.mark()) {
                self.batch.push(partition, &row, bytes)?;
            } else {
                self.batch.pass_over();
                left_out += 1;
            }
        }
        if left_out > 0 {
            tracing::warn!(table = %R::SHAPE, partition, records = left_out, "records that the table has already were left out");
            self.metrics.redelivered(left_out);
        }
        Ok(true)
    }

    /// Commits the batch, if there is something in it. `false`: the table had moved on; everything is read anew.
    pub(super) fn commit(&mut self) -> Result<bool, SinkError> {
        if self.batch.is_empty() {
            return Ok(true);
        }
        let to = self.batch.offsets().clone();
        let next = Batch::new(self.format.clone(), Some(to.clone()), to);
        let written = std::mem::replace(&mut self.batch, next).finish(&self.warehouse)?;
        self.filled_since = None;
        let rows = written.rows;
        match self.committer().append(&written)? {
            Outcome::Committed { table, expired } => {
                self.committed(table, &expired);
                self.metrics.commit(Ended::Committed);
                self.last_commit = Some(Instant::now());
                tracing::debug!(table = %R::SHAPE, rows, location = %self.table.location, "committed");
                if self.last_sweep.is_none_or(|swept| swept.elapsed() >= SWEEP_EVERY) {
                    self.sweep();
                }
                self.commits += 1;
                if self.config.compact && self.commits.is_multiple_of(limit::SINK_SMALL_FILES) {
                    return self.rewrite();
                }
                Ok(true)
            }
            Outcome::Superseded { table } => self.superseded(table),
        }
    }

    pub(super) fn rewrite(&mut self) -> Result<bool, SinkError> {
        while let Some(change) = compact::rewrite(&self.table, &self.warehouse)? {
            match self.committer().replace(&change)? {
                Outcome::Committed { table, expired } => {
                    self.committed(table, &expired);
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
        Committer { catalogue: &mut self.catalogue, warehouse: &self.warehouse, keep, ask_again: self.ask_again, table: &self.table }
    }

    /// The table is a new one. What fails from here on leaves files or an old hint, and is mended later.
    fn committed(&mut self, table: Stored, expired: &[SnapshotRef]) {
        self.table = table;
        if let Err(error) = self.tell_readers() {
            tracing::warn!(%error, "could not write version-hint.text");
        }
        if let Err(error) = expire::clean(&self.table, expired, &self.warehouse) {
            tracing::warn!(%error, "could not remove the files of expired snapshots; a sweep will");
        }
    }

    fn superseded(&mut self, table: Stored) -> Result<bool, SinkError> {
        tracing::warn!(table = %R::SHAPE, "another sink committed to the table; going on from its offsets");
        self.metrics.commit(Ended::Superseded);
        self.committed(table, &[]);
        (self.format, self.readers, self.batch) = begin(&self.config, self.log.as_ref(), &self.table)?;
        Ok(false)
    }

    /// Drops what is in hand and goes on from what the table says.
    pub(super) fn begin_again(&mut self) -> Result<(), SinkError> {
        self.table = self.catalogue.load(&self.warehouse)?.ok_or(SinkError::Gone)?;
        self.filled_since = None;
        (self.format, self.readers, self.batch) = begin(&self.config, self.log.as_ref(), &self.table)?;
        self.tell_readers()
    }

    /// By what DuckDB finds the table as it is now.
    fn tell_readers(&self) -> Result<(), SinkError> {
        let folder = self.warehouse.table_folder().map(|folder| folder.display().to_string());
        self.shared.state().place = folder.unwrap_or_else(|| self.table.location.clone());
        hint::write(&self.table, &self.warehouse)
    }

    fn sweep(&mut self) {
        self.last_sweep = Some(Instant::now());
        match sweep::sweep(&self.table, &self.warehouse, self.config.orphan_grace(), self.catalogue.is_by_files()) {
            Ok(0) => {}
            Ok(files) => tracing::info!(files, "removed files that no snapshot names"),
            Err(error) => tracing::warn!(%error, "could not look for orphaned files"),
        }
    }

    /// How much of the log is not in the table. What was read and is no row (gaps, transaction markers) is nothing to wait
    /// for, so with nothing in hand the readers' places count.
    fn tell_lag(&mut self) -> Result<(), SinkError> {
        self.lag_told = Some(Instant::now());
        let read = self.batch.offsets();
        if self.log.topic_id(R::SHAPE.topic)? != read.topic {
            return Err(LogError::Io(format!("the {} topic was created anew", R::SHAPE.topic.word())).into());
        }
        let bounds = bounds(self.log.as_ref(), R::SHAPE.topic)?;
        let committed = if self.batch.is_empty() { read.clone() } else { self.table.offsets()?.unwrap_or_default() };
        let lag = bounds.iter().map(|(partition, bounds)| {
            let next = committed.next.get(partition).copied().unwrap_or(bounds.start);
            (bounds.end - next).max(0)
        });
        self.metrics.lag(lag.sum());
        Ok(())
    }

    fn positions(&self) -> Vec<(TopicPartition, i64)> {
        let at = |partition: i32| TopicPartition { topic: R::SHAPE.topic, partition };
        self.readers.iter().map(|(&partition, reader)| (at(partition), reader.position())).collect()
    }

    fn rest(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && self.shared.state().stop == Stop::No {
            std::thread::sleep(NAP.min(time));
        }
    }
}

type Begun<R> = (Arc<Format>, BTreeMap<i32, Box<dyn Reader>>, Batch<R>);

/// Readers and an empty batch at the offsets that the table holds.
fn begin<R: Rows>(config: &Config, log: &dyn Log, table: &Stored) -> Result<Begun<R>, SinkError> {
    let stored = table.offsets()?;
    let start = resume(stored.as_ref(), &LogView::of(log, R::SHAPE.topic)?, config.adopt_topic.as_deref())?;
    let mut readers = BTreeMap::new();
    for (&partition, &offset) in &start.next {
        readers.insert(partition, log.reader(TopicPartition { topic: R::SHAPE.topic, partition }, offset)?);
    }
    let format = Arc::new(Format::of(table, R::SHAPE)?);
    let batch = Batch::new(format.clone(), stored, start);
    Ok((format, readers, batch))
}

fn read<R: Rows>(partition: i32, record: &Record) -> Result<R::Row<'_>, SinkError> {
    let topic = R::SHAPE.topic.word();
    R::read(partition, record).map_err(|source| SinkError::Decode { topic, partition, offset: record.offset, source })
}

fn size(record: &Record) -> usize {
    record.value.as_ref().map_or(0, |value| value.len())
}
