//! Named places at which a test kills the process: `FOREBAY_FAILPOINT=name` or `name:N` (at the Nth passage).
//! Without the variable a passage costs one load. The names are listed in `docs/testing.md`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

struct Armed {
    name: String,
    left: AtomicU64,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

fn armed() -> Option<&'static Armed> {
    ARMED
        .get_or_init(|| {
            let text = std::env::var("FOREBAY_FAILPOINT").ok()?;
            let (name, nth) = text.split_once(':').unwrap_or((&text, "1"));
            Some(Armed { name: name.to_owned(), left: AtomicU64::new(nth.parse().unwrap_or(1)) })
        })
        .as_ref()
}

/// Ends the process at once, as `kill -9` would, when this place is armed.
pub fn pass(name: &'static str) {
    if let Some(armed) = armed()
        && armed.name == name
        && armed.left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        std::process::abort();
    }
}
