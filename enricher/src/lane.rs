//! A lane: a fixed set of partitions, one thread that steps through their records, one that commits.
//!
//! Owns: reading in turn, when a batch is full or due, the next batch while the last is being committed, stopping.
//! Does not own: what a record means (`task`), how a commit ends (`commit`), where a task begins (`recovery`).
//! Invariants: at most one batch is being committed and one filled; what is read for a batch is bounded by
//! `limit::COMMIT_*`; a lane that cannot go on stops and says why, and nothing it had not committed is lost.

use crate::at_once::at_once;
use crate::commit::{Committer, Standing, condemn_if_corrupt, input};
use crate::error::LaneError;
use crate::metrics::{Metrics, TaskMetrics};
use crate::patience::{Backoff, insist};
use crate::progress::NEVER;
use crate::recovery::{Recovered, Recovery};
use crate::state::{StateError, Stores};
use crate::status::{Note, Status};
use crate::stop::Stop;
use crate::task::{Cut, Rules, Task};
use forebay_schemas::limit;
use forebay_stores::log::{Committed, Log, LogError, Reader, TopicPartition};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long an idle lane sleeps before it looks whether it should stop.
const IDLE_WAIT: Duration = Duration::from_millis(200);
const GAUGES_EVERY: Duration = Duration::from_secs(1);

/// What a lane is made from.
#[derive(Clone)]
pub struct Plan {
    pub id: String,
    pub partitions: Vec<i32>,
    pub commit_interval: Duration,
    /// How often a lane commits that has nothing to commit.
    pub idle_commit: Duration,
    pub state_bytes_max: u64,
    /// How long recovery waits for what must still show itself.
    pub patience: Duration,
    pub rules: Arc<Rules>,
    pub log: Arc<dyn Log>,
    pub stores: Arc<Stores>,
    pub metrics: Metrics,
    pub status: Arc<Status>,
    pub stop: Arc<Stop>,
}

/// Recovers the lane's tasks and runs them until it is time to stop. The thread's whole life.
pub fn run(plan: &Plan) -> Result<(), LaneError> {
    let recovered = insist(&plan.status, Note::Starting, &plan.stop, || {
        plan.status.starting();
        recover(plan)
    });
    let (tasks, committer) = recovered.map_err(LaneError::while_starting)?;
    for standing in &tasks {
        let everything = standing.task.totals().everything();
        plan.metrics.add(&everything);
        plan.status.committed(everything);
    }
    plan.status.running();
    thread::scope(|scope| {
        let (to_commit, cuts) = sync_channel(1);
        let (settled, from_commit) = sync_channel(1);
        thread::Builder::new()
            .name(format!("commit-{}", plan.id))
            .spawn_scoped(scope, move || commit_thread(committer, cuts, settled))
            .map_err(|error| LaneError::Log(LogError::Io(format!("thread: {error}"))))?;
        Lane::new(plan, tasks, to_commit, from_commit).run()
    })
}

/// A task that is where the log says it is, ready to read on.
pub struct Ready {
    pub task: Task,
    pub reader: Box<dyn Reader>,
    /// Of the repartition topic, where the task reads it.
    pub partials: Option<Box<dyn Reader>>,
    /// The lane's own offset says where it is; else the lane commits at once.
    pub told: bool,
}

/// Fences the lane, then brings each of its tasks to where the log says it is.
pub fn recover(plan: &Plan) -> Result<(Vec<Ready>, Committer), LaneError> {
    let mut producer = plan.log.lane(&plan.id)?;
    let recovery = Recovery {
        rules: &plan.rules,
        log: &*plan.log,
        stores: &plan.stores,
        patience: plan.patience,
        stop: &plan.stop,
        report: &|reached, target| plan.status.recovering(reached, target),
    };
    let mut committed = Vec::with_capacity(plan.partitions.len());
    for &partition in &plan.partitions {
        committed.push((partition, producer.committed(input(partition))?));
    }
    let recovered = at_once(&committed, |(partition, committed)| ready(plan, &recovery, *partition, committed.as_ref()))?;
    let (mut tasks, mut standings) = (Vec::new(), BTreeMap::new());
    for ((partition, committed), (ready, deltas_from)) in committed.into_iter().zip(recovered) {
        let backend = ready.task.backend().clone();
        standings.insert(partition, Standing { backend, committed, deltas_from, flushed_at: Instant::now() });
        tasks.push(ready);
    }
    let committer = Committer {
        id: plan.id.clone(),
        log: plan.log.clone(),
        lane: producer,
        tasks: standings,
        stores: plan.stores.clone(),
        metrics: plan.metrics.clone(),
        status: plan.status.clone(),
        stop: plan.stop.clone(),
        long: Duration::from_millis(limit::LOG_ANSWER_MS),
    };
    Ok((tasks, committer))
}

