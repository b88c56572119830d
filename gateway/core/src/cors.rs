//! CORS headers of every answer of any status (dialects.md, "Rules that cover all of them").
//!
//! Mirrors rather than lists, since SDKs send many headers of their own and `*` does not go with credentials.
//! `Origin: null` (sandboxed frames, files) is echoed without credentials.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ORIGIN, VARY,
};
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

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, OPTIONS, HEAD");
const MAX_AGE_S: HeaderValue = HeaderValue::from_static("7200");
const EXPOSED: HeaderValue = HeaderValue::from_static("Retry-After, Forebay-Request-Id");

/// For a request without `Origin`, or of one that is not allowed, only `Vary`.
pub fn headers(request_headers: &HeaderMap, preflight: bool, origins: &Origins) -> Vec<(HeaderName, HeaderValue)> {
    let vary = if preflight { "Origin, Access-Control-Request-Headers" } else { "Origin" };
    let mut out = vec![(VARY, HeaderValue::from_static(vary))];
    let Some(origin) = request_headers.get(ORIGIN) else { return out };
    if !origin.to_str().is_ok_and(|origin| origins.allow(origin)) {
        return out;
    }
    out.push((ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()));
    if origin != "null" {
        out.push((ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true")));
    }
    if preflight {
        out.push((ACCESS_CONTROL_ALLOW_METHODS, METHODS));
        if let Some(asked) = request_headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            out.push((ACCESS_CONTROL_ALLOW_HEADERS, asked.clone()));
        }
        out.push((ACCESS_CONTROL_MAX_AGE, MAX_AGE_S));
    } else {
        out.push((ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pairs: &[(&'static str, &'static str)], preflight: bool, origins: &Origins) -> String {
        let request = pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect();
        let line = |(name, value): (HeaderName, HeaderValue)| format!("{}: {}\n", name.as_str(), value.to_str().expect("ascii"));
        headers(&request, preflight, origins).into_iter().map(line).collect()
    }

    #[test]
    fn mirrors_what_is_allowed() {
        let listed = Origins::Listed(vec!["https://shop.example".to_owned()]);
        let origin = ("origin", "https://shop.example");
        let plain = "vary: Origin\naccess-control-allow-origin: https://shop.example\naccess-control-allow-credentials: true\naccess-control-expose-headers: Retry-After, Forebay-Request-Id\n";
        assert_eq!(shown(&[origin], false, &Origins::Any), plain);
        assert_eq!(shown(&[origin], false, &listed), plain);
        assert_eq!(shown(&[("origin", "https://other.example")], false, &listed), "vary: Origin\n");
        assert_eq!(shown(&[], false, &Origins::Any), "vary: Origin\n");
        assert_eq!(
            shown(&[("origin", "null")], false, &Origins::Any),
            "vary: Origin\naccess-control-allow-origin: null\naccess-control-expose-headers: Retry-After, Forebay-Request-Id\n"
        );
        assert_eq!(
            shown(&[origin, ("access-control-request-headers", "authorization,sp-anonymous")], true, &listed),
            "vary: Origin, Access-Control-Request-Headers\naccess-control-allow-origin: https://shop.example\naccess-control-allow-credentials: true\naccess-control-allow-methods: GET, POST, OPTIONS, HEAD\naccess-control-allow-headers: authorization,sp-anonymous\naccess-control-max-age: 7200\n"
        );
    }
}
