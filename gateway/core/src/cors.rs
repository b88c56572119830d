//! CORS headers of every answer of any status (dialects.md, "Rules that cover all of them").

use http::{HeaderMap, HeaderName, HeaderValue};

/// Origins that a source, or a route's sources together, take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origins {
    Any,
    /// As browsers send them: `https://shop.example`.
    Listed(Vec<String>),
}

impl Origins {
    pub fn allow(&self, origin: &str) -> bool {
        match self {
            Origins::Any => true,
            Origins::Listed(list) => list.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)),
        }
    }
}

pub fn headers(request_headers: &HeaderMap, preflight: bool, origins: &Origins) -> Vec<(HeaderName, HeaderValue)> {
    let _ = (request_headers, preflight, origins);
    todo!()
}
