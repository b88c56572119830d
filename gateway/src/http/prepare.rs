//! From a whole request to the record for the spool: open, source, ids, addresses. Pure work, no waiting.
//!
//! Owns: which source a request belongs to and whether that source may send it. Does not own: decoding (gateway-core).
//! Invariant: what the source or `SP-Anonymous` does not want kept of addresses is gone before the spool.

use super::handler::{App, later};
use crate::budget::Reserved;
use crate::bulkhead::{Crowded, Seat};
use crate::client::{IpPolicy, addresses};
use crate::sources::Source;
use crate::{chance, clock};
use forebay_gateway_core::accept::{Accepted, Opened, Request, Stamp, Verdict};
use forebay_gateway_core::headers::{AddressHeaders, anonymous};
use forebay_gateway_core::{EventsRoute, Refusal, RefusalReason, keys, open};
use forebay_schemas::id::RequestId;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::raw_request::RawRequest;
use http::header::ORIGIN;
use http::request::Parts;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use uuid::{Builder, Uuid};

/// A request that only lacks its id and its time, which the intake gives.
pub struct Prepared {
    pub raw: RawRequest,
    pub accepted: Accepted,
    pub reserved: Reserved,
    pub source: Arc<Source>,
    /// Among the source's requests in flight.
    pub seat: Seat,
}

/// A refusal, and whose request it was as far as that is known.
pub struct Refused {
    pub refusal: Refusal,
    pub source: Option<Arc<Source>>,
    /// As the body's shape decided it, once it is known.
    pub route: Option<EventsRoute>,
}

impl Refused {
    pub fn by(refusal: Refusal, source: Arc<Source>) -> Refused {
        Refused { refusal, source: Some(source), route: None }
    }
    pub fn on(self, route: EventsRoute) -> Refused {
        Refused { route: Some(route), ..self }
    }
}
impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        Refused { refusal, source: None, route: None }
    }
}
impl From<RefusalReason> for Refused {
    fn from(reason: RefusalReason) -> Refused {
        Refusal::from(reason).into()
    }
}

pub fn prepare(app: &App, peer: SocketAddr, route: &EventsRoute, request: Request, reserved: Reserved) -> Result<Prepared, Refused> {
    let opened = open(route, &request, &app.limits)?;
    let route = opened.route();
    accept(app, peer, opened, request, reserved).map_err(|refused| refused.on(route))
}

fn accept(app: &App, peer: SocketAddr, opened: Opened, request: Request, mut reserved: Reserved) -> Result<Prepared, Refused> {
    let now = clock::now();
    let source = app.sources.find(opened.keys(), now)?.clone();
    let dialects = &source.config.dialects;
    if !dialects.is_empty() && !dialects.contains(&opened.dialect()) {
        return Err(Refused::by(RefusalReason::DialectNotAllowed.into(), source));
    }
    let origin = request.headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    if origin.is_some_and(|origin| !source.origins.allow(origin)) {
        return Err(Refused::by(RefusalReason::OriginNotAllowed.into(), source));
    }
    let accepted = match opened.accept(&source.config.name, &mut || fresh(now)) {
        Verdict::Keep(accepted) => accepted,
        Verdict::Refuse(refusal) => return Err(Refused::by(refusal, source)),
    };
    if !reserved.reach(request.body.len() + accepted.decoded.len()) {
        return Err(Refused::by(later(RefusalReason::Overloaded), source));
    }
    let seat = source.bulkhead.enter(accepted.events.len(), Instant::now()).map_err(|crowded| Refused::by(of(crowded), source.clone()))?;
    let policy = if anonymous(&request.headers) { IpPolicy::Drop } else { source.config.ip };
    let landed = match policy {
        IpPolicy::Keep => AddressHeaders::Land,
        IpPolicy::Truncate | IpPolicy::Drop => AddressHeaders::Hide,
    };
    let found = addresses(peer, &request.headers, app.proxy_hops, policy);
    let stamp = Stamp {
        request_id: RequestId(Uuid::nil()),
        received_at: now,
        gateway: app.gateway.clone(),
        peer: found.peer,
        client_ip: found.client_ip,
    };
    let raw = accepted.raw(&request, stamp, landed);
    Ok(Prepared { raw, accepted, reserved, source, seat })
}

/// Why the source whose key stands in the head may not send now, before the body is read. A key in the head comes before any
/// in the body; where there is none, the body may name another source than the head's rest.
pub fn crowded(app: &App, route: &EventsRoute, head: &Parts) -> Option<Refused> {
    if !app.sources.bounded() {
        return None;
    }
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    let keys = keys::of_head(&head.headers, target, route.dialect);
    let source = app.sources.find(&keys, clock::now()).ok().filter(|source| !source.config.write_keys.is_empty())?;
    let crowded = source.bulkhead.look(Instant::now()).err()?;
    Some(Refused::by(of(crowded), source.clone()))
}

fn of(crowded: Crowded) -> Refusal {
    match crowded {
        Crowded::Places => later(RefusalReason::Overloaded),
        Crowded::Rate(wait) => {
            let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            Refusal::from(RefusalReason::RateLimited).retry_after(seconds)
        }
    }
}

/// A random UUIDv7 for an event that has nothing else to be known by.
fn fresh(now: Micros) -> Uuid {
    let mut random = [0; 10];
    chance::fill(&mut random);
    Builder::from_unix_timestamp_millis(u64::try_from(now.millis()).unwrap_or(0), &random).into_uuid()
}
