//! What Prometheus sees of a sink.

use super::error::SinkError;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

const SINK: &str = "table";

#[derive(Clone)]
pub(super) struct Metrics {
    lag: IntGaugeVec,
    commits: IntCounterVec,
    redelivered: IntCounterVec,
}

/// How a commit ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    Committed,
    /// Small files became one; no rows were added.
    Rewritten,
    /// Somebody else had committed these rows.
    Superseded,
    Failed,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Result<Metrics, SinkError> {
        let metrics = Metrics {
            lag: IntGaugeVec::new(Opts::new("forebay_sink_lag_records", "Trusted records that the sink has not committed"), &["sink"])?,
            commits: IntCounterVec::new(
                Opts::new("forebay_sink_commits_total", "Commits of the sink by how they ended"),
                &["sink", "result"],
            )?,
            redelivered: IntCounterVec::new(
                Opts::new("forebay_sink_redelivered_total", "Trusted records left out because the sink had them already"),
                &["sink"],
            )?,
        };
        registry.register(Box::new(metrics.lag.clone()))?;
        registry.register(Box::new(metrics.commits.clone()))?;
        registry.register(Box::new(metrics.redelivered.clone()))?;
        Ok(metrics)
    }
    pub(super) fn lag(&self, records: i64) {
        self.lag.with_label_values(&[SINK]).set(records);
    }
    pub(super) fn commit(&self, ended: Ended) {
        let result = match ended {
            Ended::Committed => "committed",
            Ended::Rewritten => "rewritten",
            Ended::Superseded => "superseded",
            Ended::Failed => "failed",
        };
        self.commits.with_label_values(&[SINK, result]).inc();
    }
    pub(super) fn redelivered(&self, records: u64) {
        self.redelivered.with_label_values(&[SINK]).inc_by(records);
    }
}
