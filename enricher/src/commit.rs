//! One transaction a commit, until its outcome is known, and only then the local state.
//!
//! Owns: the lane's producer, what to do when a commit is aborted, unknown or fenced, applying to the backends, flushing
//! them. Does not own: what is committed (`task`), when (`lane`).
//! Invariants: E4, outputs, deltas and offsets are in one transaction; E5, a backend gets a batch only after its commit
//! is known; a commit of unknown outcome is settled by what the log then holds, never by guessing.

use crate::error::LaneError;
use crate::metrics::Metrics;
use crate::patience::{Backoff, insist};
use crate::state::{Backend, Meta, StateError, Stores};
use crate::status::{Note, Status};
use crate::stop::Stop;
use crate::task::Cut;
use forebay_schemas::topic::Topic;
use forebay_schemas::{failpoint, limit};
use forebay_stores::log::{CommitError, Committed, Lane, Log, LogError, TopicPartition, Transaction};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub struct Committer {
    pub id: String,
    pub log: Arc<dyn Log>,
    pub lane: Box<dyn Lane>,
    pub tasks: BTreeMap<i32, Standing>,
    pub stores: Arc<Stores>,
    pub metrics: Metrics,
    pub status: Arc<Status>,
    pub stop: Arc<Stop>,
    /// A commit that took this long may have outlived the process: a successor may be there.
    pub long: Duration,
}

/// A task as the committer knows it.
pub struct Standing {
    pub backend: Arc<dyn Backend>,
    /// What the log holds for this lane; `None` while it holds nothing.
    pub committed: Option<Committed>,
    /// At or before the first delta that is not yet in a store flushed from now on.
    pub deltas_from: Option<i64>,
    pub flushed_at: Instant,
}

/// What a commit of unknown outcome turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Committed,
    NotCommitted,
}

impl Committer {
    /// Commits `cuts` and applies them. Returns them when both is done.
    pub fn commit(&mut self, mut cuts: Vec<Cut>) -> Result<Vec<Cut>, LaneError> {
        let transaction = transaction(&mut cuts);
        let mut backoff = Backoff::default();
        let began = Instant::now();
        failpoint::pass("enrich.before_produce");
        self.status.committing(Some(began));
        loop {
            let result = self.lane.commit(transaction.clone());
            self.metrics.commit(&result);
            match result {
                Ok(()) => break,
                Err(CommitError::Aborted(why)) => {
                    tracing::warn!(lane = self.id, why, "transaction aborted; the same buffers are committed again");
                    self.status.note(Note::Committing, Some(format!("cannot commit: {why}")));
                    if !backoff.wait(&self.stop) {
                        return Err(LaneError::Stopped(why));
                    }
                }
                Err(CommitError::Unknown(why)) => {
                    tracing::warn!(lane = self.id, why, "outcome of a transaction unknown; asking the log");
                    if began.elapsed() >= self.long {
                        self.overtaken(&cuts)?;
                    }
                    match self.resolve(&cuts)? {
                        Outcome::Committed => break,
                        Outcome::NotCommitted if !backoff.wait(&self.stop) => return Err(LaneError::Stopped(why)),
                        Outcome::NotCommitted => {}
                    }
                }
                Err(CommitError::Fenced(why)) => return Err(LaneError::Fenced(why)),
                Err(CommitError::Refused(why)) => return Err(LogError::Refused(why).into()),
            }
        }
        self.status.committing(None);
        failpoint::pass("enrich.after_commit");
        if backoff.has_waited() {
            self.status.note(Note::Committing, None);
        }
        for cut in &cuts {
            self.apply(cut).map_err(|error| self.state_error(cut.partition, error))?;
        }
        failpoint::pass("enrich.after_apply");
        self.metrics.committed_in(began.elapsed());
        self.flush_one()?;
        Ok(cuts)
    }

    fn apply(&mut self, cut: &Cut) -> Result<(), StateError> {
        let task = self.tasks.get_mut(&cut.partition).expect("a lane commits its own tasks");
        task.committed = Some(cut.committed.clone());
        task.backend.apply(&cut.ops, &Meta { deltas_from: task.deltas_from, ..cut.meta.clone() })?;
        cut.reclaim.as_ref().map_or(Ok(()), |ranges| task.backend.reclaim(ranges))
    }

    /// A process that stood still may have a successor. Opening the lane would end it, and it has gone on already: so look
    /// first, by questions that fence nobody. What cannot be learned so is left to `resolve`.
    pub fn overtaken(&self, cuts: &[Cut]) -> Result<(), LaneError> {
        for &partition in self.tasks.keys() {
            if let Ok(found) = self.log.committed(&self.id, input(partition)) {
                self.outcome(partition, &found, cuts)?;
            }
        }
        Ok(())
    }

