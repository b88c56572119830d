//! Answers, each in its dialect (dialects.md). Without CORS headers and `Forebay-Request-Id`: the shell adds those.
//!
//! Owns: what an SDK is told, in words that make it do what is right: keep, resend or drop.
//! Invariants: no answer quotes input, but for event ids to their sender and a start-up request's own key; a pixel is
//! answered by its GIF with the honest status.

use crate::accept::Accepted;
use crate::dialect::{amplitude, ga4, native, posthog, segment};
use crate::limits::Limits;
use crate::refusal::{Refusal, RefusalReason};
use crate::route::{EventsRoute, Reply, Route, StartupRoute};
use bytes::Bytes;
use forebay_schemas::dialect::Dialect;
use forebay_schemas::id::RequestId;
use forebay_schemas::json::write_string;
use forebay_schemas::limit;
use http::header::{ALLOW, CACHE_CONTROL, EXPIRES, PRAGMA, RETRY_AFTER};
use http::{HeaderName, HeaderValue};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub status: u16,
    pub content_type: Option<&'static str>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
}

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";
const TEXT: &str = "text/plain; charset=utf-8";
const SCRIPT: &str = "application/javascript; charset=utf-8";

/// A transparent GIF of one pixel.
const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// The reason of a body that is kept but could not be read; the same word as the reject's (`reason::Reason`).
const UNREADABLE: &str = "unreadable";

