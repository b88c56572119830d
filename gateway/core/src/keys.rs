//! Write keys and app ids, by which the shell finds a request's source (design §5.7).

use http::HeaderMap;

/// First found first; without repeats.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keys {
    pub write_keys: Vec<String>,
    /// Snowplow's `aid`.
    pub app_ids: Vec<String>,
}

/// Keys in `Authorization` (Basic, Bearer), `X-Write-Key` and the query.
pub fn from_head(headers: &HeaderMap, target: &str) -> Keys {
    let _ = (headers, target);
    todo!()
}
