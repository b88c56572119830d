//! The wish to stop, as a value that threads can wait on.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

#[derive(Default)]
pub struct Stop {
    wanted: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    pub fn set(&self) {
        *self.wanted.lock() = true;
        self.changed.notify_all();
    }
    pub fn is_set(&self) -> bool {
        *self.wanted.lock()
    }
    /// Waits for `time` at most; true when it is time to stop.
    pub fn wait(&self, time: Duration) -> bool {
        let mut wanted = self.wanted.lock();
        self.changed.wait_while_for(&mut wanted, |wanted| !*wanted, time);
        *wanted
    }
}
