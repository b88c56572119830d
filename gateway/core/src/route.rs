//! Which dialect and role a method and path have, known before the body is read.
//!
//! Owns: the one table of routes. Does not own: what a body holds (`split`), how it is answered (`answer`).
//! Invariant: a path is matched with and without a trailing slash; `/{vendor}/{version}` comes last.

use forebay_schemas::dialect::Dialect;
use http::Method;

/// What a request line asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    Events(EventsRoute),
    /// Settings, flags, telemetry: answered, never landed, never counted. A body is read and dropped.
    Startup(StartupRoute),
    Preflight,
    Limits,
    NotFound,
    /// The methods that the path takes, for `Allow`.
    MethodNotAllowed(&'static str),
}

/// A route that takes events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventsRoute {
    pub dialect: Dialect,
    /// Where the events stand in the request.
    pub form: Form,
    /// Who calls this route, where headers do not say more (`Accepted::browser`).
    pub audience: Audience,
    pub reply: Reply,
    /// The Segment call that the path names (`/v1/track` → `track`), for bodies without a `type`.
    pub call: Option<&'static str>,
    /// The request was a HEAD: its answer has no body.
    pub head: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// In the body.
    Body,
    /// In the body, if it has the dialect's own shape; else the path is nobody's (`/{vendor}/{version}`).
    BodyOfShape,
    /// The query is one event.
    Query,
    /// In the `data` parameter of the query.
    QueryData,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    Browser,
    Server,
}

/// The answer that the SDK waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// JSON with each event's verdict.
    Native,
    /// `{"success":true}`.
    Segment,
    /// Text `ok`.
    Rudder,
    /// `{"ok":true}`.
    Jitsu,
    /// Text `ok`.
    Snowplow,
    /// `{"status":1}`.
    PosthogNumber,
    /// `{"status":"Ok"}`.
    PosthogText,
    /// A transparent 1×1 GIF that nobody caches.
    Pixel,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StartupRoute {
    /// Segment and Jitsu: `/v1/projects/{writeKey}/settings`.
    SegmentSettings { write_key: String },
    /// Segment's own telemetry: `/v1/m`.
    SegmentMetrics,
    /// RudderStack: `/sourceConfig`.
    RudderSourceConfig { write_key: String },
    /// PostHog: `/decide`.
    PosthogDecide,
    /// PostHog: `/flags`.
    PosthogFlags,
    /// PostHog: `/array/{token}/config`.
    PosthogConfig { token: String },
    /// PostHog: `/array/{token}/config.js`.
    PosthogConfigScript { token: String },
}

pub fn route(method: &Method, target: &str) -> Route {
    let _ = (method, target);
    todo!()
}
