//! The gateway's metrics (interfaces.md §5). Labels are closed sets: names from the configuration and from our own enums.

use crate::spool::shared::View;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

#[derive(Clone)]
pub struct Metrics {
    /// `{dialect, status}`; dialect `none` where no dialect's route was asked for.
    pub requests: IntCounterVec,
    /// `{source, dialect}`
    pub events_accepted: IntCounterVec,
    /// Requests or events turned away, `{source, reason}`; source `none` before it is known.
    pub events_refused: IntCounterVec,
    /// From enqueue to the durability that the source asked for, `{durability}`.
    pub ack_seconds: HistogramVec,
    pub in_flight: IntGauge,
    /// Requests that are durable and wait for the log or the object store.
    pub acks_waiting: IntGauge,
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
        let ack = HistogramOpts::new("forebay_gateway_ack_seconds", "From enqueue to the durability that the source asked for");
        let ack = HistogramVec::new(ack.buckets(ACK_BUCKETS_S.to_vec()), &["durability"])?;
        registry.register(Box::new(ack.clone()))?;
        Ok(Metrics {
            requests: counters("forebay_gateway_requests_total", "Requests by dialect and status", &["dialect", "status"])?,
            events_accepted: counters("forebay_gateway_events_accepted_total", "Events answered 2xx", &["source", "dialect"])?,
            events_refused: counters("forebay_gateway_events_refused_total", "Requests turned away", &["source", "reason"])?,
            ack_seconds: ack,
            acks_waiting: gauge("forebay_gateway_acks_waiting", "Durable requests that wait for the log or the object store")?,
            in_flight: gauge("forebay_gateway_in_flight", "Event requests being read or waiting for the spool")?,
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

/// Registers the spool's gauges. It is asked at each scrape: while an append hangs, the age of what waits for it grows.
pub fn show_spool(registry: &Registry, ask: impl Fn() -> View + Send + Sync + 'static) -> Result<(), prometheus::Error> {
    registry.register(Box::new(SpoolGauges {
        ask: Box::new(ask),
        bytes: IntGauge::new("forebay_gateway_spool_bytes", "Bytes of the spool on disk")?,
        segments: IntGaugeVec::new(Opts::new("forebay_gateway_segments", "Spool segments on disk by state"), &["state"])?,
        behind: IntGauge::new("forebay_gateway_backlog_bytes", "Bytes of the spool that are not on the log")?,
        age: Gauge::new("forebay_gateway_backlog_seconds", "Since the oldest request that is not on the log was received")?,
    }))
}

struct SpoolGauges {
    ask: Box<dyn Fn() -> View + Send + Sync>,
    bytes: IntGauge,
    /// `{state}`: open, sealed, landed, published.
    segments: IntGaugeVec,
    behind: IntGauge,
    age: Gauge,
}

impl SpoolGauges {
    fn all(&self) -> [&dyn Collector; 4] {
        [&self.bytes, &self.segments, &self.behind, &self.age]
    }
}

impl Collector for SpoolGauges {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(Collector::desc).collect()
    }
    fn collect(&self) -> Vec<MetricFamily> {
        let View { bytes, segments, behind, age } = (self.ask)();
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.bytes.set(number(bytes));
        for (state, count) in
            [("open", segments.open), ("sealed", segments.sealed), ("landed", segments.landed), ("published", segments.published)]
        {
            self.segments.with_label_values(&[state]).set(count);
        }
        self.behind.set(number(behind));
        self.age.set(age.as_secs_f64());
        self.all().into_iter().flat_map(Collector::collect).collect()
    }
}

const ACK_BUCKETS_S: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
