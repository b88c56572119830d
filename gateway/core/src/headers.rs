//! What of a request's head is landed (design §4.1), and what of it goes on with each event.

use forebay_schemas::wire::raw_request::Header;
use http::HeaderMap;

/// Whether headers that hold addresses (`X-Forwarded-For` …) are landed with their values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressHeaders {
    Land,
    Hide,
}

/// Snowplow's `SP-Anonymous`: the sender wants no address and no cookie kept. Acts before the spool.
pub fn anonymous(headers: &HeaderMap) -> bool {
    headers.contains_key("sp-anonymous")
}

pub fn landed(headers: &HeaderMap, addresses: AddressHeaders) -> Vec<Header> {
    let _ = (headers, addresses);
    todo!()
}

/// The target with secrets in its query replaced by a marker of equal length.
pub fn landed_target(target: &str) -> String {
    let _ = target;
    todo!()
}
