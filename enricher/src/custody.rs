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
use crate::task::Rules;
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use forebay_stores::log::{CommitError, Lane, LogError, Transaction};
use std::collections::BTreeMap;
use std::time::Instant;

/// Takes `tasks` over from whoever holds them, until each is held by this layout's own lane.
pub fn take(recovery: &Recovery<'_>, rules: &Rules, tasks: &[i32]) -> Result<(), LaneError> {
    let mut backoff = Backoff::default();
    for _ in 0..limit::CUSTODY_ROUNDS {
        let lanes = at_once(tasks, |task| Ok(standing(recovery, rules, *task, None)?.and_then(|standing| standing.point.lanes)))?;
        let mut others: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for (&task, lanes) in tasks.iter().zip(lanes) {
            let holder = rules.layout.holder(task, lanes);
            if holder != rules.layout.id(task) {
                others.entry(holder).or_default().push(task);
            }
        }
        if others.is_empty() {
            return Ok(());
        }
        // Whatever becomes of the commits, the log tells it in the next round.
        for (holder, tasks) in others {
            let handed_on = match hand_on(recovery, rules, &holder, &tasks) {
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
fn hand_on(recovery: &Recovery<'_>, rules: &Rules, holder: &str, tasks: &[i32]) -> Result<bool, LaneError> {
    let mut lane = recovery.log.lane(holder)?;
    let mut transaction = Transaction::default();
    for &task in tasks {
        let standing = settled(recovery, rules, task, &mut *lane)?;
        let lanes = standing.as_ref().and_then(|standing| standing.point.lanes);
        if rules.layout.holder(task, lanes) != holder {
            // Somebody else was faster; the next round sees who.
            continue;
        }
        let (point, clock, watermark) = match standing {
            Some(Standing { point, last: Some(last) }) => (point, last.clock, last.watermark),
            Some(Standing { point, last: None }) => (point, NEVER, NEVER),
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
            pipeline: rules.pipeline.fingerprint().to_owned(),
        };
        transaction.outputs.extend(rules.deltas(&head, Vec::new()).0);
        transaction.offsets.push((input(task), rules.committed(&head)));
    }
    if transaction.outputs.is_empty() {
        return Ok(true);
    }
    tracing::info!(holder, ?tasks, lanes = rules.layout.lanes(), "taking tasks over");
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
fn settled(recovery: &Recovery<'_>, rules: &Rules, task: i32, holder: &mut dyn Lane) -> Result<Option<Standing>, LaneError> {
    let began = Instant::now();
    loop {
        let standing = standing(recovery, rules, task, Some(&mut *holder))?;
        let found = standing.as_ref().and_then(|standing| standing.last.as_ref()).map_or(0, |last| last.seq);
        let committed = standing.as_ref().map_or(0, |standing| standing.point.seq);
        if found >= committed {
            return Ok(standing);
        }
        if began.elapsed() >= recovery.patience {
            return Err(LaneError::recovery(task, RecoveryError::DeltasEnd { committed, found }));
        }
        if recovery.stop.wait(POLL) {
            return Err(LaneError::Interrupted);
        }
    }
}

/// The last commit of a task, as its deltas, this layout's lane and the holder's name tell it.
fn standing(recovery: &Recovery<'_>, rules: &Rules, task: i32, holder: Option<&mut dyn Lane>) -> Result<Option<Standing>, LaneError> {
    let own = recovery.log.committed(&rules.layout.id(task), input(task))?;
    let theirs = holder.map_or(Ok(None), |lane| lane.committed(input(task)))?;
    recovery.standing(task, &[own, theirs]).map_err(|error| LaneError::recovery(task, error))
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