impl Answer {
    fn new(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
        Answer { status, content_type: Some(content_type), headers: Vec::new(), body: body.into() }
    }
    fn with(mut self, name: HeaderName, value: HeaderValue) -> Answer {
        self.headers.push((name, value));
        self
    }
    fn empty(status: u16) -> Answer {
        Answer { status, content_type: None, headers: Vec::new(), body: Bytes::new() }
    }
    fn pixel(status: u16) -> Answer {
        Answer::new(status, "image/gif", GIF)
            .with(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store, must-revalidate"))
            .with(PRAGMA, HeaderValue::from_static("no-cache"))
            .with(EXPIRES, HeaderValue::from_static("0"))
            .with(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("cross-origin"))
    }
}

/// For a request that is durable in class `durability` (`spool`): 200, of GA4 204. A body that could not be read is kept as well;
/// its sender hears 400 if it is a server, 200 if it is a browser, which could do nothing but send it again. GA4's senders
/// know no error.
pub fn accepted(accepted: &Accepted, request_id: RequestId, durability: &'static str) -> Answer {
    if accepted.unreadable && !accepted.browser && accepted.route.reply != Reply::Ga4 {
        let detail = "the body could not be read; it is kept as it arrived";
        return failure(Some(&accepted.route), 400, UNREADABLE, detail, request_id, None);
    }
    match accepted.route.reply {
        Reply::Native => Answer::new(200, JSON, native::answer(accepted, request_id, durability)),
        Reply::Segment => Answer::new(200, JSON, &br#"{"success":true}"#[..]),
        Reply::Jitsu => Answer::new(200, JSON, &br#"{"ok":true}"#[..]),
        Reply::Snowplow => Answer::new(200, TEXT, &b"ok"[..]),
        Reply::PosthogNumber => Answer::new(200, JSON, &br#"{"status":1}"#[..]),
        Reply::PosthogText => Answer::new(200, JSON, &br#"{"status":"Ok"}"#[..]),
        Reply::PosthogResults => Answer::new(200, JSON, posthog::results(accepted)),
        Reply::Amplitude => Answer::new(200, JSON, amplitude::answer(accepted, request_id)),
        Reply::AmplitudeText => Answer::new(200, TEXT, &b"success"[..]),
        Reply::Mixpanel => Answer::new(200, TEXT, &b"1"[..]),
        Reply::MixpanelVerbose => Answer::new(200, JSON, &br#"{"status":1,"error":null}"#[..]),
        Reply::MixpanelImport => {
            Answer::new(200, JSON, format!(r#"{{"code":200,"num_records_imported":{},"status":"OK"}}"#, accepted.events.len()))
        }
        Reply::Ga4 => Answer::empty(204),
        Reply::Pixel => Answer::pixel(200),
    }
}

/// For a request that is not kept; also for `Route::NotFound` and `Route::MethodNotAllowed`.
pub fn refused(route: &Route, refusal: &Refusal, request_id: RequestId) -> Answer {
    let events = match route {
        Route::Events(events) => Some(events),
        Route::Startup(_) | Route::Preflight | Route::Limits | Route::NotFound | Route::MethodNotAllowed(_) => None,
    };
    let status = status(events, refusal.reason);
    let answer = failure(events, status, refusal.reason.name(), &refusal.detail, request_id, refusal.retry_after_s);
    match route {
        Route::MethodNotAllowed(methods) => answer.with(ALLOW, HeaderValue::from_static(methods)),
        Route::Events(_) | Route::Startup(_) | Route::Preflight | Route::Limits | Route::NotFound => answer,
    }
}

/// PostHog's SDKs drop their events on 429 and send them again on 503.
fn status(route: Option<&EventsRoute>, reason: RefusalReason) -> u16 {
    match (route.map(|route| route.dialect), reason.status()) {
        (Some(Dialect::Posthog), 429) => 503,
        (_, status) => status,
    }
}

fn failure(
    route: Option<&EventsRoute>,
    status: u16,
    reason: &str,
    detail: &str,
    request_id: RequestId,
    retry_after_s: Option<u32>,
) -> Answer {
    let mut text = String::new();
    write_string(detail, &mut text);
    let answer = match route.map(|route| route.reply) {
        None | Some(Reply::Native) => Answer::new(
            status,
            PROBLEM,
            format!(
                r#"{{"type":"urn:forebay:refusal:{reason}","title":"{}","status":{status},"detail":{text},"reason":"{reason}","request_id":"{request_id}"}}"#,
                reason.replace('_', " ")
            ),
        ),
        Some(Reply::Segment) => Answer::new(status, JSON, format!(r#"{{"success":false,"code":"{reason}","message":{text}}}"#)),
        Some(Reply::Jitsu) => Answer::new(status, JSON, format!(r#"{{"ok":false,"error":"{reason}","message":{text}}}"#)),
        Some(Reply::Snowplow) => Answer::new(status, TEXT, reason.to_owned()),
        Some(Reply::PosthogNumber | Reply::PosthogText | Reply::PosthogResults) => {
            Answer::new(status, JSON, format!(r#"{{"type":"{}","code":"{reason}","detail":{text},"attr":null}}"#, kind(status)))
        }
        Some(Reply::Amplitude) => Answer::new(status, JSON, format!(r#"{{"code":{status},"error":{text},"reason":"{reason}"}}"#)),
        Some(Reply::AmplitudeText) => Answer::new(status, TEXT, reason.to_owned()),
        Some(Reply::Mixpanel) => Answer::new(status, TEXT, &b"0"[..]),
        Some(Reply::MixpanelVerbose) => Answer::new(status, JSON, format!(r#"{{"status":0,"error":{text}}}"#)),
        Some(Reply::MixpanelImport) => Answer::new(status, JSON, format!(r#"{{"code":{status},"error":{text},"status":"{reason}"}}"#)),
        Some(Reply::Ga4) => Answer::empty(status),
        Some(Reply::Pixel) => Answer::pixel(status),
    };
    match retry_after_s {
        Some(seconds) => answer.with(RETRY_AFTER, HeaderValue::from(seconds)),
        None => answer,
    }
}

/// PostHog's word for a status.
fn kind(status: u16) -> &'static str {
    match status {
        401 | 403 => "authentication_error",
        429 => "throttled_error",
        500.. => "server_error",
        _ => "validation_error",
    }
}

/// What an SDK asks for before it sends anything.
pub fn startup(route: &StartupRoute) -> Answer {
    match route {
        StartupRoute::SegmentSettings { write_key } => Answer::new(200, JSON, segment::settings(write_key)),
        StartupRoute::SegmentMetrics => Answer::new(200, JSON, &br#"{"success":true}"#[..]),
        StartupRoute::RudderSourceConfig { write_key } => Answer::new(200, JSON, segment::source_config(write_key)),
        StartupRoute::PosthogDecide => Answer::new(200, JSON, posthog::decide()),
        StartupRoute::PosthogFlags => Answer::new(200, JSON, posthog::flags()),
        StartupRoute::PosthogConfig { token } => Answer::new(200, JSON, posthog::config(token)),
        StartupRoute::PosthogConfigScript { token } => Answer::new(200, SCRIPT, posthog::config_script(token)),
        StartupRoute::Ga4Validation => Answer::new(200, JSON, ga4::VALIDATION),
    }
}

pub fn preflight() -> Answer {
    Answer::empty(204)
}

/// `GET /v1/limits`.
pub fn limits(limits: &Limits) -> Answer {
    Answer::new(
        200,
        JSON,
        format!(
            r#"{{"wire_bytes":{},"inflated_bytes":{},"events":{},"event_bytes":{},"event_id_bytes":{},"nesting":{},"target_bytes":{},"headers_bytes":{}}}"#,
            limits.wire_bytes,
            limits.inflated_bytes,
            limits.events,
            limits.event_bytes,
            limit::EVENT_ID_BYTES,
            limit::JSON_DEPTH,
            limit::TARGET_BYTES,
            limit::HEADERS_BYTES
        ),
    )
}

#[cfg(test)]
mod tests;
