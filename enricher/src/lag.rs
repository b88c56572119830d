//! How far behind the tasks are: asked of the log on a thread of its own, for a log that does not answer must not hold
//! up a lane.
//!
//! Owns: the gauge of lag, the note that the log does not answer. Does not own: the other gauges (`lane`).

use crate::commit::input;
use crate::metrics::Metrics;
use crate::status::{Note, Status};
use crate::stop::Stop;
use forebay_stores::log::Log;
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(1);

/// Asks once a second until it is time to stop.
pub fn watch(log: &dyn Log, lanes: &[Arc<Status>], metrics: &Metrics, stop: &Stop) {
    while !stop.wait(EVERY) {
        for status in lanes {
            let mut unanswered = None;
            for (task, next_offset) in status.taken() {
                if stop.is_set() {
                    return;
                }
                match log.bounds(input(task)) {
                    Ok(bounds) => metrics.lag(task, bounds.end.saturating_sub(next_offset).max(0)),
                    Err(error) => {
                        unanswered = Some(format!("cannot tell how far behind it is: {error}"));
                        break;
                    }
                }
            }
            status.note(Note::Asking, unanswered);
        }
    }
}
