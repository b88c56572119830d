//! Which dialect and role a method and path have, known before the body is read.
//!
//! Owns: the one table of routes. Does not own: what a body holds (`split`), how it is answered (`answer`).
//! Invariants: a path means the same with and without a trailing slash; the table's order is the order of trial, and
//! `/{vendor}/{version}` comes last.

use crate::query;
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
    /// The dialect that shares the path: a body's shape says which of the two it is (`dialect::of_shape`).
    pub shared: Option<Dialect>,
    /// Where the events stand in the request.
    pub form: Form,
    /// Who calls this route, where headers do not say more (`Accepted::browser`).
    pub audience: Audience,
    pub reply: Reply,
    /// The Segment call that the path names (`/v1/track` → `track`), for bodies without a `type`.
    pub call: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// In the body.
    Body,
    /// In the body, if it has the dialect's own shape; else the path is nobody's (`/{vendor}/{version}`).
    BodyOfShape,
    /// In the fields of a form.
    Fields,
    /// The query is one event.
    Query,
    /// In the `data` parameter of the query.
    QueryData,
    /// The body is one event's data, its attributes stand in headers. No row says so: the head does (`dialect::of_head`).
    Data,
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
    /// `{"success":true}`; RudderStack reads the status alone.
    Segment,
    /// `{"ok":true}`: must be JSON.
    Jitsu,
    /// Text `ok`.
    Snowplow,
    /// `{"status":1}`.
    PosthogNumber,
    /// `{"status":"Ok"}`.
    PosthogText,
    /// Capture V1: a result for each event, by its id.
    PosthogResults,
    /// JSON with `code`: without it Amplitude's SDKs send again.
    Amplitude,
    /// Text `success`.
    AmplitudeText,
    /// Text `1`.
    Mixpanel,
    /// `{"status":1,"error":null}`.
    MixpanelVerbose,
    /// `{"code":200,"num_records_imported":n,"status":"OK"}`.
    MixpanelImport,
    /// A status and nothing else, whether the body could be read or not: Google's never answers an error.
    Ga4,
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
    /// GA4's validation server: `/debug/mp/collect`.
    Ga4Validation,
}

const READ: &str = "GET, HEAD, OPTIONS";
const SEND: &str = "POST, OPTIONS";
const BOTH: &str = "GET, HEAD, POST, OPTIONS";

struct Row {
    path: &'static str,
    methods: &'static str,
    route: EventsRoute,
}

const fn row(path: &'static str, dialect: Dialect, audience: Audience, reply: Reply, call: Option<&'static str>) -> Row {
    Row { path, methods: SEND, route: EventsRoute { dialect, shared: None, form: Form::Body, audience, reply, call } }
}
const fn pixel(path: &'static str, dialect: Dialect) -> Row {
    let route = EventsRoute { dialect, shared: None, form: Form::Query, audience: Audience::Browser, reply: Reply::Pixel, call: None };
    Row { path, methods: READ, route }
}
/// A Segment call as a query: dots in names are levels. Jitsu's has the whole event in `data`, too.
const fn call_pixel(path: &'static str, call: &'static str) -> Row {
    let row = pixel(path, Dialect::Segment);
    Row { route: EventsRoute { call: Some(call), ..row.route }, ..row }
}
/// PostHog's routes take the body, or for old libraries the `data` parameter of a GET.
const fn posthog(path: &'static str, shared: Option<Dialect>, audience: Audience, reply: Reply) -> Row {
    Row { path, methods: BOTH, route: EventsRoute { dialect: Dialect::Posthog, shared, form: Form::Body, audience, reply, call: None } }
}
/// So do Mixpanel's.
const fn mixpanel(path: &'static str, audience: Audience, reply: Reply) -> Row {
    let route = EventsRoute { dialect: Dialect::Mixpanel, shared: None, form: Form::Body, audience, reply, call: None };
    Row { path, methods: BOTH, route }
}

const fn single(path: &'static str, audience: Audience, reply: Reply, call: &'static str) -> Row {
    row(path, Dialect::Segment, audience, reply, Some(call))
}

use Audience::{Browser, Server};