/// One task, and from where its deltas go on.
fn ready(plan: &Plan, recovery: &Recovery<'_>, partition: i32, committed: Option<&Committed>) -> Result<(Ready, Option<i64>), LaneError> {
    let recovered = recovery.task(partition, committed).map_err(|error| LaneError::recovery(partition, error))?;
    let Recovered { backend, seq, offset, deltas_from } = recovered;
    let task = Task::new(partition, plan.rules.clone(), backend, seq, offset);
    let task = task.map_err(|error| state_error(plan, partition, error))?;
    let reader = plan.log.reader(task.input(), offset).map_err(|error| LaneError::reading(partition, error))?;
    let told = committed.is_some_and(|committed| committed.offset == offset);
    let partials = task.partials().map(|(at, from)| {
        // What nobody has read yet is read from its beginning.
        let from = from.map_or_else(|| plan.log.bounds(at).map(|bounds| bounds.start), Ok)?;
        plan.log.reader(at, from)
    });
    let partials = partials.transpose().map_err(|error| LaneError::reading(partition, error))?;
    Ok((Ready { task, reader, partials, told }, deltas_from))
}

fn commit_thread(mut committer: Committer, cuts: Receiver<Vec<Cut>>, settled: SyncSender<Result<Vec<Cut>, LaneError>>) {
    while let Ok(cuts) = cuts.recv() {
        let result = committer.commit(cuts);
        let failed = result.is_err();
        if settled.send(result).is_err() || failed {
            return;
        }
    }
    // The lane has stopped and everything is settled: leave nothing to catch up on.
    if let Err(error) = committer.flush_all() {
        tracing::warn!(lane = committer.id, %error, "state is not flushed; the next start applies more deltas");
    }
}

fn state_error(plan: &Plan, task: i32, error: StateError) -> LaneError {
    condemn_if_corrupt(&plan.stores, task, &error);
    LaneError::State { task, error }
}

struct Lane<'a> {
    plan: &'a Plan,
    seats: Vec<Seat>,
    /// Whose turn it is to be read first.
    turn: usize,
    to_commit: SyncSender<Vec<Cut>>,
    from_commit: Receiver<Result<Vec<Cut>, LaneError>>,
    in_flight: bool,
    /// Since when a record waits to be committed.
    waiting_since: Option<Instant>,
    gauges_at: Option<Instant>,
    state_full: bool,
    backoff: Backoff,
}

/// A task and how it is read.
struct Seat {
    task: Task,
    reader: Box<dyn Reader>,
    partials: Option<Box<dyn Reader>>,
    metrics: TaskMetrics,
    /// The lane's own offset tells where this task is.
    told: bool,
    committed_at: Instant,
    idle_commit: Duration,
}

