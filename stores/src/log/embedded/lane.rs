//! A lane: a transactional producer and the offsets that it commits.
//!
//! Owns: epochs, commits. Invariant: of the holders of one lane id only the newest commits, and once a newer one is
//! open no commit of an older one is on its way.

use super::folder::{damaged, io};
use super::meta::{committed_key, decode_committed, encode_committed, epoch_key};
use super::shared::{NotWritten, Shared};
use crate::log::{CommitError, Committed, Lane, LogError, TopicPartition, Transaction};
use forebay_schemas::{failpoint, limit};
use parking_lot::Mutex;
use rocksdb::WriteBatch;
use std::sync::Arc;

pub(super) struct EmbeddedLane {
    shared: Arc<Shared>,
    id: String,
    epoch: u64,
    /// The newest epoch of this id.
    newest: Arc<Mutex<u64>>,
}

pub(super) fn committed(shared: &Shared, id: &str, at: TopicPartition) -> Result<Option<Committed>, LogError> {
    shared.partition(at)?;
    let db = shared.db()?;
    let stored = db.get_pinned_cf(db.meta()?, committed_key(id, at)).map_err(io)?;
    stored.map(|stored| decode_committed(&stored).ok_or_else(|| damaged(format_args!("what lane {id} committed")))).transpose()
}

impl EmbeddedLane {
    pub fn open(shared: &Arc<Shared>, id: &str) -> Result<EmbeddedLane, LogError> {
        if id.is_empty() || id.len() > limit::LANE_ID_BYTES {
            return Err(LogError::Io(format!("a lane's id has 1 to {} bytes", limit::LANE_ID_BYTES)));
        }
        let newest = Arc::clone(shared.lanes.lock().entry(id.to_owned()).or_default());
        // Waits for a commit that is on its way.
        let mut held = newest.lock();
        let db = shared.writable()?;
        let key = epoch_key(id);
        let stored = db.get_cf(db.meta()?, &key).map_err(io)?;
        let epoch = match stored.as_deref().map(|stored| stored.try_into().map(u64::from_be_bytes)) {
            None => 1,
            Some(Ok(epoch)) => epoch + 1,
            Some(Err(_)) => return Err(damaged(format_args!("epoch of lane {id}"))),
        };
        let mut batch = WriteBatch::default();
        batch.put_cf(db.meta()?, &key, epoch.to_be_bytes());
        shared.write_batch(&db, batch).map_err(|e| match e {
            NotWritten::Refused(error) => error,
            NotWritten::Unknown(text) => LogError::Io(text),
        })?;
        *held = epoch;
        drop((held, db));
        Ok(EmbeddedLane { shared: Arc::clone(shared), id: id.to_owned(), epoch, newest })
    }

    fn fenced(&self, newest: u64) -> Option<String> {
        (newest != self.epoch).then(|| format!("lane {} was opened again: epoch {newest} after {}", self.id, self.epoch))
    }
}

impl Lane for EmbeddedLane {
    fn committed(&mut self, at: TopicPartition) -> Result<Option<Committed>, LogError> {
        if let Some(why) = self.fenced(*self.newest.lock()) {
            return Err(LogError::Fenced(why));
        }
        committed(&self.shared, &self.id, at)
    }

    fn commit(&mut self, transaction: Transaction) -> Result<(), CommitError> {
        let newest = self.newest.lock();
        if let Some(why) = self.fenced(*newest) {
            return Err(CommitError::Fenced(why));
        }
        failpoint::pass("log.before_commit");
        let written = self.shared.write(&transaction.outputs, |db, batch| {
            let meta = super::folder::family(db, super::folder::META)?;
            for (at, committed) in &transaction.offsets {
                self.shared.partition(*at)?;
                if committed.metadata.len() > limit::LANE_METADATA_BYTES {
                    return Err(LogError::Refused(format!("metadata of an offset has at most {} bytes", limit::LANE_METADATA_BYTES)));
                }
                batch.put_cf(meta, committed_key(&self.id, *at), encode_committed(committed));
            }
            Ok(())
        });
        failpoint::pass("log.after_commit");
        written.map_err(|e| match e {
            NotWritten::Refused(error) => error.into(),
            NotWritten::Unknown(text) => CommitError::Unknown(text),
        })
    }
}