/// Paths as they stand, without a trailing slash.
static ROWS: &[Row] = &[
    row("/v1/events", Dialect::Native, Server, Reply::Native, None),
    pixel("/v1/pixel.gif", Dialect::Native),
    // Segment: one letter from browsers and phones, words and `batch` from servers and RudderStack.
    row("/v1/batch", Dialect::Segment, Server, Reply::Segment, None),
    row("/v1/b", Dialect::Segment, Browser, Reply::Segment, None),
    single("/v1/t", Browser, Reply::Segment, "track"),
    single("/v1/p", Browser, Reply::Segment, "page"),
    single("/v1/i", Browser, Reply::Segment, "identify"),
    single("/v1/g", Browser, Reply::Segment, "group"),
    single("/v1/a", Browser, Reply::Segment, "alias"),
    single("/v1/s", Browser, Reply::Segment, "screen"),
    single("/v1/track", Server, Reply::Segment, "track"),
    single("/v1/page", Server, Reply::Segment, "page"),
    single("/v1/identify", Server, Reply::Segment, "identify"),
    single("/v1/group", Server, Reply::Segment, "group"),
    single("/v1/alias", Server, Reply::Segment, "alias"),
    single("/v1/screen", Server, Reply::Segment, "screen"),
    row("/beacon/v1/batch", Dialect::Segment, Browser, Reply::Segment, None),
    call_pixel("/pixel/v1/track", "track"),
    call_pixel("/pixel/v1/page", "page"),
    // Jitsu.
    row("/api/s/batch", Dialect::Segment, Browser, Reply::Jitsu, None),
    single("/api/s/track", Browser, Reply::Jitsu, "track"),
    single("/api/s/page", Browser, Reply::Jitsu, "page"),
    single("/api/s/identify", Browser, Reply::Jitsu, "identify"),
    single("/api/s/group", Browser, Reply::Jitsu, "group"),
    single("/api/s/alias", Browser, Reply::Jitsu, "alias"),
    single("/api/s/screen", Browser, Reply::Jitsu, "screen"),
    call_pixel("/api/px/track", "track"),
    call_pixel("/api/px/page", "page"),
    call_pixel("/api/px/identify", "identify"),
    call_pixel("/api/px/group", "group"),
    call_pixel("/api/px/screen", "screen"),
    row("/api/s/s2s/batch", Dialect::Segment, Server, Reply::Jitsu, None),
    single("/api/s/s2s/track", Server, Reply::Jitsu, "track"),
    single("/api/s/s2s/page", Server, Reply::Jitsu, "page"),
    single("/api/s/s2s/identify", Server, Reply::Jitsu, "identify"),
    single("/api/s/s2s/group", Server, Reply::Jitsu, "group"),
    single("/api/s/s2s/alias", Server, Reply::Jitsu, "alias"),
    single("/api/s/s2s/screen", Server, Reply::Jitsu, "screen"),
    // PostHog.
    posthog("/e", None, Browser, Reply::PosthogNumber),
    posthog("/i/v0/e", None, Browser, Reply::PosthogText),
    row("/i/v1/analytics/events", Dialect::Posthog, Server, Reply::PosthogResults, None),
    posthog("/batch", Some(Dialect::Amplitude), Server, Reply::PosthogText),
    posthog("/capture", None, Server, Reply::PosthogNumber),
    posthog("/track", Some(Dialect::Mixpanel), Browser, Reply::PosthogNumber),
    posthog("/engage", Some(Dialect::Mixpanel), Browser, Reply::PosthogNumber),
    // Amplitude. The old browser SDK posts a form to the root.
    row("/2/httpapi", Dialect::Amplitude, Server, Reply::Amplitude, None),
    Row {
        path: "",
        methods: SEND,
        route: EventsRoute {
            dialect: Dialect::Amplitude,
            shared: None,
            form: Form::Fields,
            audience: Browser,
            reply: Reply::AmplitudeText,
            call: None,
        },
    },
    // Mixpanel.
    mixpanel("/groups", Browser, Reply::Mixpanel),
    mixpanel("/import", Server, Reply::MixpanelImport),
    // GA4 Measurement Protocol.
    row("/mp/collect", Dialect::Ga4, Server, Reply::Ga4, None),
    // CloudEvents, all modes.
    row("/v1/cloudevents", Dialect::CloudEvents, Server, Reply::Native, None),
    // Snowplow. Its trackers keep an event for ever on 400, so this is a browser route whoever calls.
    pixel("/i", Dialect::Snowplow),
    pixel("/ice.png", Dialect::Snowplow),
    Row {
        path: "/com.snowplowanalytics.snowplow/tp2",
        methods: BOTH,
        route: EventsRoute {
            dialect: Dialect::Snowplow,
            shared: None,
            form: Form::Body,
            audience: Browser,
            reply: Reply::Snowplow,
            call: None,
        },
    },
];

