//! The gateway's metrics (interfaces.md §5). Labels are closed sets: names from the configuration and from our own enums.

use crate::spool::shared::Backlog;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

#[derive(Clone)]
pub struct Metrics {
    /// `{dialect, status}`; dialect `none` where no dialect's route was asked for.
    pub requests: IntCounterVec,
    /// `{source, dialect}`
    pub events_accepted: IntCounterVec,
    /// Requests or events turned away, `{source, reason}`; source `none` before it is known.
    pub events_refused: IntCounterVec,
    /// From enqueue to durable.
    pub ack_seconds: Histogram,
    pub in_flight: IntGauge,
    pub spool_bytes: IntGauge,
    /// `{state}`: open, sealed, landed, published.
    pub segments: IntGaugeVec,
    /// `{operation}`: write, fsync, ledger, read, damaged.
    pub spool_errors: IntCounterVec,
    pub publish_errors: IntCounter,
    pub published_events: IntCounter,
    pub land_errors: IntCounter,
    /// 1 while the object store refuses what waiting does not change.
    pub land_refused: IntGauge,
    /// A raw object's name was taken by other bytes: pages someone.
    pub land_conflicts: IntCounter,
    pub panics: IntCounter,
}

impl Metrics {
    pub fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            let made = IntCounter::new(name, help)?;
            registry.register(Box::new(made.clone()))?;
            Ok::<_, prometheus::Error>(made)
        };
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let made = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(made.clone()))?;
            Ok::<_, prometheus::Error>(made)
        };
        let gauge = |name: &str, help: &str| {
            let made = IntGauge::new(name, help)?;
            registry.register(Box::new(made.clone()))?;
            Ok::<_, prometheus::Error>(made)
        };
        let segments = IntGaugeVec::new(Opts::new("forebay_gateway_segments", "Spool segments on disk by state"), &["state"])?;
        registry.register(Box::new(segments.clone()))?;
        let ack = HistogramOpts::new("forebay_gateway_ack_seconds", "From enqueue to the durability that the source asked for");
        let ack = HistogramVec::new(ack.buckets(ACK_BUCKETS_S.to_vec()), &["durability"])?;
        registry.register(Box::new(ack.clone()))?;
        Ok(Metrics {
            requests: counters("forebay_gateway_requests_total", "Requests by dialect and status", &["dialect", "status"])?,
            events_accepted: counters("forebay_gateway_events_accepted_total", "Events answered 2xx", &["source", "dialect"])?,
            events_refused: counters("forebay_gateway_events_refused_total", "Requests turned away", &["source", "reason"])?,
            ack_seconds: ack.with_label_values(&["spool"]),
            in_flight: gauge("forebay_gateway_in_flight", "Event requests being read or waiting for the spool")?,
            spool_bytes: gauge("forebay_gateway_spool_bytes", "Bytes of the spool on disk")?,
            segments,
            spool_errors: counters("forebay_gateway_spool_errors_total", "Failed operations on the spool", &["operation"])?,
            publish_errors: counter("forebay_gateway_publish_errors_total", "Appends that the log refused; they are tried again")?,
            published_events: counter("forebay_gateway_published_events_total", "Harvested events appended to the log")?,
            land_errors: counter("forebay_gateway_land_errors_total", "Puts that failed; they are tried again")?,
            land_refused: gauge(
                "forebay_gateway_land_refused",
                "1 while the object store refuses puts: no bucket, credentials, permission",
            )?,
            land_conflicts: counter("forebay_gateway_land_conflicts_total", "Raw objects whose name was taken by other bytes")?,
            panics: counter("forebay_gateway_panics_total", "Requests that met a defect of ours and got 500")?,
        })
    }
}

/// Registers what is durable here and not on the log, asked for at each scrape: an append may hang, its age grows.
pub fn backlog(registry: &Registry, ask: impl Fn() -> Backlog + Send + Sync + 'static) -> Result<(), prometheus::Error> {
    let bytes = IntGauge::new("forebay_gateway_backlog_bytes", "Bytes of the spool that are not on the log")?;
    let age = Gauge::new("forebay_gateway_backlog_seconds", "Since the oldest request that is not on the log was received")?;
    registry.register(Box::new(BacklogGauges { ask: Box::new(ask), bytes, age }))
}

struct BacklogGauges {
    ask: Box<dyn Fn() -> Backlog + Send + Sync>,
    bytes: IntGauge,
    age: Gauge,
}

impl Collector for BacklogGauges {
    fn desc(&self) -> Vec<&Desc> {
        self.bytes.desc().into_iter().chain(self.age.desc()).collect()
    }
    fn collect(&self) -> Vec<MetricFamily> {
        let backlog = (self.ask)();
        self.bytes.set(i64::try_from(backlog.bytes).unwrap_or(i64::MAX));
        self.age.set(backlog.age.as_secs_f64());
        self.bytes.collect().into_iter().chain(self.age.collect()).collect()
    }
}

const ACK_BUCKETS_S: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
