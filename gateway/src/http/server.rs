//! Connections of the public listener: accepted within a bound, HTTP/1.1 with keep-alive, closed gracefully.
//!
//! Owns: sockets and their time limits. Does not own: what a request means (`handler`).
//! Invariant: sockets beyond `limits.connections` wait in the kernel's queue, unread.

use super::handler::{App, handle};
use super::socket::Socket;
use forebay_schemas::limit;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// After `accept` failed (no file handles left), before the next try.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// Header lines of one request.
const HEADERS_MAX: usize = 256;

/// Accepts until `stop` turns true, then lets every connection finish the request it is in.
pub async fn serve(listener: TcpListener, app: Arc<App>, mut stop: watch::Receiver<bool>) {
    let free = Arc::new(Semaphore::new(app.limits_config.connections));
    let mut connections = JoinSet::new();
    while !*stop.borrow_and_update() {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            _ = stop.changed() => break,
            accepted = next(&listener, &free) => accepted,
        };
        let Some((stream, peer, permit)) = accepted else { continue };
        let (app, stop) = (app.clone(), stop.clone());
        connections.spawn(async move {
            connection(stream, peer, app, stop).await;
            drop(permit);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

type Accepted = (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit);

async fn next(listener: &TcpListener, free: &Arc<Semaphore>) -> Option<Accepted> {
    let permit = free.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, permit)),
        Err(error) => {
            tracing::warn!(%error, "no connection can be accepted");
            tokio::time::sleep(ACCEPT_REST).await;
            None
        }
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, app: Arc<App>, mut stop: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let header_timeout = app.limits_config.header_timeout.0;
    let socket = Socket::new(stream, app.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let app = app.clone();
        async move { Ok::<_, Infallible>(handle(app, peer, request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(limit::TARGET_BYTES + limit::HEADERS_BYTES)
        .max_headers(HEADERS_MAX)
        // A client that has sent all and closes its half still gets its answer.
        .half_close(true)
        .serve_connection(TokioIo::new(socket), service);
    tokio::pin!(serving);
    // What fails here is the client's connection: it left, or spoke no HTTP, which hyper has answered (`socket`).
    tokio::select! {
        _ = serving.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}
