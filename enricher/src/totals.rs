//! What became of the harvested records of a task, counted for good (law A3), and which fields nobody classified.
//!
//! Owns: the counts, their keys and values in state, what changed since the last cut. Does not own: metrics (`metrics`).
//! Invariants: a count is committed with the outputs and offsets that it counts; one record is one outcome; paths that
//! are stored hold no unknown name in clear (those stay in this process's memory alone).

use crate::overlay::Overlay;
use crate::state::key::{self, Uid};
use crate::state::{self, Backend, StateError};
use forebay_enricher_core::Unclassified;
use forebay_schemas::limit;
use forebay_schemas::outcome::Outcome;
use std::collections::BTreeMap;

/// The path under which fields beyond `limit::UNCLASSIFIED_PATHS` are counted together.
const OTHER_PATHS: &str = "(other)";

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Count {
    value: u64,
    /// Not yet in a batch.
    new: u64,
}

#[derive(Default)]
pub struct Totals {
    outcomes: BTreeMap<String, BTreeMap<Outcome, Count>>,
    /// Event type → path.
    unclassified: BTreeMap<String, BTreeMap<String, Count>>,
    paths: usize,
    /// By window.
    late: BTreeMap<String, Count>,
    in_clear: BTreeMap<(String, String), String>,
}

/// Counts that one commit adds, to be told when it is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    pub outcomes: Vec<(String, Outcome, u64)>,
    pub unclassified: Vec<UnclassifiedChange>,
    /// Late events by window.
    pub late: Vec<(String, u64)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnclassifiedChange {
    pub event_type: String,
    pub path: String,
    pub in_clear: Option<String>,
    pub count: u64,
}

impl Totals {
    /// As the backend holds them.
    pub fn load(backend: &dyn Backend) -> Result<Totals, StateError> {
        let mut totals = Totals::default();
        each(backend, Uid::Totals, |text, value| {
            let (source, outcome) = parse_outcome(text)?;
            totals.outcomes.entry(source.to_owned()).or_default().insert(outcome, Count { value, new: 0 });
            Some(())
        })?;
        each(backend, Uid::Unclassified, |text, value| {
            let (event_type, path) = text.split_once('\0')?;
            totals.unclassified.entry(event_type.to_owned()).or_default().insert(path.to_owned(), Count { value, new: 0 });
            totals.paths += 1;
            Some(())
        })?;
        each(backend, Uid::Late, |window, value| {
            totals.late.insert(window.to_owned(), Count { value, new: 0 });
            Some(())
        })?;
        Ok(totals)
    }

    pub fn count_late(&mut self, window: &str) {
        match self.late.get_mut(window) {
            Some(count) => count.new += 1,
            None => {
                self.late.insert(window.to_owned(), Count { value: 0, new: 1 });
            }
        }
    }

    pub fn count(&mut self, source: &str, outcome: Outcome) {
        match self.outcomes.get_mut(source) {
            Some(of_source) => of_source.entry(outcome).or_default().new += 1,
            None => {
                self.outcomes.insert(source.to_owned(), BTreeMap::from([(outcome, Count { value: 0, new: 1 })]));
            }
        }
    }

    pub fn count_unclassified(&mut self, fields: Vec<Unclassified>) {
        for Unclassified { event_type, path, in_clear } in fields {
            if !self.unclassified.contains_key(&event_type) {
                self.unclassified.insert(event_type.clone(), BTreeMap::new());
            }
            let of_type = self.unclassified.get_mut(&event_type).expect("inserted above");
            if let Some(count) = of_type.get_mut(&path) {
                count.new += 1;
                if count.new > 1 {
                    continue;
                }
            } else if self.paths < limit::UNCLASSIFIED_PATHS {
                self.paths += 1;
                of_type.insert(path.clone(), Count { value: 0, new: 1 });
            } else {
                of_type.entry(OTHER_PATHS.to_owned()).or_default().new += 1;
                continue;
            }
            self.in_clear.entry((event_type, path)).or_insert(in_clear);
        }
    }

    /// Writes what changed, or everything when `all`, and says what changed.
    pub fn write(&mut self, overlay: &mut Overlay, all: bool) -> Changes {
        let mut changes = Changes::default();
        for (source, outcomes) in &mut self.outcomes {
            for (outcome, count) in outcomes {
                if let Some(added) = count.write(all, || outcome_key(source, *outcome), overlay) {
                    changes.outcomes.push((source.clone(), *outcome, added));
                }
            }
        }
        for (event_type, paths) in &mut self.unclassified {
            for (path, count) in paths {
                if let Some(added) = count.write(all, || key::plain(Uid::Unclassified, &joined(&[event_type, path])), overlay) {
                    let in_clear = self.in_clear.get(&(event_type.clone(), path.clone())).cloned();
                    changes.unclassified.push(UnclassifiedChange {
                        event_type: event_type.clone(),
                        path: path.clone(),
                        in_clear,
                        count: added,
                    });
                }
            }
        }
        for (window, count) in &mut self.late {
            if let Some(added) = count.write(all, || key::plain(Uid::Late, window.as_bytes()), overlay) {
                changes.late.push((window.clone(), added));
            }
        }
        overlay.keep_record();
        changes
    }

    /// Everything counted so far, as if one commit had added it.
    pub fn everything(&self) -> Changes {
        let outcomes = self
            .outcomes
            .iter()
            .flat_map(|(source, outcomes)| outcomes.iter().map(|(outcome, count)| (source.clone(), *outcome, count.value)));
        let unclassified = self.unclassified.iter().flat_map(|(event_type, paths)| {
            paths.iter().map(|(path, count)| UnclassifiedChange {
                event_type: event_type.clone(),
                path: path.clone(),
                in_clear: None,
                count: count.value,
            })
        });
        let late = self.late.iter().map(|(window, count)| (window.clone(), count.value));
        Changes { outcomes: outcomes.collect(), unclassified: unclassified.collect(), late: late.collect() }
    }
}

impl Count {
    /// What is new, if anything is.
    fn write(&mut self, all: bool, key: impl FnOnce() -> Vec<u8>, overlay: &mut Overlay) -> Option<u64> {
        let added = std::mem::take(&mut self.new);
        self.value += added;
        if added > 0 || all {
            overlay.put(key(), self.value.to_be_bytes().to_vec());
        }
        (added > 0).then_some(added)
    }
}

fn outcome_key(source: &str, outcome: Outcome) -> Vec<u8> {
    key::plain(Uid::Totals, &joined(&[source, outcome.name(), outcome.reason()]))
}

fn parse_outcome(text: &str) -> Option<(&str, Outcome)> {
    let (rest, reason) = text.rsplit_once('\0')?;
    let (source, outcome) = rest.rsplit_once('\0')?;
    Some((source, Outcome::from_names(outcome, reason)?))
}

fn joined(parts: &[&str]) -> Vec<u8> {
    parts.join("\0").into_bytes()
}

/// Calls `read` with the user key and count of each entry of `uid`; `None` from it means corrupt.
fn each(backend: &dyn Backend, uid: Uid, mut read: impl FnMut(&str, u64) -> Option<()>) -> Result<(), StateError> {
    state::each(backend, uid, |user_key, value| {
        let text = std::str::from_utf8(user_key).ok();
        let count = value.try_into().ok().map(u64::from_be_bytes);
        let read = text.zip(count).and_then(|(text, count)| read(text, count));
        read.ok_or_else(|| StateError::Corrupt(format!("a count under {uid:?} is unreadable")))
    })
}