impl<'a> Lane<'a> {
    fn new(
        plan: &'a Plan,
        tasks: Vec<Ready>,
        to_commit: SyncSender<Vec<Cut>>,
        from_commit: Receiver<Result<Vec<Cut>, LaneError>>,
    ) -> Lane<'a> {
        let seat = |Ready { task, reader, partials, told }| {
            let metrics = plan.metrics.task(Task::partition(&task));
            Seat { task, reader, partials, metrics, told, committed_at: Instant::now(), idle_commit: plan.idle_commit }
        };
        let seats: Vec<Seat> = tasks.into_iter().map(seat).collect();
        Lane {
            plan,
            // What a task has written at its start need not wait for a record.
            waiting_since: seats.iter().any(|seat| seat.task.pending().events > 0).then(Instant::now),
            seats,
            turn: 0,
            to_commit,
            from_commit,
            in_flight: false,
            gauges_at: None,
            state_full: false,
            backoff: Backoff::default(),
        }
    }

    fn run(&mut self) -> Result<(), LaneError> {
        loop {
            self.settle(false)?;
            if self.plan.stop.is_set() {
                break;
            }
            self.gauges();
            let read = if self.state_full { 0 } else { self.read_round()? };
            if self.due() {
                self.commit()?;
            } else if self.state_full {
                self.plan.stop.wait(IDLE_WAIT);
            } else if read == 0 {
                self.plan.log.wait_past(&self.positions(), self.patience());
            }
        }
        self.settle(true)?;
        if self.seats.iter().any(|seat| seat.task.pending().events > 0) {
            self.commit()?;
            self.settle(true)?;
        }
        Ok(())
    }

    /// Reads a piece of each task, beginning with another one each time, while the batch has room.
    fn read_round(&mut self) -> Result<usize, LaneError> {
        let mut read = 0;
        self.turn = (self.turn + 1) % self.seats.len().max(1);
        for n in 0..self.seats.len() {
            if self.is_full() {
                break;
            }
            let place = (self.turn + n) % self.seats.len();
            let seat = &mut self.seats[place];
            let (task, before) = (seat.task.partition(), seat.task.pending().events);
            read += match seat.step() {
                Ok(read) => read,
                Err(StepError::Log(LogError::Io(why))) => {
                    tracing::warn!(task, why, "cannot read the log; trying again");
                    self.plan.status.note(Note::Reading, Some(format!("cannot read the log: {why}")));
                    self.backoff.wait(&self.plan.stop);
                    return Ok(read);
                }
                Err(StepError::Log(other)) => return Err(LaneError::reading(task, other)),
                Err(StepError::State(error)) => return Err(state_error(self.plan, task, error)),
            };
            if self.seats[place].task.pending().events > before {
                self.waiting_since.get_or_insert_with(Instant::now);
            }
        }
        if self.backoff.has_waited() {
            self.plan.status.note(Note::Reading, None);
            self.backoff = Backoff::default();
        }
        Ok(read)
    }

    fn is_full(&self) -> bool {
        let sum = |of: fn(&Task) -> usize| self.seats.iter().map(|seat| of(&seat.task)).sum::<usize>();
        sum(|task| task.pending().bytes) >= limit::COMMIT_BYTES || sum(|task| task.pending().records) >= limit::COMMIT_RECORDS
    }

    fn due(&self) -> bool {
        self.is_full()
            || self.waiting_since.is_some_and(|since| since.elapsed() >= self.plan.commit_interval)
            || self.seats.iter().any(|seat| seat.idle_due())
    }

    /// Hands the batch to the committing thread, after the one before is settled.
    fn commit(&mut self) -> Result<(), LaneError> {
        self.settle(true)?;
        let mut cuts = Vec::new();
        for seat in &mut self.seats {
            if seat.task.pending().events > 0 || seat.idle_due() {
                let task = seat.task.partition();
                cuts.push(seat.task.cut().map_err(|error| state_error(self.plan, task, error))?);
                (seat.committed_at, seat.told) = (Instant::now(), true);
            }
        }
        self.waiting_since = None;
        if cuts.is_empty() {
            return Ok(());
        }
        self.in_flight = true;
        self.to_commit.send(cuts).map_err(|_| LaneError::Panicked)
    }

    /// Takes in the commit in flight if it is through; waits for it when `wait`.
    fn settle(&mut self, wait: bool) -> Result<(), LaneError> {
        if !self.in_flight {
            return Ok(());
        }
        let result = if wait {
            self.from_commit.recv().map_err(|_| LaneError::Panicked)?
        } else {
            match self.from_commit.try_recv() {
                Ok(result) => result,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(LaneError::Panicked),
            }
        };
        self.in_flight = false;
        for cut in result? {
            self.plan.metrics.add(&cut.changes);
            self.plan.status.committed(cut.changes);
            let seat = self.seats.iter_mut().find(|seat| seat.task.partition() == cut.partition);
            seat.expect("a lane commits its own tasks").task.settled();
        }
        Ok(())
    }

    fn positions(&self) -> Vec<(TopicPartition, i64)> {
        self.seats.iter().flat_map(Seat::positions).collect()
    }

    /// How long to sleep when there is nothing to read.
    fn patience(&self) -> Duration {
        let left = self.waiting_since.map(|since| self.plan.commit_interval.saturating_sub(since.elapsed()));
        left.unwrap_or(IDLE_WAIT).min(IDLE_WAIT)
    }

    fn gauges(&mut self) {
        if self.gauges_at.is_some_and(|at| at.elapsed() < GAUGES_EVERY) {
            return;
        }
        self.gauges_at = Some(Instant::now());
        let mut bytes_all = 0;
        for seat in &mut self.seats {
            let progress = seat.task.progress();
            self.plan.status.take_in(seat.task.partition(), seat.task.next_offset());
            let behind = progress.watermark.map_or(0, |watermark| progress.clock.0.saturating_sub(watermark.0).max(0));
            seat.metrics.watermark_lag_seconds.set(behind as f64 / 1e6);
            let bytes = seat.task.backend().bytes();
            bytes_all += bytes;
            seat.metrics.state_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
            seat.metrics.clock_held.set(progress.held as i64);
            seat.metrics.gateways_retired.set(progress.retired as i64);
            seat.window_gauges(&self.plan.metrics);
        }
        let full = bytes_all > self.plan.state_bytes_max;
        if full != self.state_full {
            tracing::warn!(lane = self.plan.id, full, bytes_all, "state crossed enricher.state.max_bytes");
        }
        self.state_full = full;
        let why = || format!("state holds {bytes_all} bytes, over enricher.state.max_bytes; nothing is read");
        self.plan.status.note(Note::StateFull, full.then(why));
    }
}

