//! An outage of what the spool goes on to: said once when it begins, each minute while it lasts, and once when it ends.
//!
//! Owns: when it began, what the last error was. Does not own: retries, counters.
//! Invariant: after a success there is no outage.

use parking_lot::Mutex;
use std::fmt::Display;
use std::time::{Duration, Instant};

pub struct Outage {
    begun: &'static str,
    over: &'static str,
    state: Mutex<Option<State>>,
}

struct State {
    since: Instant,
    said: Instant,
    error: String,
}

/// An outage may last for days, and what fails is tried again every few seconds.
const SAID_AGAIN: Duration = Duration::from_secs(60);

impl Outage {
    /// What is said while it lasts and when it is over.
    pub fn new(begun: &'static str, over: &'static str) -> Outage {
        Outage { begun, over, state: Mutex::new(None) }
    }

    pub fn failed(&self, error: &dyn Display) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let said = state.as_ref().map(|state| state.said).filter(|said| now.duration_since(*said) < SAID_AGAIN);
        if said.is_none() {
            tracing::error!(%error, "{}; what is acknowledged waits in the spool and is tried again", self.begun);
        }
        let since = state.as_ref().map_or(now, |state| state.since);
        *state = Some(State { since, said: said.unwrap_or(now), error: error.to_string() });
    }

    pub fn passed(&self) {
        if let Some(state) = self.state.lock().take() {
            tracing::info!(seconds = state.since.elapsed().as_secs(), "{}", self.over);
        }
    }

    /// For people, while it lasts.
    pub fn note(&self) -> Option<String> {
        let state = self.state.lock();
        state.as_ref().map(|state| format!("{} since {} s: {}", self.begun, state.since.elapsed().as_secs(), state.error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lasts_from_the_first_failure_to_the_next_success() {
        let outage = Outage::new("down", "up");
        assert_eq!(outage.note(), None);
        outage.failed(&"a");
        outage.failed(&"b");
        assert_eq!(outage.note().as_deref(), Some("down since 0 s: b"));
        outage.passed();
        assert_eq!(outage.note(), None);
    }
}
