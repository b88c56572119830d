//! Who sent a request: the connection's peer, and the client behind the trusted proxies.
//!
//! Owns: `X-Forwarded-For` by trusted hop count, and what a source lets stay of an address before the spool.
//! Invariant: an address that no trusted proxy vouches for is never taken for the client's.

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What is kept of addresses (design §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpPolicy {
    #[default]
    Keep,
    /// The network alone: /24 of IPv4, /48 of IPv6.
    Truncate,
    Drop,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// Empty when the policy drops it.
    pub peer: String,
    pub client_ip: Option<String>,
}

/// `hops` = how many proxies in front of us append to `X-Forwarded-For`; 0 trusts none of it.
pub fn addresses(peer: SocketAddr, headers: &HeaderMap, hops: usize, policy: IpPolicy) -> Addresses {
    let peer = peer.ip().to_canonical();
    let client = if hops == 0 { Some(peer) } else { forwarded(headers, hops) };
    Addresses { peer: apply(policy, peer).unwrap_or_default(), client_ip: client.and_then(|ip| apply(policy, ip)) }
}

/// The entry that the outermost trusted proxy wrote. A list shorter than the hops was written by trusted ones alone.
fn forwarded(headers: &HeaderMap, hops: usize) -> Option<IpAddr> {
    let lines = headers.get_all("x-forwarded-for").iter().rev();
    let mut entries = lines.flat_map(|line| line.as_bytes().rsplit(|b| *b == b','));
    let mut chosen = None;
    for _ in 0..hops {
        match entries.next() {
            Some(entry) => chosen = Some(entry),
            None => break,
        }
    }
    parse(std::str::from_utf8(chosen?).ok()?)
}

/// `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1`, `[2001:db8::1]:443`, quoted or with a zone; `unknown` is nobody.
fn parse(entry: &str) -> Option<IpAddr> {
    let text = entry.trim().trim_matches('"');
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None if text.matches(':').count() == 1 => text.split_once(':')?.0,
        None => text,
    };
    let bare = bare.split_once('%').map_or(bare, |(address, _zone)| address);
    bare.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

fn apply(policy: IpPolicy, ip: IpAddr) -> Option<String> {
    match policy {
        IpPolicy::Keep => Some(ip.to_string()),
        IpPolicy::Truncate => Some(network(ip).to_string()),
        IpPolicy::Drop => None,
    }
}

fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from(u32::from(v4) & 0xffff_ff00)),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) & !((1 << 80) - 1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hops: usize, lines: &[&str], expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("x-forwarded-for", line.parse().expect("header value"));
        }
        let peer = "[::ffff:10.0.0.9]:5000".parse().expect("address");
        let found = addresses(peer, &headers, hops, IpPolicy::Keep);
        assert_eq!((found.peer.as_str(), found.client_ip.as_deref()), ("10.0.0.9", expected), "{hops} {lines:?}");
    }

    #[test]
    fn the_client_is_whom_a_trusted_proxy_saw() {
        check(0, &["6.6.6.6"], Some("10.0.0.9"));
        check(1, &["6.6.6.6, 192.0.2.1"], Some("192.0.2.1"));
        check(2, &["6.6.6.6, 192.0.2.1", "10.0.0.1"], Some("192.0.2.1"));
        check(3, &["192.0.2.1"], Some("192.0.2.1"));
        check(1, &["192.0.2.1:4711"], Some("192.0.2.1"));
        check(1, &["2001:db8::1"], Some("2001:db8::1"));
        check(1, &["\"[2001:db8::1]:443\""], Some("2001:db8::1"));
        check(1, &["[fe80::1%eth0]"], Some("fe80::1"));
        check(1, &["::ffff:192.0.2.7"], Some("192.0.2.7"));
        for nobody in ["unknown", "", "_hidden", "1.2.3", ",", "[::1"] {
            check(1, &[nobody], None);
        }
        check(1, &[], None);
    }

    #[test]
    fn policies_act_on_both_addresses() {
        let headers = HeaderMap::new();
        for (peer, policy, kept) in [
            ("203.0.113.77:1", IpPolicy::Truncate, Some("203.0.113.0")),
            ("[2001:db8:1:2:3::4]:1", IpPolicy::Truncate, Some("2001:db8:1::")),
            ("203.0.113.77:1", IpPolicy::Drop, None),
        ] {
            let found = addresses(peer.parse().expect("address"), &headers, 0, policy);
            assert_eq!((found.peer.as_str(), found.client_ip.as_deref()), (kept.unwrap_or(""), kept));
        }
    }
}
