//! The path of one request: route → room → body → prepare (open, source, ids) → spool → answer.
//!
//! Owns: the order, what is checked before the body is read. Does not own: dialects, ids, answers' bodies (gateway-core),
//! the headers around an answer (`reply`).
//! Invariants: a 2xx for events is answered only after the spool said that they are durable; a body is decoded only
//! within the memory budget; a panic is answered with 500 and ends nothing else.

use super::body::{self, Bounds, Cut};
use super::prepare::{Prepared, Refused, crowded, prepare};
use super::reply::{Outcome, respond};
use crate::budget::{Budget, Reserved};
use crate::chance;
use crate::config::{Ack, LimitsConfig};
use crate::metrics::Metrics;
use crate::sources::{Source, Sources};
use crate::spool::intake::Intake;
use crate::spool::shared::{Shared, Trouble};
use crate::spool::waits::Place;
use bytes::Bytes;
use forebay_gateway_core::accept::Request;
use forebay_gateway_core::{Answer, EventsRoute, Limits, Refusal, RefusalReason, Route, answer, route};
use forebay_schemas::limit;
use http::header::EXPECT;
use http::request::Parts;
use http::{HeaderMap, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Everything that requests share.
pub struct App {
    pub gateway: String,
    pub proxy_hops: usize,
    pub limits: Limits,
    pub limits_config: LimitsConfig,
    pub sources: Sources,
    pub intake: Arc<Intake>,
    pub shared: Arc<Shared>,
    pub metrics: Metrics,
    pub budget: Arc<Budget>,
    pub in_flight: Semaphore,
    /// Requests that are durable and wait for more.
    pub waiting: Semaphore,
    pub decodes: Semaphore,
    pub drains: Semaphore,
    pub draining: AtomicBool,
}

/// What is dropped of a refused body comes at least this fast.
const DRAIN_IDLE: Duration = Duration::from_secs(2);

pub async fn handle(app: Arc<App>, peer: SocketAddr, request: http::Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, mut body) = request.into_parts();
    let route = head.uri.path_and_query().map_or(Route::NotFound, |target| route(&head.method, target.as_str()));
    let outcome = match caught(dispatch(&app, peer, &route, &head, &mut body)).await {
        Some(outcome) => outcome,
        None => {
            app.metrics.panics.inc();
            tracing::error!(dialect = label(&route), "a request met a defect and gets 500");
            let answer = Answer { status: 500, content_type: None, headers: Vec::new(), body: Bytes::new() };
            Outcome { close: true, ..Outcome::new(answer, app.intake.id(), &route) }
        }
    };
    respond(&app, &head.headers, &route, outcome)
}

/// The dialect of a metric's label.
pub fn label(route: &Route) -> &'static str {
    match route {
        Route::Events(events) => events.dialect.name(),
        Route::Startup(_) | Route::Preflight | Route::Limits | Route::NotFound | Route::MethodNotAllowed(_) => "none",
    }
}

async fn dispatch(app: &Arc<App>, peer: SocketAddr, route: &Route, head: &Parts, body: &mut Incoming) -> Outcome {
    let reason = match route {
        Route::Events(events) => return events_outcome(app, peer, route, events, head, body).await,
        Route::Startup(startup) => {
            body::drain(body, app.limits.wire_bytes, app.limits_config.body_timeout.0, DRAIN_IDLE).await;
            return Outcome::new(answer::startup(startup), app.intake.id(), route);
        }
        Route::Preflight => return Outcome::new(answer::preflight(), app.intake.id(), route),
        Route::Limits => return Outcome::new(answer::limits(&app.limits), app.intake.id(), route),
        Route::NotFound => RefusalReason::NotFound,
        Route::MethodNotAllowed(_) => RefusalReason::MethodNotAllowed,
    };
    let close = let_go(app, head, body, limit::REFUSED_DRAIN_BYTES).await;
    refused(app, route, Refused::from(reason), close)
}

