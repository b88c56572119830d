//! Who may ask: two tokens, and nothing that a web page of another origin could send.
//!
//! Owns: tokens and their comparison, Host and Origin. Invariant: how long a comparison takes says nothing of a token.

use crate::read::Role;
use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::net::{IpAddr, SocketAddr};

pub struct Access {
    reveal: Option<[u8; 32]>,
    view: Option<[u8; 32]>,
    addr: SocketAddr,
}

/// What a process takes for its own. A role that has none is nobody's.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Of all roles.
    pub all: Option<String>,
    /// Of the role that sees masked records alone.
    pub view: Option<String>,
}

impl Access {
    /// For the listener at `addr`.
    pub fn new(tokens: &Tokens, addr: SocketAddr) -> Access {
        let digested = |token: &Option<String>| token.as_deref().map(digest);
        Access { reveal: digested(&tokens.all), view: digested(&tokens.view), addr }
    }

    /// There is no token that anybody could show.
    pub fn is_closed(&self) -> bool {
        self.reveal.is_none() && self.view.is_none()
    }

    /// 256 random bits.
    pub fn fresh_token() -> anyhow::Result<String> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|e| anyhow::anyhow!("the system gives no randomness: {e}"))?;
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The role of whoever sent these headers.
    pub fn role(&self, headers: &HeaderMap) -> Option<Role> {
        let token = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = token.split_once(' ')?;
        let asked = digest(token.trim());
        let is = |token: &Option<[u8; 32]>| token.as_ref().is_some_and(|token| equal(&asked, token));
        let (reveal, view) = (is(&self.reveal), is(&self.view));
        match (scheme.eq_ignore_ascii_case("bearer"), reveal, view) {
            (true, true, _) => Some(Role::Reveal),
            (true, false, true) => Some(Role::View),
            (true, false, false) | (false, _, _) => None,
        }
    }

    /// A foreign Host is DNS rebinding, a foreign Origin a page that has no business here.
    pub fn place(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        let host = headers.get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
        if !self.is_ours(host) {
            return Err("this Host is not the admin listener");
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        match origin.to_str().ok().and_then(|o| o.strip_prefix("http://")) {
            Some(origin) if origin.eq_ignore_ascii_case(host) => Ok(()),
            Some(_) | None => Err("pages of another origin may not ask"),
        }
    }

    fn is_ours(&self, host: &str) -> bool {
        if let Ok(addr) = host.parse::<SocketAddr>() {
            return addr.port() == self.addr.port() && self.is_our_ip(addr.ip());
        }
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
        port.parse() == Ok(self.addr.port()) && name.eq_ignore_ascii_case("localhost") && self.is_our_ip(self.loopback())
    }

    /// A listener on every address is asked by any of them.
    fn is_our_ip(&self, ip: IpAddr) -> bool {
        ip == self.addr.ip() || self.addr.ip().is_unspecified() || (ip.is_loopback() && self.addr.ip().is_loopback())
    }
    fn loopback(&self) -> IpAddr {
        if self.addr.is_ipv4() { std::net::Ipv4Addr::LOCALHOST.into() } else { std::net::Ipv6Addr::LOCALHOST.into() }
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().expect("a value"))).collect()
    }

    #[test]
    fn a_token_is_a_role() {
        let tokens = Tokens { all: Some("all".to_owned()), view: Some("view".to_owned()) };
        let access = Access::new(&tokens, "127.0.0.1:8081".parse().expect("an address"));
        for (authorization, role) in [
            ("Bearer all", Some(Role::Reveal)),
            ("bearer view", Some(Role::View)),
            ("Bearer al", None),
            ("Bearer ", None),
            ("Basic all", None),
            ("all", None),
        ] {
            assert_eq!(access.role(&headers(&[(header::AUTHORIZATION, authorization)])), role, "{authorization}");
        }
        assert_eq!(access.role(&HeaderMap::new()), None);
        let closed = Access::new(&Tokens::default(), "127.0.0.1:8081".parse().expect("an address"));
        assert!(closed.is_closed() && !access.is_closed());
        assert_eq!(closed.role(&headers(&[(header::AUTHORIZATION, "Bearer ")])), None, "no token is not an empty one");
        assert_ne!(Access::fresh_token().expect("random"), Access::fresh_token().expect("random"));
    }

    #[test]
    fn only_our_own_address_and_origin() {
        for (listener, host, origin, allowed) in [
            ("127.0.0.1:8081", "127.0.0.1:8081", None, true),
            ("127.0.0.1:8081", "localhost:8081", None, true),
            ("127.0.0.1:8081", "LOCALHOST:8081", Some("http://LOCALHOST:8081"), true),
            ("127.0.0.1:8081", "localhost:8082", None, false),
            ("127.0.0.1:8081", "evil.example:8081", None, false),
            ("127.0.0.1:8081", "evil.example", None, false),
            ("127.0.0.1:8081", "127.0.0.1:8081", Some("http://evil.example"), false),
            ("127.0.0.1:8081", "127.0.0.1:8081", Some("null"), false),
            ("127.0.0.1:8081", "", None, false),
            ("[::1]:8081", "[::1]:8081", None, true),
            ("0.0.0.0:8081", "192.0.2.1:8081", None, true),
            ("192.0.2.1:8081", "127.0.0.1:8081", None, false),
        ] {
            let access = Access::new(&Tokens::default(), listener.parse().expect("an address"));
            let mut sent = headers(&[(header::HOST, host)]);
            sent.extend(origin.map(|o| (header::ORIGIN, o.parse().expect("a value"))));
            assert_eq!(access.place(&sent).is_ok(), allowed, "{listener} {host} {origin:?}");
        }
    }
}
