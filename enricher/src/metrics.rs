//! What Prometheus sees of the enricher (interfaces.md §5).
//!
//! Owns: names and labels, all from closed sets. Does not own: counts of outcomes: those are state, and the metric starts
//! from what the state holds, so it is exact across crashes.

use crate::totals::Changes;
use forebay_stores::log::CommitError;
use prometheus::{Gauge, GaugeVec, Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};
use std::time::Duration;

const COMMIT_SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 20.0];

/// Cheap to clone; all clones count together.
#[derive(Clone)]
pub struct Metrics {
    events: IntCounterVec,
    unclassified: IntCounterVec,
    late: IntCounterVec,
    left_out: IntCounterVec,
    commits: IntCounterVec,
    commit_seconds: Histogram,
    lag_records: IntGaugeVec,
    watermark_lag_seconds: GaugeVec,
    state_bytes: IntGaugeVec,
    clock_held: IntGaugeVec,
    gateways_retired: IntGaugeVec,
    timers: IntGaugeVec,
    timers_overdue_seconds: GaugeVec,
    windows_lag_seconds: GaugeVec,
    windows_open: IntGaugeVec,
}

/// One task's gauges.
pub struct TaskMetrics {
    pub watermark_lag_seconds: Gauge,
    pub state_bytes: IntGauge,
    pub clock_held: IntGauge,
    pub gateways_retired: IntGauge,
    pub timers: IntGauge,
    pub timers_overdue_seconds: Gauge,
    pub windows_lag_seconds: Gauge,
}

impl Metrics {
    pub fn register(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), &["task"])?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let watermark_lag_seconds =
            GaugeVec::new(Opts::new("forebay_task_watermark_lag_seconds", "Task clock less watermark, in log time."), &["task"])?;
        registry.register(Box::new(watermark_lag_seconds.clone()))?;
        let timers_overdue_seconds = GaugeVec::new(
            Opts::new("forebay_timers_overdue_seconds", "How long the oldest timer is due, by the watermark that fires it."),
            &["task"],
        )?;
        registry.register(Box::new(timers_overdue_seconds.clone()))?;
        let windows_lag_seconds = GaugeVec::new(
            Opts::new("forebay_windows_watermark_lag_seconds", "Task clock less the slowest task's watermark, by which windows are told."),
            &["task"],
        )?;
        registry.register(Box::new(windows_lag_seconds.clone()))?;
        let windows_open = IntGaugeVec::new(
            Opts::new("forebay_windows_open_keys", "Keys of a window with something open, in the task that owns them."),
            &["task", "window"],
        )?;
        registry.register(Box::new(windows_open.clone()))?;
        let commit_seconds = Histogram::with_opts(
            HistogramOpts::new("forebay_commit_seconds", "From the first try of a commit to the state applied.")
                .buckets(COMMIT_SECONDS.to_vec()),
        )?;
        registry.register(Box::new(commit_seconds.clone()))?;
        Ok(Metrics {
            events: counter("forebay_events_total", "Harvested records by what became of them.", &["source", "outcome", "reason"])?,
            unclassified: counter("forebay_unclassified_fields_total", "Fields left out because nobody classified them.", &["event_type"])?,
            late: counter("forebay_late_events_total", "Trusted events that came too late for a window.", &["window"])?,
            left_out: counter(
                "forebay_window_left_out_total",
                "What a window had no room for: it holds as many keys as it may. Of this process's life.",
                &["window"],
            )?,
            timers: gauge("forebay_timers", "Timers of windows, one for each key with something open.")?,
            timers_overdue_seconds,
            windows_lag_seconds,
            windows_open,
            commits: counter("forebay_commits_total", "Tries to commit, by result.", &["result"])?,
            commit_seconds,
            lag_records: gauge("forebay_task_lag_records", "Harvested records, ticks included, that are not yet taken in.")?,
            watermark_lag_seconds,
            state_bytes: gauge("forebay_state_bytes", "Local state on disk or in memory.")?,
            clock_held: gauge("forebay_task_clock_held_records", "Records whose append time was too far ahead of all gateways.")?,
            gateways_retired: gauge("forebay_task_gateways_retired", "Gateways that fell silent and no longer hold the watermark.")?,
        })
    }

    pub fn task(&self, partition: i32) -> TaskMetrics {
        let task = partition.to_string();
        TaskMetrics {
            watermark_lag_seconds: self.watermark_lag_seconds.with_label_values(&[&task]),
            state_bytes: self.state_bytes.with_label_values(&[&task]),
            clock_held: self.clock_held.with_label_values(&[&task]),
            gateways_retired: self.gateways_retired.with_label_values(&[&task]),
            timers: self.timers.with_label_values(&[&task]),
            timers_overdue_seconds: self.timers_overdue_seconds.with_label_values(&[&task]),
            windows_lag_seconds: self.windows_lag_seconds.with_label_values(&[&task]),
        }
    }

    pub fn open_keys(&self, partition: i32, window: &str, keys: usize) {
        let gauge = self.windows_open.with_label_values(&[&*partition.to_string(), window]);
        gauge.set(i64::try_from(keys).unwrap_or(i64::MAX));
    }

    pub fn left_out(&self, window: &str, count: u64) {
        self.left_out.with_label_values(&[window]).inc_by(count);
    }

    pub fn lag(&self, partition: i32, records: i64) {
        self.lag_records.with_label_values(&[&partition.to_string()]).set(records);
    }

    pub fn commit(&self, result: &Result<(), CommitError>) {
        let result = match result {
            Ok(()) => "ok",
            Err(CommitError::Aborted(_)) => "aborted",
            Err(CommitError::Unknown(_)) => "unknown",
            Err(CommitError::Fenced(_)) => "fenced",
            Err(CommitError::Refused(_)) => "refused",
        };
        self.commits.with_label_values(&[result]).inc();
    }

    pub fn committed_in(&self, time: Duration) {
        self.commit_seconds.observe(time.as_secs_f64());
    }

    /// Counts that are committed.
    pub fn add(&self, changes: &Changes) {
        for (source, outcome, count) in &changes.outcomes {
            self.events.with_label_values(&[source.as_str(), outcome.name(), outcome.reason()]).inc_by(*count);
        }
        for change in &changes.unclassified {
            self.unclassified.with_label_values(&[&change.event_type]).inc_by(change.count);
        }
        for (window, count) in &changes.late {
            self.late.with_label_values(&[window]).inc_by(*count);
        }
    }
}
