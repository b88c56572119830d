//! The state of a task behind one trait: an ordered map of bytes that is changed only by whole commits.
//!
//! Owns: the trait, the store's own position (`Meta`), which backend a task gets. Does not own: what keys and values
//! mean (`key` and the operators), uncommitted writes (`overlay`).
//! Invariants: E5, a backend is given nothing but known committed writes, each commit in one batch with its `Meta`; what
//! is on disk after a crash is some earlier commit, whole.

pub mod key;
mod memory;
mod rocks;
#[cfg(test)]
pub(crate) mod tests;

use crate::format::Format;
use forebay_schemas::wire::avro::{self, DecodeError, Reader};
use forebay_schemas::wire::delta::Op;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The ordered map. Shared by the thread that reads for the next commit and the one that applies the last.
pub trait Backend: Send + Sync {
    /// Position of the last commit applied; `None` in an empty store.
    fn meta(&self) -> Result<Option<Meta>, StateError>;
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError>;
    /// Looks up `keys`, which ascend; calls `found` with the place and value of each that is there.
    fn get_many(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), StateError>;
    /// Keys in `[from, to)`, ascending, until `each` breaks.
    fn scan(&self, from: &[u8], to: &[u8], each: &mut Each<'_>) -> Result<(), StateError>;
    /// One commit, all or nothing.
    fn apply(&self, ops: &[Op], meta: &Meta) -> Result<(), StateError>;
    /// Forgets whole ranges `[from, to)`: space that expired keys held. Never part of a commit.
    fn reclaim(&self, ranges: &[(Vec<u8>, Vec<u8>)]) -> Result<(), StateError>;
    /// What was applied so far survives a crash.
    fn flush(&self) -> Result<(), StateError>;
    /// Disk or memory that the state takes, about.
    fn bytes(&self) -> u64;
}

/// Is given a key and its value, and says whether it wants more.
pub type Each<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Where a store stands and of which log it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meta {
    pub seq: i64,
    /// The input offset to go on from.
    pub offset: i64,
    pub origin: Origin,
    /// At or before the first delta after this commit, in the topic of deltas. Since format 2.
    pub deltas_from: Option<i64>,
}

/// The log that a state was made from: another topic id or format means another state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    pub harvested: String,
    pub delta: String,
    pub partitions: i32,
}

impl Meta {
    pub fn encode(&self, format: Format) -> Vec<u8> {
        let mut out = Vec::with_capacity(96);
        avro::long(i64::from(format.writes()), &mut out);
        avro::long(self.seq, &mut out);
        avro::long(self.offset, &mut out);
        avro::string(&self.origin.harvested, &mut out);
        avro::string(&self.origin.delta, &mut out);
        avro::long(i64::from(self.origin.partitions), &mut out);
        if format.has(2, format.writes()) {
            avro::optional_long(self.deltas_from, &mut out);
        }
        out
    }

    pub fn decode(value: &[u8], format: Format) -> Result<Meta, StateError> {
        let mut r = Reader::new(value);
        let unreadable = |_: DecodeError| StateError::Corrupt("the store's position is unreadable".into());
        let found = r.int().map_err(unreadable)?;
        if !format.reads(found) {
            return Err(StateError::Format(found));
        }
        let mut read = || {
            let (seq, offset) = (r.long()?, r.long()?);
            let origin = Origin { harvested: r.string()?, delta: r.string()?, partitions: r.int()? };
            let deltas_from = if format.has(2, found) { r.optional(Reader::long)? } else { None };
            if !format.is_newer(found) {
                r.end()?;
            }
            Ok(Meta { seq, offset, origin, deltas_from })
        };
        read().map_err(unreadable)
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StateError {
    #[error("state is corrupt: {0}")]
    Corrupt(String),
    #[error("state is of format {0}, which this version does not read")]
    Format(i32),
    #[error("another process holds the local state in {0}: end that one, or give this one a data folder of its own")]
    Held(String),
    #[error("state holds operator uid {0}, which this version does not know")]
    UnknownUid(u8),
    #[error(
        "window {uid} is declared otherwise than before (then: {was}): give the changed one another uid, and let the old one \
         go by --allow-dropped-state {uid}"
    )]
    WindowChanged { uid: String, was: String },
    #[error(
        "state holds window {uid}, which is not declared any more ({was}): declare it again, or let it go by --allow-dropped-state {uid}"
    )]
    WindowGone { uid: String, was: String },
    #[error(
        "window {uid}: by the time zone rules that are built in, the bucket that began at {was} would not end at {end} any more, and \
         what has begun keeps its bounds: let the new rules hold from a time on by --zone-rules-since T, at {free} or later, for \
         all enrichers of the job"
    )]
    ZoneChanged { uid: String, was: String, end: String, free: String },
    #[error("window {0} was let go before: its results stand under this uid already, so a new one needs another")]
    WindowDropped(String),
    #[error("a part of window {0} has come, which this process does not declare: all enrichers of a job need the same [[window]] list")]
    WindowUnknown(String),
    #[error("repartition topic, partition {partition}, offset {offset}: {what}; all that tasks send through it must be read")]
    Repartition { partition: i32, offset: i64, what: String },
    #[error("state: {0}")]
    Io(String),
}

