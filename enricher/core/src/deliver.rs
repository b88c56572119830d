//! Deliver: what leaves the enricher, as message bytes.
//!
//! Owns: the only call of `wire::trusted::encode` (a tidy test keeps it so) and the making of bad events.
//! Does not own: topics, keys, transactions.
//! Invariants: E2 (`trusted` takes nothing but `Masked`); the clear part of a bad event is what its seal is bound to.

use crate::admit::mask::Masked;
use crate::pipeline::Reject;
use crate::seal::{BadPrivateKey, SealError, Sealer};
use forebay_schemas::time::Micros;
use forebay_schemas::wire::bad::{self, Bad, Clear};
use forebay_schemas::wire::harvested::Harvested;
use forebay_schemas::wire::trusted::{self, Provenance};

/// The framed value for the topic of trusted events.
pub fn trusted(masked: Masked<'_>, provenance: Provenance) -> Vec<u8> {
    trusted::encode(&masked.into_trusted(provenance))
}

/// The framed value for the topic of bad events. `value` is the harvested message as it stands on the log.
pub fn bad(
    harvested: &Harvested,
    value: &[u8],
    reject: &Reject,
    failed_at: Micros,
    provenance: Provenance,
    sealer: &mut Sealer,
) -> Vec<u8> {
    let clear = Clear {
        event_id: harvested.event_id.clone(),
        source: harvested.source.clone(),
        dialect: harvested.dialect,
        request_id: harvested.request_id,
        index: harvested.index,
        received_at: harvested.received_at,
        stage: reject.stage,
        reason: reject.reason,
        detail: reject.detail.clone(),
        full_length: harvested.full_length,
        failed_at,
        provenance,
    };
    let sealed = sealer.seal(value, &bound(&clear));
    bad::encode(&Bad { clear, sealed })
}

/// The harvested message (its framed value) inside a bad event, for the holder of the private key.
pub fn open(bad: &Bad, key: &BadPrivateKey) -> Result<Vec<u8>, SealError> {
    key.open(&bad.sealed, &bound(&bad.clear))
}

fn bound(clear: &Clear) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    bad::encode_clear(clear, &mut bytes);
    bytes
}
