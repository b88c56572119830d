//! What goes around an answer of any status: CORS headers, `Forebay-Request-Id`, the count.
//!
//! Invariant: every answer of ours passes here.

use super::handler::{App, label};
use crate::sources::Source;
use bytes::Bytes;
use forebay_gateway_core::{Answer, Route, cors};
use forebay_schemas::id::RequestId;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use std::sync::Arc;

/// An answer and what is known of its request.
pub struct Outcome {
    pub answer: Answer,
    pub request_id: RequestId,
    /// Whose origins the CORS headers follow; unknown: those of all sources together.
    pub source: Option<Arc<Source>>,
    /// Metric label.
    pub dialect: &'static str,
    /// The rest of the request's body will not be read.
    pub close: bool,
}

impl Outcome {
    pub fn new(answer: Answer, request_id: RequestId, route: &Route) -> Outcome {
        Outcome { answer, request_id, source: None, dialect: label(route), close: false }
    }
}

const REQUEST_ID: HeaderName = HeaderName::from_static("forebay-request-id");

pub fn respond(app: &App, request: &HeaderMap, route: &Route, outcome: Outcome) -> Response<Full<Bytes>> {
    let Outcome { answer, request_id, source, dialect, close } = outcome;
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    app.metrics.requests.with_label_values(&[dialect, status.as_str()]).inc();
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if let Some(content_type) = answer.content_type {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    let origins = source.as_ref().map_or(app.sources.origins(), |source| &source.origins);
    for (name, value) in answer.headers.into_iter().chain(cors::headers(request, *route == Route::Preflight, origins)) {
        headers.append(name, value);
    }
    if let Ok(value) = HeaderValue::from_str(&request_id.to_string()) {
        headers.insert(REQUEST_ID, value);
    }
    if close {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
