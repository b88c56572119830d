//! What Prometheus sees of the sinks of a process.

use super::error::SinkError;
use super::shape::Shape;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

#[derive(Clone)]
pub(super) struct Families {
    lag: IntGaugeVec,
    commits: IntCounterVec,
    redelivered: IntCounterVec,
}

/// Those of one sink.
pub(super) struct Metrics {
    families: Families,
    sink: &'static str,
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

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Families, SinkError> {
        let families = Families {
            lag: IntGaugeVec::new(
                Opts::new("forebay_sink_lag_records", "Records of its topic that the sink has not committed"),
                &["sink"],
            )?,
            commits: IntCounterVec::new(
                Opts::new("forebay_sink_commits_total", "Commits of the sink by how they ended"),
                &["sink", "result"],
            )?,
            redelivered: IntCounterVec::new(
                Opts::new("forebay_sink_redelivered_total", "Records left out because the sink had them already"),
                &["sink"],
            )?,
        };
        registry.register(Box::new(families.lag.clone()))?;
        registry.register(Box::new(families.commits.clone()))?;
        registry.register(Box::new(families.redelivered.clone()))?;
        Ok(families)
    }
    pub(super) fn of(&self, shape: &Shape) -> Metrics {
        Metrics { families: self.clone(), sink: shape.sink }
    }
}

impl Metrics {
    pub(super) fn lag(&self, records: i64) {
        self.families.lag.with_label_values(&[self.sink]).set(records);
    }
    pub(super) fn commit(&self, ended: Ended) {
        let result = match ended {
            Ended::Committed => "committed",
            Ended::Rewritten => "rewritten",
            Ended::Superseded => "superseded",
            Ended::Failed => "failed",
        };
        self.families.commits.with_label_values(&[self.sink, result]).inc();
    }
    pub(super) fn redelivered(&self, records: u64) {
        self.families.redelivered.with_label_values(&[self.sink]).inc_by(records);
    }
}
