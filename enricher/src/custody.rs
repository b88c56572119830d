//! Custody: which lane may commit a task, and how a start under another layout takes tasks over.
//!
//! A fence is by name: a lane that is opened ends whoever held the same name, and nobody else. So that a process which
//! runs under an older number of lanes can never commit beside a newer one, each delta says under which layout it was
//! committed, and the holder of a task is the lane which that layout gives it to. Only the holder commits the task; it
//! is handed on by one commit without records that is made *under the holder's name*, which fences the holder, and says
//! the new layout. A task that nobody has committed is held by a name that no lane has.
//!
//! Owns: finding the holders of this process's tasks and handing the tasks on. Does not own: names (`layout`), what
//! counts as the last commit (`recovery`). Invariant: E3, at any time exactly one name can commit a task.

use crate::at_once::at_once;
use crate::commit::input;
use crate::delta::Head;
use crate::error::{LaneError, RecoveryError};
use crate::patience::Backoff;
use crate::progress::NEVER;
use crate::recovery::{POLL, Point, Recovery, Standing};
use crate::state::Meta;
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::delta::Delta;
use forebay_stores::log::{CommitError, Lane, LogError, Transaction};
use std::collections::BTreeMap;
use std::time::Instant;

/// Takes `tasks` over from whoever holds them, until each is held by this layout's own lane.
pub fn take(recovery: &Recovery<'_>, tasks: &[i32]) -> Result<(), LaneError> {
    let mut backoff = Backoff::default();
    for _ in 0..limit::CUSTODY_ROUNDS {
        let lanes = at_once(tasks, |task| Ok(seen(recovery, *task)?.and_then(|standing| standing.point.lanes)))?;
        let mut others: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for (&task, lanes) in tasks.iter().zip(lanes) {
            let holder = recovery.rules.layout.holder(task, lanes);
            if holder != recovery.rules.layout.id(task) {
                others.entry(holder).or_default().push(task);
            }
        }
        if others.is_empty() {
            return Ok(());
        }
        // Whatever becomes of the commits, the log tells it in the next round.
        for (holder, tasks) in others {
            let handed_on = match hand_on(recovery, &holder, &tasks) {
                // Somebody else takes over from the same holder at this moment.
                Err(LaneError::Fenced(_)) => false,
                result => result?,
            };
            if !handed_on && !backoff.wait(recovery.stop) {
                return Err(LaneError::Interrupted);
            }
        }
    }
    Err(LaneError::Contested)
}

/// Fences `holder` and commits under its name that `tasks` are this layout's from now on. False: it may not have been.
fn hand_on(recovery: &Recovery<'_>, holder: &str, tasks: &[i32]) -> Result<bool, LaneError> {
    let mut lane = recovery.log.lane(holder)?;
    let mut transaction = Transaction::default();
    for &task in tasks {
        let last = settled(recovery, task, &mut *lane)?;
        let lanes = last.as_ref().and_then(|(point, _)| point.lanes);
        if recovery.rules.layout.holder(task, lanes) != holder {
            // Somebody else was faster; the next round sees who.
            continue;
        }
        let (point, clock, watermark) = match last {
            Some((point, delta)) => (point, delta.clock, delta.watermark),
            None => (beginning(recovery, task)?, NEVER, NEVER),
        };
        let head = Head {
            task,
            seq: point.seq + 1,
            prev_seq: point.seq,
            from_offset: point.offset,
            to_offset: point.offset,
            watermark,
            clock,
            pipeline: recovery.rules.pipeline.fingerprint().to_owned(),
        };
        transaction.outputs.extend(recovery.rules.deltas(&head, Vec::new()).0);
        transaction.offsets.push((input(task), recovery.rules.committed(&head)));
    }
    if transaction.outputs.is_empty() {
        return Ok(true);
    }
    tracing::info!(holder, ?tasks, lanes = recovery.rules.layout.lanes(), "taking tasks over");
    match lane.commit(transaction) {
        Ok(()) => Ok(true),
        Err(CommitError::Refused(why)) => Err(LogError::Refused(why).into()),
        Err(CommitError::Aborted(why) | CommitError::Unknown(why) | CommitError::Fenced(why)) => {
            tracing::warn!(holder, why, "tasks are not known to be taken over; looking again");
            Ok(false)
        }
    }
}

/// The last commit of a task whose holder is fenced, and so has nothing on its way: its deltas are there, at once or nearly.
fn settled(recovery: &Recovery<'_>, task: i32, holder: &mut dyn Lane) -> Result<Option<(Point, Delta)>, LaneError> {
    let began = Instant::now();
    loop {
        let Some(Standing { point, last }) = standing(recovery, task, &mut *holder)? else { return Ok(None) };
        let found = last.as_ref().map_or(0, |last| last.seq);
        match last {
            Some(last) if last.seq >= point.seq => return Ok(Some((point, last))),
            Some(_) | None if began.elapsed() >= recovery.patience => {
                return Err(LaneError::recovery(task, RecoveryError::DeltasEnd { committed: point.seq, found }));
            }
            Some(_) | None if recovery.stop.wait(POLL) => return Err(LaneError::Interrupted),
            Some(_) | None => {}
        }
    }
}

/// The last commit of a task, as its deltas, this layout's lane and the holder's name tell it.
fn standing(recovery: &Recovery<'_>, task: i32, holder: &mut dyn Lane) -> Result<Option<Standing>, LaneError> {
    let own = recovery.log.committed(&recovery.rules.layout.id(task), input(task))?;
    let theirs = holder.committed(input(task))?;
    recovery.standing(task, &[own, theirs]).map_err(|error| LaneError::recovery(task, error))
}

/// The same before anybody is fenced, when it need not be the last: the fence and the look after it decide. Deltas show
/// what is committed at once; an offset does not show while a transaction that touches it is open, which that of a process
/// that was killed is until its lane is opened anew, so it is asked for only where no delta is kept.
fn seen(recovery: &Recovery<'_>, task: i32) -> Result<Option<Standing>, LaneError> {
    let standing = |committed: &[_]| recovery.standing(task, committed).map_err(|error| LaneError::recovery(task, error));
    match standing(&[])? {
        Some(standing) => Ok(Some(standing)),
        None => standing(&[recovery.log.committed(&recovery.rules.layout.id(task), input(task))?]),
    }
}

/// Where a task begins that nobody has ever committed; refused when there is state of it.
fn beginning(recovery: &Recovery<'_>, task: i32) -> Result<Point, LaneError> {
    let opened = recovery.open(task).and_then(|store| Ok(store.meta()?)).map_err(|error| LaneError::recovery(task, error))?;
    if let Some(Meta { seq, .. }) = opened {
        return Err(LaneError::recovery(task, RecoveryError::Orphan { seq }));
    }
    let start = recovery.log.bounds(input(task))?.start;
    if start > 0 {
        tracing::warn!(task, topic = Topic::Harvested.name(), start, "nothing is committed; beginning at the oldest record that is kept");
    }
    Ok(Point { seq: 0, offset: start, lanes: None })
}