async fn events_outcome(
    app: &Arc<App>,
    peer: SocketAddr,
    route: &Route,
    events: &EventsRoute,
    head: &Parts,
    body: &mut Incoming,
) -> Outcome {
    let permit = match room(app, head) {
        Ok(permit) => permit,
        Err(refusal) => {
            let close = let_go(app, head, body, limit::REFUSED_DRAIN_BYTES).await;
            return refused(app, route, refusal.into(), close);
        }
    };
    if let Some(crowded) = crowded(app, events, head) {
        let close = let_go(app, head, body, limit::REFUSED_DRAIN_BYTES).await;
        return refused(app, route, crowded, close);
    }
    let mut reserved = app.budget.open();
    let bounds =
        Bounds { wire_bytes: app.limits.wire_bytes, total: app.limits_config.body_timeout.0, idle: app.limits_config.body_idle_timeout.0 };
    let bytes = match body::read(body, bounds, &mut reserved).await {
        Ok(bytes) => bytes,
        Err(cut) => {
            drop((permit, reserved));
            let (refusal, drain) = cut_refusal(app, cut);
            let close = let_go(app, head, body, drain).await;
            return refused(app, route, refusal.into(), close || drain == 0);
        }
    };
    let request = Request {
        method: head.method.clone(),
        target: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        headers: head.headers.clone(),
        body: bytes,
    };
    let prepared = match decode(app, peer, *events, request, reserved).await {
        Ok(prepared) => prepared,
        Err(refusal) => return refused(app, route, refusal, false),
    };
    keep(app, prepared, permit).await
}

/// A place among the requests in flight, when the gateway may take one at all; the body is not read yet.
fn room<'a>(app: &'a App, head: &Parts) -> Result<InFlight<'a>, Refusal> {
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target > limit::TARGET_BYTES {
        return Err(Refusal::over(RefusalReason::TargetTooLong, limit::TARGET_BYTES));
    }
    if headers_bytes(&head.headers) > limit::HEADERS_BYTES {
        return Err(Refusal::over(RefusalReason::HeadersTooLarge, limit::HEADERS_BYTES));
    }
    if app.draining.load(Ordering::Relaxed) {
        return Err(later(RefusalReason::Draining));
    }
    if let Some(trouble) = app.shared.trouble() {
        return Err(later(of(trouble)));
    }
    let permit = app.in_flight.try_acquire().map_err(|_| later(RefusalReason::Overloaded))?;
    Ok(InFlight { _permit: permit, _counted: Counted::of(&app.metrics.in_flight) })
}

struct InFlight<'a> {
    _permit: SemaphorePermit<'a>,
    _counted: Counted<'a>,
}

/// Small bodies are decoded here; large ones where blocking hurts nobody, a few at a time.
async fn decode(app: &Arc<App>, peer: SocketAddr, events: EventsRoute, request: Request, reserved: Reserved) -> Result<Prepared, Refused> {
    if request.body.len() <= limit::DECODE_INLINE_BYTES {
        return prepare(app, peer, &events, request, reserved);
    }
    let _turn = app.decodes.acquire().await;
    let shared = app.clone();
    match tokio::task::spawn_blocking(move || prepare(&shared, peer, &events, request, reserved)).await {
        Ok(prepared) => prepared,
        Err(error) => std::panic::resume_unwind(Box::new(error.to_string())),
    }
}

/// Hands the request to the spool and answers once it is as durable as its source wants it.
async fn keep(app: &Arc<App>, prepared: Prepared, permit: InFlight<'_>) -> Outcome {
    let Prepared { raw, accepted, reserved, source, seat } = prepared;
    let route = &Route::Events(accepted.route);
    let begun = Instant::now();
    let Some(ticket) = app.intake.enqueue(raw, accepted.decoded.clone(), reserved) else {
        return refused(app, route, Refused::by(later(RefusalReason::Overloaded), source), false);
    };
    drop(ticket.kept);
    let durable = tokio::time::timeout(app.limits_config.ack_timeout.0, ticket.durable).await;
    let Ok(Ok(Ok(place))) = durable else {
        let reason = app.shared.trouble().map_or(RefusalReason::SpoolFailed, of);
        return refused(app, route, Refused::by(later(reason), source), false);
    };
    let (ack, dialect, events) = (source.config.ack, accepted.dialect().name(), accepted.events.len() as u64);
    let answer = answer::accepted(&accepted, ticket.request_id, ack.name());
    // A wait may be long: it holds the answer and its place in the list, and nothing else.
    drop((accepted, permit, seat));
    if !reached(app, place, ack).await {
        return refused(app, route, Refused::by(later(RefusalReason::AckTimeout), source), false);
    }
    app.metrics.ack_seconds.with_label_values(&[ack.name()]).observe(begun.elapsed().as_secs_f64());
    app.metrics.events_accepted.with_label_values(&[source.config.name.as_str(), dialect]).inc_by(events);
    Outcome { source: Some(source), dialect, ..Outcome::new(answer, ticket.request_id, route) }
}

