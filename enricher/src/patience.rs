//! Trying again while the log does not answer.

use crate::error::LaneError;
use crate::status::{Note, Status};
use crate::stop::Stop;
use forebay_schemas::limit;
use forebay_stores::log::LogError;
use std::time::Duration;

/// Waits that double up to a bound.
#[derive(Default)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    pub fn has_waited(&self) -> bool {
        self.tries > 0
    }
    /// False when it is time to stop instead.
    pub fn wait(&mut self, stop: &Stop) -> bool {
        let wait = limit::LANE_BACKOFF_MS_MIN.saturating_mul(1 << self.tries.min(20)).min(limit::LANE_BACKOFF_MS_MAX);
        self.tries += 1;
        !stop.wait(Duration::from_millis(wait))
    }
}

/// Tries from the beginning for as long as the log does not answer, and says so under `note`; ends on anything that
/// waiting cannot change.
pub fn insist<T, E: Into<LaneError>>(
    status: &Status,
    note: Note,
    stop: &Stop,
    mut ask: impl FnMut() -> Result<T, E>,
) -> Result<T, LaneError> {
    let mut backoff = Backoff::default();
    loop {
        match ask().map_err(Into::into) {
            Err(LaneError::Log(LogError::Io(why))) => {
                tracing::warn!(why, "the log does not answer; trying again");
                status.note(note, Some(format!("the log does not answer: {why}")));
                if !backoff.wait(stop) {
                    return Err(LaneError::Stopped(why));
                }
            }
            answer => {
                if backoff.has_waited() {
                    status.note(note, None);
                }
                return answer;
            }
        }
    }
}
