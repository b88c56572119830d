//! Accept: from a request to its events with their ids.

use crate::headers::AddressHeaders;
use crate::keys::Keys;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::route::EventsRoute;
use bytes::Bytes;
use forebay_schemas::dialect::Dialect;
use forebay_schemas::id::RequestId;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::raw_request::{EventRef, RawRequest};
use http::{HeaderMap, Method};
use uuid::Uuid;

/// A whole request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    /// Path and query as sent.
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A request whose encodings are off and whose events are found; its source is not known yet.
#[derive(Clone, Debug)]
pub struct Opened {
    // private
}

pub enum Verdict {
    Keep(Accepted),
    Refuse(Refusal),
}

/// A request to be kept.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub route: EventsRoute,
    pub dialect: Dialect,
    pub source: String,
    /// What the events' offsets point into.
    pub decoded: Bytes,
    pub events: Vec<EventRef>,
    /// The body could not be inflated or split: one event of bytes stands for it.
    pub unreadable: bool,
    /// A browser sent it.
    pub browser: bool,
    /// Limits that it was accepted under.
    pub limits: Limits,
}

/// What the shell knows of a request besides its bytes.
#[derive(Clone, Debug)]
pub struct Stamp {
    pub request_id: RequestId,
    pub received_at: Micros,
    pub gateway: String,
    /// Empty when the source's policy drops addresses.
    pub peer: String,
    pub client_ip: Option<String>,
}

pub fn open(route: &EventsRoute, request: &Request, limits: &Limits) -> Result<Opened, Refusal> {
    let _ = (route, request, limits);
    todo!()
}

/// `open` and `Opened::accept` in one.
pub fn accept(route: &EventsRoute, request: &Request, source: &str, limits: &Limits, fresh: &mut dyn FnMut() -> Uuid) -> Verdict {
    let _ = (route, request, source, limits, fresh);
    todo!()
}

impl Opened {
    pub fn dialect(&self) -> Dialect {
        todo!()
    }
    /// Write keys and app ids of head and body, first found first.
    pub fn keys(&self) -> &Keys {
        todo!()
    }
    /// Gives every event its id. `fresh` yields random UUIDv7s for events that have nothing else to be known by.
    pub fn accept(self, source: &str, fresh: &mut dyn FnMut() -> Uuid) -> Verdict {
        let _ = (source, fresh);
        todo!()
    }
}

impl Accepted {
    /// The record for the spool.
    pub fn raw(&self, request: &Request, stamp: Stamp, addresses: AddressHeaders) -> RawRequest {
        let _ = (request, stamp, addresses);
        todo!()
    }
}
