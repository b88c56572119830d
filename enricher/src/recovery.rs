//! From what the log holds to a task that can go on: committed `seq`, local state, deltas (design §6.3, recovery.md).
//!
//! Owns: which commit counts as the last, whether local state may be used, where the chain of deltas begins, the rules
//! under which nothing, or not enough, is there. Does not own: the chain (`delta`), the stores (`state`).
//! Invariants: local state newer than the log, or of another log, is not used; a missing delta, a missing input record
//! or an orphaned state stops the task, and never is anything skipped.

use crate::commit::{field, input};
use crate::delta::Chain;
use crate::error::RecoveryError;
use crate::progress::Progress;
use crate::seek;
use crate::seen;
use crate::state::key::{self, Uid};
use crate::state::{self, Backend, Meta, Origin, StateError, Stores};
use crate::stop::Stop;
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::delta::{self, Delta, Op};
use forebay_stores::log::{Bounds, Committed, Log, Record, TopicPartition};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the end of the deltas is looked at while they are waited for.
const POLL: Duration = Duration::from_millis(100);

/// What recovery of any task goes by.
pub struct Recovery<'a> {
    pub job: &'a str,
    pub log: &'a dyn Log,
    pub stores: &'a Stores,
    pub origin: &'a Origin,
    pub dedup_ttl_micros: i64,
    pub refresh_after_micros: i64,
    /// How long to wait for deltas that the log must still show.
    pub patience: Duration,
    pub stop: &'a Stop,
    /// Told how far it is: the commit reached, the commit to reach.
    pub report: &'a dyn Fn(i64, i64),
}

/// Where a task goes on.
pub struct Recovered {
    pub backend: Arc<dyn Backend>,
    pub seq: i64,
    pub offset: i64,
}

/// A commit of the past.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Point {
    seq: i64,
    offset: i64,
}

