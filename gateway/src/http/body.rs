//! Reading a body: within the wire limit, the time limits and the memory budget; or dropping it, within a bound.
//!
//! Owns: when to stop reading. Does not own: the answer.
//! Invariant: of a body that is not read to its end nothing is kept.

use crate::budget::Reserved;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub wire_bytes: usize,
    /// For the whole body.
    pub total: Duration,
    /// Between two pieces.
    pub idle: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Over the wire limit; the rest is still to come.
    TooLarge,
    Slow,
    /// The client left or spoke no HTTP.
    Gone,
    /// No room in the memory budget.
    NoMemory,
}

/// What is made room for at once; a client that only announces a large body takes nothing from others.
const GROW_BYTES: usize = 256 << 10;

/// The whole body; its memory is reserved as bytes arrive.
pub async fn read<B>(body: &mut B, bounds: Bounds, reserved: &mut Reserved) -> Result<Bytes, Cut>
where
    B: Body<Data = Bytes> + Unpin,
{
    let declared = body.size_hint().exact().map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX));
    if declared > bounds.wire_bytes {
        return Err(Cut::TooLarge);
    }
    let deadline = Instant::now() + bounds.total;
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    loop {
        let piece = match next(body, deadline, bounds.idle).await? {
            Some(piece) if piece.is_empty() => continue,
            Some(piece) => piece,
            // A copy: the piece would hold on to the connection's whole buffer, which the budget does not see.
            None if joined.is_empty() => return Ok(Bytes::copy_from_slice(&first)),
            None => return Ok(joined.freeze()),
        };
        let total = first.len().max(joined.len()) + piece.len();
        if total > bounds.wire_bytes {
            return Err(Cut::TooLarge);
        }
        if !reserved.reach(total) {
            return Err(Cut::NoMemory);
        }
        if first.is_empty() && joined.is_empty() {
            first = piece;
            continue;
        }
        if joined.is_empty() {
            joined.reserve(declared.clamp(total, total.max(GROW_BYTES)));
            joined.extend_from_slice(&first);
        }
        joined.extend_from_slice(&piece);
    }
}

/// Reads and drops up to `bytes_max`, so that a client that writes first and reads later sees the answer.
pub async fn drain<B>(body: &mut B, bytes_max: usize, total: Duration, idle: Duration)
where
    B: Body<Data = Bytes> + Unpin,
{
    let deadline = Instant::now() + total;
    let mut left = bytes_max;
    while let Ok(Some(piece)) = next(body, deadline, idle).await {
        match left.checked_sub(piece.len()) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

async fn next<B>(body: &mut B, deadline: Instant, idle: Duration) -> Result<Option<Bytes>, Cut>
where
    B: Body<Data = Bytes> + Unpin,
{
    let until = deadline.min(Instant::now() + idle);
    loop {
        match timeout_at(until, body.frame()).await {
            Err(_) => return Err(Cut::Slow),
            Ok(None) => return Ok(None),
            Ok(Some(Err(_))) => return Err(Cut::Gone),
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}
