//! What the tests of several stages share: requests from a line and a body, vectors, recordings.

use crate::accept::{Accepted, Request, Stamp, Verdict, accept};
use crate::harvest::{decode_again, harvest};
use crate::headers::AddressHeaders;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::route::{EventsRoute, Route, route};
use bytes::Bytes;
use forebay_schemas::id::RequestId;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::harvested::Harvested;
use forebay_schemas::wire::raw_request::{self, RawRequest};
use http::{HeaderMap, Method};
use uuid::Uuid;

/// `"POST /v1/batch"` and a body.
pub fn request(line: &str, body: &[u8]) -> Request {
    let (method, target) = line.split_once(' ').expect("method and target");
    Request {
        method: Method::from_bytes(method.as_bytes()).expect("a method"),
        target: target.to_owned(),
        headers: HeaderMap::new(),
        body: Bytes::copy_from_slice(body),
    }
}

pub fn with(mut request: Request, name: &'static str, value: &str) -> Request {
    request.headers.append(name, value.parse().expect("a header value"));
    request
}

pub fn events_route(request: &Request) -> EventsRoute {
    match route(&request.method, &request.target) {
        Route::Events(route) => route,
        other => panic!("{} {}: {other:?}", request.method, request.target),
    }
}

/// Ids that count from 1, as `fresh`.
pub fn counting() -> impl FnMut() -> Uuid {
    let mut next = 0;
    move || {
        next += 1;
        Uuid::from_u128(next)
    }
}

pub fn judged(request: &Request, limits: &Limits) -> Verdict {
    accept(&events_route(request), request, "shop", limits, &mut counting())
}
pub fn accepted(request: &Request, source: &str) -> Accepted {
    match accept(&events_route(request), request, source, &Limits::default(), &mut counting()) {
        Verdict::Keep(accepted) => accepted,
        Verdict::Refuse(refusal) => panic!("refused: {refusal:?}"),
    }
}
pub fn refused(request: &Request, limits: &Limits) -> Refusal {
    match judged(request, limits) {
        Verdict::Keep(_) => panic!("kept"),
        Verdict::Refuse(refusal) => refusal,
    }
}

pub fn request_id() -> RequestId {
    RequestId(Uuid::from_u128(7))
}
pub fn stamp() -> Stamp {
    Stamp {
        request_id: request_id(),
        received_at: Micros(1_796_021_400_000_000),
        gateway: "gw".to_owned(),
        peer: "192.0.2.9".to_owned(),
        client_ip: Some("192.0.2.1".to_owned()),
    }
}

/// The events as they go to the log, after checking that the landed record yields the same.
pub fn harvested(accepted: &Accepted, request: &Request) -> Vec<(String, Harvested)> {
    let raw = accepted.raw(request, stamp(), AddressHeaders::Land);
    let live = harvest(&raw, &accepted.decoded, &accepted.limits);
    let landed = landed(&raw);
    let again = harvest(&landed, &decode_again(&landed), &accepted.limits);
    assert_eq!(live, again, "the landed record yields the same events");
    live
}

/// A record, written and read back.
pub fn landed(raw: &RawRequest) -> RawRequest {
    let mut bytes = Vec::new();
    raw_request::encode(raw, &mut bytes);
    let block = Bytes::from(bytes);
    let landed = raw_request::decode(&mut forebay_schemas::wire::avro::Reader::new(&block), &block).expect("just written");
    assert_eq!(&landed, raw);
    landed
}

/// The cases of one file of `schemas/vectors`.
pub fn cases(file: &str) -> Vec<serde_json::Value> {
    let file: serde_json::Value = serde_json::from_str(file).expect("JSON");
    file["cases"].as_array().expect("cases").clone()
}
