//! Named places at which a test kills the process, or holds it up: `FOREBAY_FAILPOINT=name` or `name:N` (dies at the Nth
//! passage), `pause:name:N:MS` (says so on stderr and sleeps). Without the variable a passage costs one load. The names are
//! listed in `docs/testing.md`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

struct Armed {
    name: String,
    left: AtomicU64,
    /// `None`: the process dies.
    pause: Option<Duration>,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

fn armed() -> Option<&'static Armed> {
    ARMED.get_or_init(|| Some(read(&std::env::var("FOREBAY_FAILPOINT").ok()?))).as_ref()
}

fn read(text: &str) -> Armed {
    let number = |text: &str| text.parse().unwrap_or(1);
    let (name, nth, pause) = match text.split(':').collect::<Vec<_>>()[..] {
        ["pause", name, nth, ms] => (name, number(nth), Some(Duration::from_millis(number(ms)))),
        [name, nth] => (name, number(nth), None),
        _ => (text, 1, None),
    };
    Armed { name: name.to_owned(), left: AtomicU64::new(nth), pause }
}

/// Ends the process at once, as `kill -9` would, or holds this thread up, when this place is armed.
pub fn pass(name: &'static str) {
    if let Some(armed) = armed()
        && armed.name == name
        && armed.left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        match armed.pause {
            None => std::process::abort(),
            Some(pause) => {
                eprintln!("failpoint {name} holds for {} ms", pause.as_millis());
                std::thread::sleep(pause);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_as_written() {
        for (text, name, nth, pause) in
            [("a.b", "a.b", 1, None), ("a.b:3", "a.b", 3, None), ("pause:a.b:2:1500", "a.b", 2, Some(Duration::from_millis(1_500)))]
        {
            let armed = read(text);
            assert_eq!((&*armed.name, armed.left.into_inner(), armed.pause), (name, nth, pause));
        }
    }
}
