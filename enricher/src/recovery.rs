//! From what the log holds to a task that can go on: committed `seq`, local state, deltas (design §6.3, recovery.md).
//!
//! Owns: which commit counts as the last, whether local state may be used, where the chain of deltas begins, the rules
//! under which nothing, or not enough, is there. Does not own: the chain (`delta`), the stores (`state`), who may commit
//! a task (`custody`).
//! Invariants: local state newer than the log, or of another log, is not used; a missing delta, a missing input record
//! or an orphaned state stops the task, and never is anything skipped.

use crate::commit::{input, number, text};
use crate::delta::{COMMITTED, Chain};
use crate::error::RecoveryError;
use crate::progress::Progress;
use crate::seek;
use crate::seen;
use crate::state::key::{self, Uid};
use crate::state::{self, Backend, Meta, StateError, Stores};
use crate::stop::Stop;
use crate::task::Rules;
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::delta::{self, Delta, Op};
use forebay_stores::log::{Bounds, Committed, Log, LogError, Reader, Record, TopicPartition};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is looked whether what is waited for has come.
pub const POLL: Duration = Duration::from_millis(20);

/// What recovery of any task goes by.
pub struct Recovery<'a> {
    pub rules: &'a Rules,
    pub log: &'a dyn Log,
    pub stores: &'a Stores,
    /// How long to wait for what must still show itself: deltas on the log, a store that a process is about to let go.
    pub patience: Duration,
    pub stop: &'a Stop,
    /// Told how far it is: the commit reached, the commit to reach.
    pub report: &'a (dyn Fn(i64, i64) + Sync),
}

/// Where a task goes on.
pub struct Recovered {
    pub backend: Arc<dyn Backend>,
    pub seq: i64,
    pub offset: i64,
    /// At or before the next delta in its topic.
    pub deltas_from: Option<i64>,
}

/// A commit of the past.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    pub seq: i64,
    pub offset: i64,
    /// Of the layout under which it was made; versions before layouts were told did not say.
    pub lanes: Option<i32>,
}

/// The last commit of a task, and the last part of the last delta.
pub struct Standing {
    pub point: Point,
    pub last: Option<Delta>,
}

