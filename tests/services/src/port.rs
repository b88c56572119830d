//! Ports on loopback that nobody else takes, also while their service is down.
//!
//! Owns: the claim, a locked file for each port. Invariant: ports come from below the range of outgoing connections, so
//! none of these takes one in the moment between choosing and listening.

use crate::{Failure, Result};
use std::fs::File;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

/// A claimed port of 127.0.0.1. Dropped: free again.
pub struct Port {
    pub number: u16,
    _claim: Option<File>,
}

impl Port {
    /// A free port, chosen here.
    pub fn free() -> Result<Port> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        // Processes start at places of their own, else each would try what the others have.
        let start = (std::process::id().wrapping_mul(7_919) % u32::from(COUNT)) as u16;
        let claims = std::env::temp_dir().join("forebay-ports");
        std::fs::create_dir_all(&claims)?;
        for _ in 0..COUNT {
            let number = FIRST + (u32::from(start) + u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) as u16 % COUNT;
            let claim = File::create(claims.join(number.to_string()))?;
            if claim.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Ok(Port { number, _claim: Some(claim) });
            }
        }
        Err(Failure("no free port".to_owned()))
    }

    /// This port. `user` is named when somebody listens there.
    pub fn fixed(number: u16, user: &str) -> Result<Port> {
        match TcpListener::bind(("127.0.0.1", number)) {
            Ok(_) => Ok(Port { number, _claim: None }),
            Err(e) => Err(Failure(format!(
                "port {number}, which {user} needs, cannot be had: {e}. End what listens there, or set FOREBAY_UP_PORTS"
            ))),
        }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }
}
