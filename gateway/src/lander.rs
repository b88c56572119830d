//! The lander: sealed segments, unchanged, to the object store under names that nobody else can take.
//!
//! Owns: the put and its retries. Does not own: the store, the names (gateway-core `segment`), deletion's rule (`shelf`).
//! Several work at once, the oldest segments first, for one put waits longer than it works. Each keeps its segment until that
//! has landed, so that one which cannot be landed holds up nothing but its own lander.
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
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub struct Lander {
    pub dir: Arc<SpoolDir>,
    pub shared: Arc<Shared>,
    pub objects: Arc<dyn Objects>,
    pub metrics: Metrics,
}

const LOOK: Duration = Duration::from_secs(1);
/// The store has had its own patience before it gives up; when it is back, nothing waits longer than this.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(5);
/// A bucket that is missing or closed to us waits for people, not for time.
const RETRY_REFUSED: Duration = Duration::from_secs(30);

impl Lander {
    /// Runs until every segment is landed or in other hands and none will come, or the run is stopped.
    pub fn run(self) {
        while let Ok(next) = self.shared.to_land(LOOK) {
            let Some((name, segment)) = next else { continue };
            if self.land(&name, segment) == Phase::Stopped {
                return;
            }
        }
    }

    fn land(&self, name: &SegmentName, segment: Segment) -> Phase {
        let mut wait = RETRY_FIRST;
        loop {
            let rest = match self.whole(name, segment).map(|path| self.put(name, &path)) {
                Err(error) => {
                    self.metrics.spool_errors.with_label_values(&["read"]).inc();
                    tracing::error!(segment = name.file(), %error, "a segment cannot be read to be landed; it is tried again");
                    wait
                }
                Ok(Ok(put)) => {
                    self.shared.objects.passed();
                    self.metrics.land_refused.set(0);
                    self.note(name, put);
                    self.shared.reap(&self.dir);
                    return self.shared.phase();
                }
                Ok(Err(error)) => {
                    self.metrics.land_errors.inc();
                    self.metrics.land_refused.set(i64::from(matches!(error, ObjectsError::Refused(_))));
                    self.shared.objects.failed(&format!("{}: {error}", name.object()));
                    if matches!(error, ObjectsError::Refused(_)) { RETRY_REFUSED } else { wait }
                }
            };
            if self.shared.rest(rest) == Phase::Stopped {
                return Phase::Stopped;
            }
            wait = (wait * 2).min(RETRY_LAST);
        }
    }

    fn put(&self, name: &SegmentName, path: &Path) -> Result<Put, ObjectsError> {
        failpoint::pass("land.before_put");
        let put = self.objects.put_if_absent(&name.object(), Content::File(path))?;
        failpoint::pass("land.after_put");
        Ok(put)
    }

    /// The segment's file, as long as what was made durable of it.
    fn whole(&self, name: &SegmentName, segment: Segment) -> io::Result<PathBuf> {
        let path = self.dir.file(name);
        let length = fs::metadata(&path)?.len();
        if length < segment.durable {
            return Err(io::Error::other("the segment is shorter than what was written to it"));
        }
        if length > segment.durable {
            let file = fs::OpenOptions::new().write(true).open(&path)?;
            file.set_len(segment.durable)?;
            file.sync_data()?;
        }
        Ok(path)
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

#[cfg(test)]
mod tests;
