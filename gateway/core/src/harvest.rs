//! Harvest: the events of a kept request as they go to the log.

use bytes::Bytes;
use forebay_schemas::wire::harvested::Harvested;
use forebay_schemas::wire::raw_request::RawRequest;
use crate::limits::Limits;

/// Visits each event with its partition key, in order. The same for the live path and after a crash.
pub fn each(raw: &RawRequest, decoded: &Bytes, limits: &Limits, visit: &mut dyn FnMut(&str, &Harvested)) {
    let _ = (raw, decoded, limits, visit);
    todo!()
}

/// `each`, collected.
pub fn harvest(raw: &RawRequest, decoded: &Bytes, limits: &Limits) -> Vec<(String, Harvested)> {
    let mut all = Vec::with_capacity(raw.events.len());
    each(raw, decoded, limits, &mut |key, event| all.push((key.to_owned(), event.clone())));
    all
}

/// The decoded body of a landed record, as `Accepted::decoded` was. No limit applies: it was kept.
pub fn decode_again(raw: &RawRequest) -> Bytes {
    let _ = raw;
    todo!()
}