impl Recovery<'_> {
    /// `committed` is what the fenced lane holds for this task.
    pub fn task(&self, task: i32, committed: Option<&Committed>) -> Result<Recovered, RecoveryError> {
        let deltas = TopicPartition { topic: Topic::Delta, partition: task };
        let last = seek::last(self.log, deltas)?;
        let last = last.map(|record| self.read(record)).transpose()?;
        let input_bounds = self.log.bounds(input(task))?;
        let Some(target) = self.target(task, committed, last.as_ref())? else {
            let backend = self.stores.open(task)?;
            if let Some(Meta { seq, .. }) = backend.meta()? {
                return Err(RecoveryError::Orphan { seq });
            }
            if input_bounds.start > 0 {
                tracing::warn!(task, start = input_bounds.start, "nothing is committed; beginning at the oldest record that is kept");
            }
            return Ok(Recovered { backend, seq: 0, offset: input_bounds.start });
        };
        let Bounds { start, end } = input_bounds;
        if target.offset < start || target.offset > end {
            return Err(RecoveryError::InputGone { seq: target.seq, offset: target.offset, start, end });
        }
        let backend = self.state_at(task, target, deltas, last.as_ref())?;
        Ok(Recovered { backend, seq: target.seq, offset: target.offset })
    }

    /// The last commit. The transaction holds offset and deltas, so both tell it; the offset may be gone (groups expire,
    /// H40) or belong to a lane of before `lanes` was changed, and then the deltas alone do.
    fn target(&self, task: i32, committed: Option<&Committed>, last: Option<&Delta>) -> Result<Option<Point>, RecoveryError> {
        let by_offset = committed.map(|committed| self.point_of(committed)).transpose()?;
        let by_delta = last.map(|delta| Point { seq: delta.seq, offset: delta.to_offset });
        if let (None, Some(point)) = (by_offset, by_delta) {
            tracing::warn!(task, seq = point.seq, "no committed offset; taking the one of the last delta");
        }
        if let (Some(offset), Some(delta)) = (by_offset, by_delta) {
            if delta.seq > offset.seq {
                tracing::warn!(task, seq = delta.seq, "another lane committed this task last; going on from its last delta");
            }
            if delta.seq == offset.seq && delta.offset != offset.offset {
                return Err(RecoveryError::OffsetMoved { seq: offset.seq, committed: offset.offset, delta: delta.offset });
            }
        }
        Ok([by_offset, by_delta].into_iter().flatten().max_by_key(|point| point.seq))
    }

    fn point_of(&self, committed: &Committed) -> Result<Point, RecoveryError> {
        let metadata = &committed.metadata;
        let seq = field(metadata, "seq").ok_or_else(|| RecoveryError::Metadata(metadata.clone()))?;
        match field(metadata, "partitions") {
            Some(partitions) if partitions != i64::from(self.origin.partitions) => {
                Err(RecoveryError::Partitions { committed: partitions, found: self.origin.partitions })
            }
            Some(_) | None => Ok(Point { seq, offset: committed.offset }),
        }
    }

    /// A store that stands at `target`: the local one and the deltas after it, or all from deltas.
    fn state_at(&self, task: i32, target: Point, deltas: TopicPartition, last: Option<&Delta>) -> Result<Arc<dyn Backend>, RecoveryError> {
        let why = match self.local(task, target)? {
            Local::At(backend, seq) => match self.first_after(deltas, seq)? {
                _ if seq == target.seq => return Ok(backend),
                (offset, None) => return self.apply(task, backend, deltas, offset, Chain::after(task, seq), target),
                (offset, Some(next)) if next.prev_seq <= seq => {
                    return self.apply(task, backend, deltas, offset, Chain::after(task, seq), target);
                }
                (_, Some(_)) => "it is older than the oldest delta kept",
            },
            Local::Useless(why) => why,
        };
        tracing::info!(task, why, "local state is not used; it is rebuilt from the deltas");
        let (offset, after) = self.chain_start(deltas, target, last)?;
        self.apply(task, self.stores.wipe(task)?, deltas, offset, Chain::after(task, after), target)
    }

    /// The local store, if it is of this log and not ahead of it.
    fn local(&self, task: i32, target: Point) -> Result<Local, RecoveryError> {
        let backend = match self.stores.open(task) {
            Ok(backend) => backend,
            Err(StateError::Format) => return Ok(Local::Useless("it has another format")),
            Err(error) => return Err(error.into()),
        };
        match backend.meta()? {
            None => Ok(Local::Useless("there is none")),
            Some(Meta { origin, .. }) if origin != *self.origin => Ok(Local::Useless("it is of another log")),
            Some(Meta { seq, .. }) if seq > target.seq => Ok(Local::Useless("it is ahead of the log")),
            Some(Meta { seq, offset, .. }) if seq == target.seq && offset != target.offset => {
                Err(RecoveryError::OffsetMoved { seq, committed: target.offset, delta: offset })
            }
            Some(Meta { seq, .. }) => {
                state::check_uids(&*backend)?;
                Ok(Local::At(backend, seq))
            }
        }
    }

    /// Where a state can be built from nothing: at the first commit ever, or at the oldest delta kept if it is so old that
    /// all with a TTL has been put since, and all without one put again. Answers the offset and the commit before it.
    fn chain_start(&self, deltas: TopicPartition, target: Point, last: Option<&Delta>) -> Result<(i64, i64), RecoveryError> {
        let began = Instant::now();
        let (offset, first) = loop {
            match self.first_after(deltas, 0)? {
                (offset, Some(first)) => break (offset, first),
                (_, None) if began.elapsed() >= self.patience => {
                    return Err(RecoveryError::DeltasEnd { committed: target.seq, found: 0 });
                }
                (offset, None) => self.log.wait_past(&[(deltas, offset)], self.patience.min(POLL)),
            }
        };
        if first.prev_seq == 0 {
            return Ok((offset, 0));
        }
        let newest = last.map_or(first.clock, |last| last.clock);
        let age = newest.0.saturating_sub(first.clock.0);
        let needed = self.dedup_ttl_micros.saturating_add(self.refresh_after_micros);
        if age < needed {
            let (age_s, needed_s) = (age / 1_000_000, needed / 1_000_000);
            return Err(RecoveryError::DeltasTooYoung { prev_seq: first.prev_seq, age_s, needed_s });
        }
        Ok((offset, first.prev_seq))
    }

    /// Applies the chain from `offset` until the store is at `target`.
    fn apply(
        &self,
        task: i32,
        backend: Arc<dyn Backend>,
        deltas: TopicPartition,
        offset: i64,
        mut chain: Chain,
        target: Point,
    ) -> Result<Arc<dyn Backend>, RecoveryError> {
        let mut reader = self.log.reader(deltas, offset)?;
        let mut reached = None;
        let mut at_end = None;
        while chain.seq() < target.seq {
            if self.stop.is_set() {
                return Err(RecoveryError::Stopped);
            }
            let records = reader.read(limit::DELTA_BYTES, limit::COMMIT_RECORDS)?;
            if records.is_empty() {
                // The marker of the last transaction may reach this partition after the one of the offsets (H23).
                if at_end.get_or_insert_with(Instant::now).elapsed() >= self.patience {
                    return Err(RecoveryError::DeltasEnd { committed: target.seq, found: chain.seq() });
                }
                self.log.wait_past(&[(deltas, reader.position())], self.patience.min(POLL));
            }
            for record in records {
                at_end = None;
                let Some(commit) = chain.next(self.read(record)?)? else { continue };
                check_known(&commit.ops)?;
                let meta = Meta { seq: commit.seq, offset: commit.to_offset, origin: self.origin.clone() };
                backend.apply(&commit.ops, &meta)?;
                reached = Some(Point { seq: commit.seq, offset: commit.to_offset });
                if commit.seq >= target.seq {
                    break;
                }
            }
            (self.report)(chain.seq(), target.seq);
        }
        match reached {
            Some(Point { seq, offset }) if seq == target.seq && offset != target.offset => {
                Err(RecoveryError::OffsetMoved { seq, committed: target.offset, delta: offset })
            }
            Some(point) if point == target => self.tidied(task, backend),
            Some(_) | None => Err(RecoveryError::DeltasEnd { committed: target.seq, found: chain.seq() }),
        }
    }

    /// Old deltas put again what had long expired: it goes, and the work done so far survives a crash.
    fn tidied(&self, task: i32, backend: Arc<dyn Backend>) -> Result<Arc<dyn Backend>, RecoveryError> {
        let ranges = Progress::load(&*backend)?.and_then(|progress| seen::unlisted(&progress));
        ranges.map_or(Ok(()), |ranges| backend.reclaim(&ranges))?;
        backend.flush()?;
        tracing::info!(task, "state recovered from deltas");
        Ok(backend)
    }

    /// The first part of the first commit after `seq`, which grows with the offset, and its offset, or where it will be.
    fn first_after(&self, deltas: TopicPartition, seq: i64) -> Result<(i64, Option<Delta>), RecoveryError> {
        let low = seek::first_past(self.log, deltas, |record| Ok::<_, RecoveryError>(self.read(record)?.seq > seq))?;
        let end = self.log.bounds(deltas)?.end;
        let mut reader = self.log.reader(deltas, low)?;
        // Retention may have taken the first parts of the oldest commit: that one is no use.
        while let Some(record) = reader.read_to(end, 1, 1)?.pop() {
            let offset = record.offset;
            let delta = self.read(record)?;
            if delta.part == 0 {
                return Ok((offset, Some(delta)));
            }
        }
        Ok((low, None))
    }

    /// A delta, if it is of this job: two jobs on the same topics would tell each event twice.
    fn read(&self, record: Record) -> Result<Delta, RecoveryError> {
        if record.key != self.job.as_bytes() {
            return Err(RecoveryError::OtherJob { found: String::from_utf8_lossy(&record.key).into_owned() });
        }
        Ok(delta::decode(&record.value.unwrap_or_default())?)
    }
}

/// The local store as recovery found it.
enum Local {
    At(Arc<dyn Backend>, i64),
    Useless(&'static str),
}

fn check_known(ops: &[Op]) -> Result<(), StateError> {
    let unknown = ops.iter().filter_map(|op| key::uid_byte(&op.key)).find(|byte| Uid::from_byte(*byte).is_none());
    unknown.map_or(Ok(()), |byte| Err(StateError::UnknownUid(byte)))
}