impl Recovery<'_> {
    /// The last commit. The transaction holds offset and deltas, so both tell it; an offset may be gone (groups expire,
    /// H40) or belong to a lane of before `lanes` was changed, and then the deltas alone do.
    pub fn standing(&self, task: i32, committed: &[Option<Committed>]) -> Result<Option<Standing>, RecoveryError> {
        let (last, by_delta) = match seek::last(self.log, deltas(task))? {
            None => (None, None),
            Some(record) => {
                let told = record.headers.iter().find(|(name, _)| name == COMMITTED).map(|(_, told)| told.clone());
                let delta = self.read(record)?;
                let point = match told {
                    Some(told) => self.point_of(delta.to_offset, &String::from_utf8_lossy(&told))?,
                    None => Point { seq: delta.seq, offset: delta.to_offset, lanes: None },
                };
                (Some(delta), Some(point))
            }
        };
        let mut newest = by_delta;
        for committed in committed.iter().flatten() {
            let point = self.point_of(committed.offset, &committed.metadata)?;
            match newest {
                Some(known) if known.seq == point.seq && known.offset != point.offset => {
                    return Err(RecoveryError::OffsetMoved { seq: point.seq, committed: point.offset, delta: known.offset });
                }
                Some(known) if known.seq >= point.seq => {}
                Some(_) | None => newest = Some(point),
            }
        }
        Ok(newest.map(|point| Standing { point, last }))
    }

    /// Brings the task to its last commit. `committed` is what its lane holds for it, after the lane was fenced.
    pub fn task(&self, task: i32, committed: Option<&Committed>) -> Result<Recovered, RecoveryError> {
        let standing = self.standing(task, &[committed.cloned()])?;
        let lanes = standing.as_ref().and_then(|standing| standing.point.lanes);
        let holder = self.rules.layout.holder(task, lanes);
        let Some(Standing { point: target, last }) = standing.filter(|_| holder == self.rules.layout.id(task)) else {
            return Err(RecoveryError::HeldByAnother { holder });
        };
        match committed {
            None => tracing::warn!(task, seq = target.seq, "the lane has no committed offset; taking the one of the last delta"),
            Some(committed) if committed.offset != target.offset => {
                tracing::info!(task, seq = target.seq, "another lane committed this task last; going on from its last delta");
            }
            Some(_) => {}
        }
        let Bounds { start, end } = self.log.bounds(input(task))?;
        if target.offset < start || target.offset > end {
            return Err(RecoveryError::InputGone { seq: target.seq, offset: target.offset, start, end });
        }
        let (backend, deltas_from) = self.state_at(task, target, last.as_ref())?;
        Ok(Recovered { backend, seq: target.seq, offset: target.offset, deltas_from })
    }

    fn point_of(&self, offset: i64, metadata: &str) -> Result<Point, RecoveryError> {
        let seq = number(metadata, "seq").ok_or_else(|| RecoveryError::Metadata(metadata.to_owned()))?;
        let found = self.rules.origin.partitions;
        if let Some(committed) = number(metadata, "partitions").filter(|committed| *committed != i64::from(found)) {
            return Err(RecoveryError::Partitions { committed, found });
        }
        if let Some(other) = text(metadata, "input").filter(|topic_id| *topic_id != self.rules.origin.harvested) {
            return Err(RecoveryError::OtherInput { seq, other: other.to_owned(), found: self.rules.origin.harvested.clone() });
        }
        Ok(Point { seq, offset, lanes: number(metadata, "lanes").and_then(|lanes| i32::try_from(lanes).ok()) })
    }

    /// A store that stands at `target`, and from where its deltas go on: the local one and the deltas after it, or all
    /// from deltas.
    fn state_at(&self, task: i32, target: Point, last: Option<&Delta>) -> Result<(Arc<dyn Backend>, Option<i64>), RecoveryError> {
        let why = match self.local(task, target)? {
            Local::At(backend, meta) if meta.seq == target.seq => return Ok((backend, meta.deltas_from)),
            Local::At(backend, meta) => match self.after(task, &meta, target)? {
                Some(offset) => return self.apply(task, backend, offset, meta.seq, target),
                None => "it is older than the oldest delta kept",
            },
            Local::Useless(why) => why,
        };
        tracing::info!(task, why, "local state is not used; it is rebuilt from the deltas");
        let (offset, after) = self.chain_start(task, target, last)?;
        let backend = self.stores.wipe(task)?;
        self.apply(task, backend, offset, after, target)
    }

    /// The local store, if it is of this log and not ahead of it.
    fn local(&self, task: i32, target: Point) -> Result<Local, RecoveryError> {
        let backend = match self.open(task) {
            Ok(backend) => backend,
            Err(RecoveryError::State(StateError::Format(_))) => return Ok(Local::Useless("it has another format")),
            Err(error) => return Err(error),
        };
        match backend.meta()? {
            None => Ok(Local::Useless("there is none")),
            Some(Meta { origin, .. }) if origin != self.rules.origin => Ok(Local::Useless("it is of another log")),
            Some(Meta { seq, .. }) if seq > target.seq => Ok(Local::Useless("it is ahead of the log")),
            Some(Meta { seq, offset, .. }) if seq == target.seq && offset != target.offset => {
                Err(RecoveryError::OffsetMoved { seq, committed: target.offset, delta: offset })
            }
            Some(meta) => {
                state::check_uids(&*backend)?;
                Ok(Local::At(backend, meta))
            }
        }
    }

    /// Opens the local store. A process that was just fenced may still hold it for a moment.
    pub fn open(&self, task: i32) -> Result<Arc<dyn Backend>, RecoveryError> {
        let began = Instant::now();
        loop {
            match self.stores.open(task) {
                Err(StateError::Held(_)) if began.elapsed() < self.patience => {
                    if self.stop.wait(POLL) {
                        return Err(RecoveryError::Stopped);
                    }
                }
                opened => return Ok(opened?),
            }
        }
    }

    /// An offset at or before the first delta after the commit of `meta`, if that delta is kept: the one that the store
    /// remembers, else one found backwards from the end, where a store's last flush is near. Each commit is one record
    /// and at most one marker, unless it was split or aborted.
    fn after(&self, task: i32, meta: &Meta, target: Point) -> Result<Option<i64>, RecoveryError> {
        let Bounds { start, end } = self.log.bounds(deltas(task))?;
        if let Some(from) = meta.deltas_from.filter(|from| (start..=end).contains(from)) {
            return Ok(Some(from));
        }
        let mut back = (target.seq - meta.seq).saturating_mul(2);
        loop {
            let from = end.saturating_sub(back).max(start);
            let first = self.log.reader(deltas(task), from).map_err(gone)?.read_to(end, 1, 1).map_err(gone)?.pop();
            match first.map(|record| self.read(record)).transpose()? {
                Some(first) if first.seq <= meta.seq || first.part == 0 && first.prev_seq == meta.seq => return Ok(Some(from)),
                None if from == start => return Ok(Some(from)),
                Some(_) if from == start => return Ok(None),
                Some(_) | None => {}
            }
            back = back.saturating_mul(4);
        }
    }

    /// Where a state can be built from nothing: at the first commit ever, or at the oldest delta kept if it is so old that
    /// all with a TTL has been put since, and all without one put again. Answers the offset and the commit before it.
    fn chain_start(&self, task: i32, target: Point, last: Option<&Delta>) -> Result<(i64, i64), RecoveryError> {
        let began = Instant::now();
        let (offset, first) = loop {
            match self.oldest(task)? {
                Some(found) => break found,
                None if began.elapsed() >= self.patience => return Err(RecoveryError::DeltasEnd { committed: target.seq, found: 0 }),
                None if self.stop.wait(POLL) => return Err(RecoveryError::Stopped),
                None => {}
            }
        };
        if first.prev_seq == 0 {
            return Ok((offset, 0));
        }
        let newest = last.map_or(first.clock, |last| last.clock);
        let age = newest.0.saturating_sub(first.clock.0);
        let needed = self.rules.deltas_needed_micros;
        if age < needed {
            let (age_s, needed_s) = (age / 1_000_000, needed / 1_000_000);
            return Err(RecoveryError::DeltasTooYoung { prev_seq: first.prev_seq, age_s, needed_s });
        }
        Ok((offset, first.prev_seq))
    }

    /// The first part of the oldest commit of which all is kept: retention may have taken the first parts of one.
    fn oldest(&self, task: i32) -> Result<Option<(i64, Delta)>, RecoveryError> {
        let Bounds { start, end } = self.log.bounds(deltas(task))?;
        let mut reader = self.log.reader(deltas(task), start)?;
        while let Some(record) = reader.read_to(end, 1, 1)?.pop() {
            let offset = record.offset;
            let delta = self.read(record)?;
            if delta.part == 0 {
                return Ok(Some((offset, delta)));
            }
        }
        Ok(None)
    }

    /// Applies the chain after commit `after`, read from `offset`, until the store is at `target`.
    fn apply(
        &self,
        task: i32,
        backend: Arc<dyn Backend>,
        offset: i64,
        after: i64,
        target: Point,
    ) -> Result<(Arc<dyn Backend>, Option<i64>), RecoveryError> {
        let mut chain = Chain::after(task, after, self.rules.format);
        let mut reader = self.log.reader(deltas(task), offset).map_err(gone)?;
        let (mut reached, mut waits_since, mut next) = (None, None, offset);
        while chain.seq() < target.seq {
            if self.stop.is_set() {
                return Err(RecoveryError::Stopped);
            }
            let records = self.read_on(task, &mut *reader)?;
            if records.is_empty() {
                // The marker of the last transaction may reach this partition after the one of the offsets (H23).
                if waits_since.get_or_insert_with(Instant::now).elapsed() >= self.patience {
                    return Err(RecoveryError::DeltasEnd { committed: target.seq, found: chain.seq() });
                }
                self.stop.wait(POLL);
            }
            for record in records {
                waits_since = None;
                next = record.offset + 1;
                let Some(commit) = chain.next(self.read(record)?)? else { continue };
                check_known(&commit.ops)?;
                let meta = Meta { seq: commit.seq, offset: commit.to_offset, origin: self.rules.origin.clone(), deltas_from: Some(next) };
                backend.apply(&commit.ops, &meta)?;
                reached = Some((commit.seq, commit.to_offset));
                if commit.seq >= target.seq {
                    break;
                }
            }
            (self.report)(chain.seq(), target.seq);
        }
        match reached {
            Some((seq, offset)) if seq == target.seq && offset != target.offset => {
                Err(RecoveryError::OffsetMoved { seq, committed: target.offset, delta: offset })
            }
            Some((seq, _)) if seq == target.seq => Ok((self.tidied(task, backend)?, Some(next))),
            Some(_) | None => Err(RecoveryError::DeltasEnd { committed: target.seq, found: chain.seq() }),
        }
    }

    /// The next deltas that the log shows.
    fn read_on(&self, task: i32, reader: &mut dyn Reader) -> Result<Vec<Record>, RecoveryError> {
        let end = self.log.bounds(deltas(task))?.end;
        reader.read_to(end, limit::DELTA_BYTES, limit::COMMIT_RECORDS).map_err(gone)
    }

    /// Old deltas put again what had long expired: it goes, and the work done so far survives a crash.
    fn tidied(&self, task: i32, backend: Arc<dyn Backend>) -> Result<Arc<dyn Backend>, RecoveryError> {
        let ranges = Progress::load(&*backend, self.rules.format)?.and_then(|progress| seen::unlisted(&progress));
        ranges.map_or(Ok(()), |ranges| backend.reclaim(&ranges))?;
        backend.flush()?;
        tracing::info!(task, "state recovered from deltas");
        Ok(backend)
    }

    /// A delta, if it is of this job: two jobs on the same topics would tell each event twice.
    fn read(&self, record: Record) -> Result<Delta, RecoveryError> {
        if record.key != self.rules.layout.job().as_bytes() {
            return Err(RecoveryError::OtherJob { found: String::from_utf8_lossy(&record.key).into_owned() });
        }
        Ok(delta::decode(&record.value.unwrap_or_default())?)
    }
}

fn deltas(task: i32) -> TopicPartition {
    TopicPartition { topic: Topic::Delta, partition: task }
}

/// Retention took what was about to be read.
fn gone(error: LogError) -> RecoveryError {
    match error {
        LogError::OffsetOutOfRange { offset, bounds: Bounds { start, .. }, .. } => RecoveryError::DeltasGone { offset, start },
        other => other.into(),
    }
}

/// The local store as recovery found it.
enum Local {
    At(Arc<dyn Backend>, Meta),
    Useless(&'static str),
}

fn check_known(ops: &[Op]) -> Result<(), StateError> {
    let unknown = ops.iter().filter_map(|op| key::uid_byte(&op.key)).find(|byte| Uid::from_byte(*byte).is_none());
    unknown.map_or(Ok(()), |byte| Err(StateError::UnknownUid(byte)))
}
