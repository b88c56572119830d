//! What systemd wants to hear of a service of `Type=notify`: that it has started, that it stops.
//!
//! Says nothing where `NOTIFY_SOCKET` names no socket, and never fails: who is not told asks `/readyz`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// `READY=1`, `STOPPING=1`.
pub fn tell(state: &str) {
    let Ok(name) = std::env::var("NOTIFY_SOCKET") else { return };
    let told = || -> std::io::Result<()> {
        let to = match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&name)?,
        };
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &to).map(drop)
    };
    if let Err(error) = told() {
        tracing::warn!(%error, state, "NOTIFY_SOCKET cannot be told");
    }
}
