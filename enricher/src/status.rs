//! What a lane tells the outside while it runs: how it stands, what it counted.
//!
//! Owns: the shared values behind `Enricher::{ready, failed, totals, unclassified}`. Does not own: metrics.

use crate::totals::Changes;
use forebay_schemas::limit;
use forebay_schemas::outcome::Outcome;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[derive(Default)]
pub struct Status {
    inner: Mutex<Inner>,
}

/// What may keep a lane from working although it runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Note {
    Starting,
    Reading,
    Committing,
    /// How far behind it is cannot be told.
    Asking,
    StateFull,
}

#[derive(Default)]
struct Inner {
    phase: Phase,
    notes: BTreeMap<Note, String>,
    commit_since: Option<Instant>,
    /// Task → the next record to take in.
    taken: BTreeMap<i32, i64>,
    outcomes: BTreeMap<(String, Outcome), u64>,
    unclassified: BTreeMap<(String, String), Field>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Phase {
    #[default]
    Starting,
    Recovering {
        reached: i64,
        target: i64,
    },
    Running,
    Stopped,
    Failed(String),
}

/// A field that nobody classified, by its path (unknown names as shape and keyed hash).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Field {
    /// The path as sent; known only if it was met since the start. For the reveal role alone.
    pub in_clear: Option<String>,
    pub count: u64,
}

impl Inner {
    fn late_commit(&self) -> Option<String> {
        let since = self.commit_since?.elapsed();
        (since > Duration::from_millis(limit::COMMIT_LATE_MS)).then(|| format!("a commit has been under way for {} s", since.as_secs()))
    }
}

impl Status {
    pub fn starting(&self) {
        self.inner.lock().phase = Phase::Starting;
    }
    pub fn recovering(&self, reached: i64, target: i64) {
        self.inner.lock().phase = Phase::Recovering { reached, target };
    }
    pub fn running(&self) {
        self.inner.lock().phase = Phase::Running;
    }
    pub fn stopped(&self) {
        self.inner.lock().phase = Phase::Stopped;
    }
    pub fn fail(&self, why: String) {
        self.inner.lock().phase = Phase::Failed(why);
    }
    pub fn note(&self, note: Note, why: Option<String>) {
        let mut inner = self.inner.lock();
        match why {
            Some(why) => drop(inner.notes.insert(note, why)),
            None => drop(inner.notes.remove(&note)),
        }
    }

    /// Since when a commit is under way, if one is.
    pub fn committing(&self, since: Option<Instant>) {
        self.inner.lock().commit_since = since;
    }
    #[cfg(test)]
    pub fn commit_since(&self) -> Option<Instant> {
        self.inner.lock().commit_since
    }
    pub fn take_in(&self, task: i32, next_offset: i64) {
        self.inner.lock().taken.insert(task, next_offset);
    }
    /// The next record of each task, as of a moment ago.
    pub fn taken(&self) -> BTreeMap<i32, i64> {
        self.inner.lock().taken.clone()
    }

    pub fn committed(&self, changes: Changes) {
        let mut inner = self.inner.lock();
        for (source, outcome, count) in changes.outcomes {
            *inner.outcomes.entry((source, outcome)).or_default() += count;
        }
        for change in changes.unclassified {
            let known = inner.unclassified.len();
            let key = (change.event_type, change.path);
            if known < limit::UNCLASSIFIED_PATHS || inner.unclassified.contains_key(&key) {
                let field = inner.unclassified.entry(key).or_default();
                field.count += change.count;
                field.in_clear = field.in_clear.take().or(change.in_clear);
            }
        }
    }

    pub fn ready(&self) -> Result<(), String> {
        let inner = self.inner.lock();
        let note = inner.notes.values().next().cloned();
        match &inner.phase {
            Phase::Starting => Err(note.map_or("is starting".to_owned(), |note| format!("is starting: {note}"))),
            Phase::Recovering { reached, target } => Err(format!("recovers state: commit {reached} of {target}")),
            Phase::Running => note.or_else(|| inner.late_commit()).map_or(Ok(()), Err),
            Phase::Stopped => Err("has stopped".to_owned()),
            Phase::Failed(why) => Err(why.clone()),
        }
    }
    pub fn failed(&self) -> Option<String> {
        match &self.inner.lock().phase {
            Phase::Failed(why) => Some(why.clone()),
            Phase::Starting | Phase::Recovering { .. } | Phase::Running | Phase::Stopped => None,
        }
    }

    pub fn outcomes(&self) -> BTreeMap<(String, Outcome), u64> {
        self.inner.lock().outcomes.clone()
    }
    pub fn unclassified(&self) -> BTreeMap<(String, String), Field> {
        self.inner.lock().unclassified.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h13_a_commit_that_hangs_makes_the_lane_not_ready() {
        let status = Status::default();
        status.running();
        let long_ago =
            Instant::now().checked_sub(Duration::from_millis(limit::COMMIT_LATE_MS + 1_000)).expect("the machine runs for longer");
        for (since, ready) in [
            (None, Ok(())),
            (Some(Instant::now()), Ok(())),
            (Some(long_ago), Err("a commit has been under way for 11 s".to_owned())),
            (None, Ok(())),
        ] {
            status.committing(since);
            assert_eq!(status.ready(), ready);
        }
    }
}