    /// Opens the lane anew, which settles the transaction, and reads what is committed for every task of the lane.
    fn resolve(&mut self, cuts: &[Cut]) -> Result<Outcome, LaneError> {
        let Committer { id, log, lane, status, stop, .. } = self;
        *lane = insist(status, Note::Committing, stop, || log.lane(id))?;
        let mut outcome = None;
        let partitions: Vec<i32> = self.tasks.keys().copied().collect();
        for partition in partitions {
            let Committer { lane, status, stop, .. } = self;
            let found = insist(status, Note::Committing, stop, || lane.committed(input(partition)))?;
            let this = self.outcome(partition, &found, cuts)?;
            match (outcome, this) {
                (Some(one), Some(other)) if one != other => return Err(LaneError::Torn { task: partition }),
                (_, this) => outcome = this.or(outcome),
            }
        }
        Ok(outcome.expect("a transaction has at least one task"))
    }

    /// What `found` says of this commit; `None` where the task is not part of it. A task must stand where we left it or
    /// where this commit puts it, or somebody else was here.
    fn outcome(&self, partition: i32, found: &Option<Committed>, cuts: &[Cut]) -> Result<Option<Outcome>, LaneError> {
        let stood = &self.tasks[&partition].committed;
        let cut = cuts.iter().find(|cut| cut.partition == partition);
        // The whole metadata: it names the life that committed, and another life may have come to the same `seq`.
        match cut {
            Some(cut) if found.as_ref() == Some(&cut.committed) => Ok(Some(Outcome::Committed)),
            Some(_) if found == stood => Ok(Some(Outcome::NotCommitted)),
            None if found == stood => Ok(None),
            Some(_) | None => {
                let offset = |committed: &Option<Committed>| committed.as_ref().map(|committed| committed.offset);
                Err(LaneError::Moved { task: partition, expected: offset(stood), found: offset(found) })
            }
        }
    }

    /// Flushes the task whose turn it is, so that a restart has little to catch up on.
    fn flush_one(&mut self) -> Result<(), LaneError> {
        let due = Duration::from_millis(limit::STATE_FLUSH_MS);
        let longest = self.tasks.iter_mut().min_by_key(|(_, task)| task.flushed_at).filter(|(_, task)| task.flushed_at.elapsed() >= due);
        let Some((partition, task)) = longest else { return Ok(()) };
        task.flushed_at = Instant::now();
        let (partition, flushed) = (*partition, task.backend.flush());
        if let Ok(bounds) = self.log.bounds(TopicPartition { topic: Topic::Delta, partition }) {
            // Every delta to come stands there or later.
            task.deltas_from = Some(bounds.end);
        }
        flushed.map_err(|error| self.state_error(partition, error))
    }

    pub fn flush_all(&mut self) -> Result<(), LaneError> {
        let flushed: Vec<_> = self.tasks.iter().map(|(partition, task)| (*partition, task.backend.flush())).collect();
        flushed.into_iter().try_for_each(|(partition, flushed)| flushed.map_err(|error| self.state_error(partition, error)))
    }

    fn state_error(&self, task: i32, error: StateError) -> LaneError {
        condemn_if_corrupt(&self.stores, task, &error);
        LaneError::State { task, error }
    }
}

/// A store whose reads or writes meet corruption is rebuilt at the next start.
pub fn condemn_if_corrupt(stores: &Stores, task: i32, error: &StateError) {
    match error {
        StateError::Corrupt(_) => stores.condemn(task),
        StateError::Format(_)
        | StateError::Held(_)
        | StateError::UnknownUid(_)
        | StateError::WindowChanged { .. }
        | StateError::WindowGone { .. }
        | StateError::ZoneChanged { .. }
        | StateError::WindowDropped(_)
        | StateError::WindowUnknown(_)
        | StateError::Repartition { .. }
        | StateError::Io(_) => {}
    }
}

pub fn input(partition: i32) -> TopicPartition {
    TopicPartition { topic: Topic::Harvested, partition }
}

/// A value out of `name=value;…`.
pub fn text<'a>(metadata: &'a str, name: &str) -> Option<&'a str> {
    metadata.split(';').find_map(|field| Some(field.split_once('=').filter(|(key, _)| *key == name)?.1))
}

pub fn number(metadata: &str, name: &str) -> Option<i64> {
    text(metadata, name)?.parse().ok()
}

/// Takes the outputs of all tasks; keys and values stay shared between the tries.
fn transaction(cuts: &mut [Cut]) -> Transaction {
    let outputs = cuts.iter_mut().flat_map(|cut| std::mem::take(&mut cut.outputs)).collect();
    let offsets =
        cuts.iter().flat_map(|cut| [Some((input(cut.partition), cut.committed.clone())), cut.partials.clone()]).flatten().collect();
    Transaction { outputs, offsets }
}
