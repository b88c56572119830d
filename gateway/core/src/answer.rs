//! Answers, each in its dialect (dialects.md). Without CORS headers and `Forebay-Request-Id`: the shell adds those.

use crate::accept::Accepted;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::route::{Route, StartupRoute};
use bytes::Bytes;
use forebay_schemas::id::RequestId;
use http::{HeaderName, HeaderValue};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub status: u16,
    pub content_type: Option<&'static str>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
}

/// For a request that is durable in class `durability` (`spool`). 200; 400 for an unreadable one of a server.
pub fn accepted(accepted: &Accepted, request_id: RequestId, durability: &'static str) -> Answer {
    let _ = (accepted, request_id, durability);
    todo!()
}

/// For a request that is not kept; also for `Route::NotFound` and `Route::MethodNotAllowed`.
pub fn refused(route: &Route, refusal: &Refusal, request_id: RequestId) -> Answer {
    let _ = (route, refusal, request_id);
    todo!()
}

pub fn startup(route: &StartupRoute) -> Answer {
    let _ = route;
    todo!()
}

pub fn preflight() -> Answer {
    todo!()
}

pub fn limits(limits: &Limits) -> Answer {
    let _ = limits;
    todo!()
}
