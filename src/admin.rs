//! The admin listener: health, metrics, and `/api`, by which commands ask the process that holds a folder.
//!
//! Owns: routes, who may ask what (`access`), the audit line. Does not own: answers (`read`), the parts that are asked about.
//! Invariants: `/api` answers nobody without a token, nor a page of another origin; no id, value or token is logged.

mod access;

pub use access::{Access, Tokens};

use crate::read::{self, Answer, Parts, Query, Role};
use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query as Parameters, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use parking_lot::Mutex;
use prometheus::{Encoder, Registry, TextEncoder};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};

/// Lines that wait for a slow reader.
const LINES_WAITING: usize = 256;
/// Questions that are answered at once; each holds a thread.
const QUESTIONS: usize = 32;

/// One of each part that runs.
pub type Registries = Arc<Mutex<Vec<Registry>>>;

/// Whether the process may take traffic.
pub struct Readiness {
    /// Why not; none: it may.
    pub reasons: Vec<String>,
    /// What an operator should know although it may.
    pub notes: Vec<String>,
}

pub type Ready = Box<dyn Fn() -> Readiness + Send + Sync>;

pub struct Shared {
    pub parts: Arc<Parts>,
    pub access: Access,
    pub registries: Registries,
    pub ready: Ready,
    questions: Arc<Semaphore>,
    stopping: Arc<AtomicBool>,
}

pub struct AdminServer {
    pub addr: SocketAddr,
    stopping: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

/// Bound before anything else starts, so that a taken port is told at once; served when there is something to ask.
pub async fn bind(addr: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(addr).await.with_context(|| format!("the admin listener cannot have {addr}"))
}

impl AdminServer {
    pub fn start(listener: TcpListener, parts: Arc<Parts>, access: Access, registries: Registries, ready: Ready) -> Result<AdminServer> {
        let addr = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let shared =
            Shared { parts, access, registries, ready, questions: Arc::new(Semaphore::new(QUESTIONS)), stopping: stopping.clone() };
        let router = router(Arc::new(shared));
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the admin listener ended");
            }
        });
        Ok(AdminServer { addr, stopping, task })
    }

    /// Running answers end; nothing new is answered.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.task.abort();
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/api/{*path}", get(api))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "there is nothing here") })
        .with_state(shared)
}

async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    let Readiness { reasons, notes } = (shared.ready)();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = serde_json::json!({"ready": reasons.is_empty(), "reasons": reasons, "notes": notes});
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    let families: Vec<_> = shared.registries.lock().iter().flat_map(Registry::gather).collect();
    match encoder.encode(&families, &mut text) {
        Ok(()) => ([(header::CONTENT_TYPE, encoder.format_type().to_owned())], text).into_response(),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written"),
    }
}

async fn api(
    State(shared): State<Arc<Shared>>,
    Path(path): Path<String>,
    Parameters(parameters): Parameters<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    if let Err(why) = shared.access.place(&headers) {
        return problem(StatusCode::FORBIDDEN, why);
    }
    if shared.access.is_closed() {
        return problem(StatusCode::NOT_FOUND, "/api is off: admin.token_file or FOREBAY_TOKEN of this process gives it a token");
    }
    let Some(role) = shared.access.role(&headers) else {
        let mut answer = problem(StatusCode::UNAUTHORIZED, "a token of this process is needed: Authorization: Bearer TOKEN");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        return answer;
    };
    let query = match Query::from_path(&path, &parameters) {
        Ok(Some(query)) => query,
        Ok(None) => return problem(StatusCode::NOT_FOUND, "there is no such question"),
        Err(why) => return problem(StatusCode::BAD_REQUEST, &why),
    };
    let allowed = role >= query.needs();
    if query.needs() > Role::View || role > Role::View {
        tracing::info!(target: "audit", action = query.action(), role = ?role, allowed, "admin");
    }
    if !allowed {
        return problem(StatusCode::FORBIDDEN, "the view role sees masked records alone; this needs the token of all roles");
    }
    let Ok(permit) = shared.questions.clone().try_acquire_owned() else {
        let mut answer = problem(StatusCode::SERVICE_UNAVAILABLE, "too many questions at once");
        answer.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        return answer;
    };
    let (to, from) = mpsc::channel(LINES_WAITING);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut stream = Stream { to, stopping: shared.stopping.clone() };
        if let Err(error) = read::answer(&shared.parts, &query, role, &mut stream) {
            // The status is long sent: the last line says it.
            let _ = stream.line(format!("{{\"_error\":{}}}", serde_json::Value::from(format!("{error:#}"))));
        }
    });
    let body = futures::stream::unfold(from, |mut from| async {
        from.recv().await.map(|line| (Ok::<Bytes, std::convert::Infallible>(line), from))
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson"), (header::CACHE_CONTROL, "no-store")], Body::from_stream(body)).into_response()
}

/// Lines on their way to whoever asked.
struct Stream {
    to: mpsc::Sender<Bytes>,
    stopping: Arc<AtomicBool>,
}

impl Answer for Stream {
    fn line(&mut self, mut line: String) -> ControlFlow<()> {
        line.push('\n');
        if self.stopping.load(Ordering::Relaxed) || self.to.blocking_send(line.into()).is_err() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
    fn is_open(&self) -> bool {
        !self.to.is_closed() && !self.stopping.load(Ordering::Relaxed)
    }
}

fn problem(status: StatusCode, detail: &str) -> Response {
    let body = serde_json::json!({"type": "about:blank", "title": status.canonical_reason(), "status": status.as_u16(), "detail": detail});
    (status, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}