/// What a step cannot get over.
enum StepError {
    Log(LogError),
    State(StateError),
}

impl Seat {
    /// Reads a piece of what the task reads and steps through it; how much of it there was. What was taken before, or is due,
    /// comes first.
    fn step(&mut self) -> Result<usize, StepError> {
        if self.task.is_behind() {
            self.task.work().map_err(StepError::State)?;
            return Ok(1);
        }
        let mut read = 0;
        if let Some(partials) = &mut self.partials {
            let records = partials.read(limit::LANE_READ_BYTES, limit::LANE_READ_RECORDS).map_err(StepError::Log)?;
            read += records.len();
            self.task.take_partials(records).map_err(StepError::State)?;
            if self.task.is_behind() {
                return Ok(read);
            }
        }
        let records = self.reader.read(limit::LANE_READ_BYTES, limit::LANE_READ_RECORDS).map_err(StepError::Log)?;
        read += records.len();
        self.task.take(records).map_err(StepError::State)?;
        Ok(read)
    }

    fn positions(&self) -> impl Iterator<Item = (TopicPartition, i64)> {
        let partials = self.partials.as_ref().zip(self.task.partials()).map(|(reader, (at, _))| (at, reader.position()));
        [(self.task.input(), self.reader.position())].into_iter().chain(partials)
    }

    fn window_gauges(&mut self, metrics: &Metrics) {
        let task = self.task.partition();
        let windows = self.task.windows();
        let clock = self.task.progress().clock;
        let behind = windows.slowest().map_or(0, |slowest| clock.0.saturating_sub(slowest.0).max(0));
        self.metrics.windows_lag_seconds.set(behind as f64 / 1e6);
        self.metrics.timers.set(i64::try_from(windows.timers()).unwrap_or(i64::MAX));
        let watermark = self.task.progress().watermark.unwrap_or(NEVER);
        self.metrics.timers_overdue_seconds.set(windows.overdue_micros(watermark) as f64 / 1e6);
        windows.open().for_each(|(window, keys)| metrics.open_keys(task, window, keys));
        for (window, count) in self.task.take_left_out() {
            metrics.left_out(&window, count);
        }
    }

    /// Ticks alone are committed now and then, and so is nothing at all: offsets of idle groups expire (H40), and those of
    /// a lane that has just taken a task over are not there yet.
    fn idle_due(&self) -> bool {
        let waited = self.committed_at.elapsed();
        let ticked = self.task.pending().records > 0 && self.task.progress().clock > NEVER;
        !self.told || (ticked && waited >= Duration::from_millis(limit::TICKS_COMMIT_MS)) || waited >= self.idle_commit
    }
}
