//! Runs code that must not take the lane down with it, and keeps what a panic says out of the logs.
//!
//! Owns: the process's panic hook while a record is judged: there it logs the place of the defect and no message, for a
//! message may quote the event. Everywhere else the hook that was there before runs.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}
static HOOK: Once = Once::new();

/// The code panicked. What it changed is for the caller to take back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Panicked;

pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    HOOK.call_once(install);
    GUARDED.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    done.map_err(|_| Panicked)
}

fn install() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !GUARDED.get() {
            return before(info);
        }
        let (file, line) = info.location().map_or(("?", 0), |place| (place.file(), place.line()));
        tracing::error!(file, line, "a stage panicked; the event goes to bad (processing_panic)");
    }));
}
