//! What a lane tells the outside while it runs: how it stands, what it counted.
//!
//! Owns: the shared values behind `Enricher::{ready, failed, totals, unclassified}`. Does not own: metrics.

use crate::totals::Changes;
use forebay_schemas::limit;
use forebay_schemas::outcome::Outcome;
use parking_lot::Mutex;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Status {
    inner: Mutex<Inner>,
}

/// What may keep a lane from working although it runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Note {
    Reading,
    Committing,
    StateFull,
}

#[derive(Default)]
struct Inner {
    phase: Phase,
    notes: BTreeMap<Note, String>,
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

impl Status {
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
        match &inner.phase {
            Phase::Starting => Err("is starting".to_owned()),
            Phase::Recovering { reached, target } => Err(format!("recovers state: commit {reached} of {target}")),
            Phase::Running => inner.notes.values().next().cloned().map_or(Ok(()), Err),
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