/// Waits until what is durable at `place` is where `ack` wants it; false when it is not in time, or too many wait.
async fn reached(app: &App, place: Place, ack: Ack) -> bool {
    let timeout = match ack {
        Ack::Spool => return true,
        Ack::Log => app.limits_config.log_ack_timeout.0,
        Ack::Object => app.limits_config.object_ack_timeout.0,
    };
    let Ok(_place) = app.waiting.try_acquire() else { return false };
    let Some(wait) = app.shared.reach(place, ack) else { return true };
    let _waiting = Counted::of(&app.metrics.acks_waiting);
    matches!(tokio::time::timeout(timeout, wait).await, Ok(Ok(())))
}

/// Counts for as long as it lives.
struct Counted<'a>(&'a prometheus::IntGauge);

impl Counted<'_> {
    fn of(gauge: &prometheus::IntGauge) -> Counted<'_> {
        gauge.inc();
        Counted(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn refused(app: &App, route: &Route, refused: Refused, close: bool) -> Outcome {
    let Refused { refusal, source, route: decided } = refused;
    let decided = decided.map(Route::Events);
    let route = decided.as_ref().unwrap_or(route);
    let name = |source: &Arc<Source>| source.config.name.clone();
    let labels = [&source.as_ref().map_or_else(|| "none".to_owned(), name), refusal.reason.name()];
    app.metrics.events_refused.with_label_values(&labels).inc();
    let request_id = app.intake.id();
    let answer = answer::refused(route, &refusal, request_id);
    Outcome { source, close, ..Outcome::new(answer, request_id, route) }
}

/// Reads and drops what is left of a refused body, so that its client sees the answer; true: close the connection.
async fn let_go(app: &App, head: &Parts, body: &mut Incoming, bytes_max: usize) -> bool {
    // A client that waits for `100 Continue` has sent nothing and need not.
    if bytes_max == 0 || head.headers.contains_key(EXPECT) {
        return true;
    }
    let Ok(_turn) = app.drains.try_acquire() else { return true };
    body::drain(body, bytes_max, app.limits_config.body_timeout.0, DRAIN_IDLE).await;
    false
}

/// The refusal, and how much of the body is still worth reading.
fn cut_refusal(app: &App, cut: Cut) -> (Refusal, usize) {
    let drain = usize::try_from(app.limits_config.drain_bytes.0).unwrap_or(usize::MAX);
    match cut {
        Cut::TooLarge => (Refusal::over(RefusalReason::BodyTooLarge, app.limits.wire_bytes), drain),
        Cut::Slow => (RefusalReason::BodyTimeout.into(), 0),
        Cut::Gone => (RefusalReason::BodyIncomplete.into(), 0),
        Cut::NoMemory => (later(RefusalReason::Overloaded), limit::REFUSED_DRAIN_BYTES),
    }
}

fn of(trouble: Trouble) -> RefusalReason {
    match trouble {
        Trouble::Full => RefusalReason::SpoolFull,
        Trouble::Failed | Trouble::Stuck => RefusalReason::SpoolFailed,
    }
}

/// With a jittered `Retry-After`, so that those who were refused together do not come back together.
pub fn later(reason: RefusalReason) -> Refusal {
    Refusal::from(reason).retry_after(1 + (chance::bits() % 5) as u32)
}

fn headers_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

/// The future's value, or `None` when it panicked.
async fn caught<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Some),
        Err(_) => std::task::Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_value() {
        assert_eq!(caught(async { 7 }).await, Some(7));
        let met = caught(async {
            tokio::task::yield_now().await;
            panic!("a defect")
        });
        assert_eq!(met.await, None::<()>);
    }

    #[test]
    fn who_is_refused_together_does_not_come_back_together() {
        let waits: std::collections::BTreeSet<_> = (0..200).map(|_| later(RefusalReason::Overloaded).retry_after_s).collect();
        assert_eq!(waits, (1..=5).map(Some).collect());
    }
}