/// Before the body is read: which dialect and role this method and path have.
pub fn route(method: &Method, target: &str) -> Route {
    if method == Method::OPTIONS {
        return Route::Preflight;
    }
    let (path, query) = query::split(target);
    let path = path.strip_suffix('/').unwrap_or(path);
    // The root is nobody's page.
    if let Some(row) = ROWS.iter().find(|row| row.path == path && (!path.is_empty() || method == Method::POST)) {
        return events(row, method, query);
    }
    if path == "/v1/limits" {
        return if reads(method) { Route::Limits } else { Route::MethodNotAllowed(READ) };
    }
    if let Some((startup, methods)) = startup(path, query) {
        let takes = (methods != SEND && reads(method)) || (methods != READ && method == Method::POST);
        return if takes { Route::Startup(startup) } else { Route::MethodNotAllowed(methods) };
    }
    vendor(path, method, query)
}

fn reads(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

fn events(row: &Row, method: &Method, query: &str) -> Route {
    let body = matches!(row.route.form, Form::Body | Form::Fields);
    if body && method == Method::POST || !body && reads(method) {
        let data = row.route.dialect == Dialect::Segment && !body && query::has(query, "data");
        return Route::Events(if data { EventsRoute { form: Form::QueryData, ..row.route } } else { row.route });
    }
    if body && row.methods == BOTH && reads(method) {
        match row.route.dialect {
            Dialect::Posthog | Dialect::Mixpanel if query::has(query, "data") => {
                return Route::Events(EventsRoute { form: Form::QueryData, ..row.route });
            }
            // Nothing can be read of it: `Allow` must not name the method that was just refused.
            Dialect::Posthog | Dialect::Mixpanel => return Route::MethodNotAllowed(SEND),
            Dialect::Snowplow => return Route::Events(EventsRoute { form: Form::Query, reply: Reply::Pixel, ..row.route }),
            Dialect::Native | Dialect::Segment | Dialect::Amplitude | Dialect::Ga4 | Dialect::CloudEvents => {}
        }
    }
    Route::MethodNotAllowed(row.methods)
}

fn startup(path: &str, query: &str) -> Option<(StartupRoute, &'static str)> {
    let parts: Vec<&str> = path.splitn(6, '/').collect();
    Some(match parts[..] {
        ["", "v1", "projects", key, "settings"] => (StartupRoute::SegmentSettings { write_key: query::decode(key) }, READ),
        ["", "v1", "m"] => (StartupRoute::SegmentMetrics, SEND),
        ["", "sourceConfig"] => (StartupRoute::RudderSourceConfig { write_key: query::param(query, "writeKey").unwrap_or_default() }, READ),
        ["", "debug", "mp", "collect"] => (StartupRoute::Ga4Validation, SEND),
        ["", "decide"] => (StartupRoute::PosthogDecide, BOTH),
        ["", "flags"] => (StartupRoute::PosthogFlags, BOTH),
        ["", "array", token, "config"] if is_token(token) => (StartupRoute::PosthogConfig { token: token.to_owned() }, READ),
        ["", "array", token, "config.js"] if is_token(token) => (StartupRoute::PosthogConfigScript { token: token.to_owned() }, READ),
        _ => return None,
    })
}

/// A token is put into a script, so it must be a plain word.
fn is_token(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Snowplow trackers may be told any `/{vendor}/{version}`. Such a path is theirs only if the request looks like theirs.
fn vendor(path: &str, method: &Method, query: &str) -> Route {
    let two = matches!(path.split('/').collect::<Vec<_>>()[..], ["", vendor, version] if !vendor.is_empty() && !version.is_empty());
    let route = |form, reply| {
        Route::Events(EventsRoute { dialect: Dialect::Snowplow, shared: None, form, audience: Audience::Browser, reply, call: None })
    };
    if two && method == Method::POST {
        return route(Form::BodyOfShape, Reply::Snowplow);
    }
    if two && reads(method) && query::has(query, "e") {
        return route(Form::Query, Reply::Pixel);
    }
    Route::NotFound
}

#[cfg(test)]
mod tests;
