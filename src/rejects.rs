//! Rejects, opened by the holder of the key, on the machine of whoever asks: the system itself cannot.

use crate::failure::{Failure, Next};
use crate::read::Query;
use crate::system::System;
use anyhow::{Context, anyhow};
use base64::Engine;
use bytes::Bytes;
use forebay_enricher_core::seal::BadPrivateKey;
use forebay_schemas::reason::Reason;
use forebay_schemas::wire::bad::{self, Clear};
use forebay_schemas::wire::harvested::{self, Harvested};
use std::path::Path;

pub struct Opened {
    pub clear: Clear,
    pub event: Harvested,
}

pub fn key(file: &Path) -> Result<BadPrivateKey, Failure> {
    forebay_enricher::keys::private_key(file)
        .context("the private key of rejects cannot be used")
        .or_next(|| "name the file by --key-file; `dev` makes one in keys/bad_private.key".to_owned())
}

/// The rejects of a reason or an event id, each opened.
pub fn open(system: &System, key: &BadPrivateKey, reason: Option<Reason>, event_id: Option<String>) -> Result<Vec<Opened>, Failure> {
    let answers = system.answers(&Query::Bad { reason, event_id, sealed: true })?;
    answers.iter().map(|answer| open_one(answer["_value"].as_str().unwrap_or_default(), key)).collect()
}

fn open_one(value: &str, key: &BadPrivateKey) -> Result<Opened, Failure> {
    let value = base64::engine::general_purpose::STANDARD.decode(value).map_err(Failure::failed)?;
    let bad = bad::decode(&value).map_err(Failure::failed)?;
    let mut clear = Vec::new();
    bad::encode_clear(&bad.clear, &mut clear);
    let plain = key
        .open(&bad.sealed, &clear)
        .map_err(|e| anyhow!("reject at partition {}, offset {}: {e}", bad.clear.provenance.partition, bad.clear.provenance.offset));
    let plain = plain.or_next(|| format!("it is sealed for key {}; this file holds key {}", bad.sealed.key_id, key.id()))?;
    let event = harvested::decode(&Bytes::from(plain)).map_err(Failure::failed)?;
    Ok(Opened { clear: bad.clear, event })
}