/// Named in the configuration; there is no default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Memory,
    RocksDb,
}

/// Opens the tasks' stores: `DIR/<task>` each.
pub struct Stores {
    kind: Kind,
    dir: PathBuf,
    shared: Option<rocks::Shared>,
}

impl Stores {
    pub fn new(kind: Kind, dir: &Path, tasks: usize, format: Format) -> Stores {
        let shared = match kind {
            Kind::Memory => None,
            Kind::RocksDb => Some(rocks::Shared::new(tasks, format)),
        };
        Stores { kind, dir: dir.to_owned(), shared }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The task's store as it was left. One that is broken or was condemned is emptied: the deltas hold it all.
    pub fn open(&self, task: i32) -> Result<Arc<dyn Backend>, StateError> {
        let Some(shared) = &self.shared else { return Ok(Arc::new(memory::Memory::default())) };
        if self.condemnation(task).exists() {
            return self.wipe(task);
        }
        match shared.open(&self.folder(task)) {
            Ok(store) => Ok(Arc::new(store)),
            Err(StateError::Corrupt(why)) => {
                tracing::warn!(task, why, "local state is broken; it is rebuilt from the deltas");
                self.wipe(task)
            }
            Err(other) => Err(other),
        }
    }

    /// An empty store in place of what is there. Nobody may hold the old one.
    pub fn wipe(&self, task: i32) -> Result<Arc<dyn Backend>, StateError> {
        let Some(shared) = &self.shared else { return Ok(Arc::new(memory::Memory::default())) };
        let folder = self.folder(task);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(StateError::Io(error.to_string())),
            Err(_) | Ok(()) => {}
        }
        // After the folder: a crash in between leaves the mark, and the next start wipes again.
        match std::fs::remove_file(self.condemnation(task)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(StateError::Io(error.to_string())),
            Err(_) | Ok(()) => {}
        }
        Ok(Arc::new(shared.open(&folder)?))
    }

    /// Reads met corruption: the next start rebuilds this task instead of meeting it again.
    pub fn condemn(&self, task: i32) {
        if self.shared.is_some()
            && let Err(error) = std::fs::write(self.condemnation(task), b"rebuild from deltas\n")
        {
            tracing::warn!(task, %error, "cannot mark the broken state");
        }
    }

    fn folder(&self, task: i32) -> PathBuf {
        self.dir.join(task.to_string())
    }
    fn condemnation(&self, task: i32) -> PathBuf {
        self.dir.join(format!("{task}.condemned"))
    }
}

/// Calls `found` with the user key and value of each entry of `uid`.
pub fn each(backend: &dyn Backend, uid: key::Uid, mut found: impl FnMut(&[u8], &[u8]) -> Result<(), StateError>) -> Result<(), StateError> {
    let mut result = Ok(());
    for (from, to) in key::uid_ranges(uid) {
        backend.scan(&from, &to, &mut |key, value| {
            result = found(key::user_key(key), value);
            if result.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        result.clone()?;
    }
    Ok(())
}

/// Refuses state of an operator that this version does not have (design §6.4), a seek for each uid and group.
pub fn check_uids(backend: &dyn Backend) -> Result<(), StateError> {
    for group in 0..key::KEY_GROUPS {
        let [high, low] = group.to_be_bytes();
        let [end_high, end_low] = (group + 1).to_be_bytes();
        let mut from = vec![high, low];
        loop {
            let mut next = None;
            backend.scan(&from, &[end_high, end_low], &mut |key, _| {
                next = key::uid_byte(key);
                ControlFlow::Break(())
            })?;
            let Some(byte) = next else { break };
            if key::Uid::from_byte(byte).is_none() {
                return Err(StateError::UnknownUid(byte));
            }
            from = vec![high, low, byte + 1];
        }
    }
    Ok(())
}
