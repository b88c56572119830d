//! The lander: sealed segments, unchanged, to the object store under names that nobody else can take.
//!
//! Owns: the put and its retries. Does not own: the store, the names (gateway-core `segment`), deletion's rule (`shelf`).
//! Invariant R1: an object that is there with other bytes is never overwritten; the segment stays here instead.

use crate::metrics::Metrics;
use crate::spool::dir::SpoolDir;
use crate::spool::shared::{Phase, Shared};
use crate::spool::shelf::{Landing, Segment};
use forebay_gateway_core::segment::{LedgerRecord, SegmentName};
use forebay_schemas::failpoint;
use forebay_stores::objects::{Content, Objects, ObjectsError, Put};
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub struct Lander {
    pub dir: Arc<SpoolDir>,
    pub shared: Arc<Shared>,
    pub objects: Arc<dyn Objects>,
    pub metrics: Metrics,
}

const LOOK: Duration = Duration::from_secs(1);
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(30);

impl Lander {
    /// Runs until every segment is landed and none will come, or the run is stopped.
    pub fn run(self) {
        let mut wait = RETRY_FIRST;
        while let Ok(next) = self.shared.to_land(LOOK) {
            let Some((name, segment)) = next else { continue };
            match self.put(&name, segment) {
                Ok(put) => {
                    self.note(&name, put);
                    self.shared.reap(&self.dir);
                    wait = RETRY_FIRST;
                }
                Err(error) => {
                    self.metrics.land_errors.inc();
                    tracing::error!(object = name.object(), %error, "a segment cannot be landed; it stays in the spool and is tried again");
                    if self.shared.rest(wait) == Phase::Stopped {
                        return;
                    }
                    wait = (wait * 2).min(RETRY_LAST);
                }
            }
        }
    }

    fn put(&self, name: &SegmentName, segment: Segment) -> Result<Put, ObjectsError> {
        let path = self.dir.file(name);
        let length = fs::metadata(&path)?.len();
        if length < segment.durable {
            return Err(io::Error::other("the segment is shorter than what was written to it").into());
        }
        if length > segment.durable {
            let file = fs::OpenOptions::new().write(true).open(&path)?;
            file.set_len(segment.durable)?;
            file.sync_data()?;
        }
        failpoint::pass("land.before_put");
        let put = self.objects.put_if_absent(&name.object(), Content::File(&path))?;
        failpoint::pass("land.after_put");
        Ok(put)
    }

    fn note(&self, name: &SegmentName, put: Put) {
        match put {
            Put::Created | Put::Same => {
                if let Err(error) = self.dir.note(name, LedgerRecord::Landed, true) {
                    self.metrics.spool_errors.with_label_values(&["ledger"]).inc();
                    tracing::warn!(segment = name.file(), %error, "a landing cannot be noted; it is put again after a restart");
                }
                self.shared.landed(name.first, Landing::Landed);
            }
            Put::Different => {
                self.metrics.land_conflicts.inc();
                tracing::error!(object = name.object(), "the object's name is taken by other bytes; the segment is kept in the spool");
                self.shared.landed(name.first, Landing::Conflict);
            }
        }
    }
}
