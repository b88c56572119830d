//! A process that serves until it is told to stop: start, wait, drain, exit code.
//!
//! Owns: signals, what systemd is told (`notify`), the order of waiting and draining. Does not own: what runs (`node`).
//! Invariants: one signal finishes what was accepted, a second one ends at once; a part that gives up ends the process with 1,
//! after the others were stopped as a signal would.

mod notify;

use crate::failure::{Exit, Failure};
use crate::node::{Node, Plan};
use std::io::Write;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often a part that has given up is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// Runs what is planned. `started` is told of the node once; what it gives is kept until the end.
pub fn serve<T>(plan: Plan, started: impl FnOnce(&Node) -> Result<T, Failure>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("forebay-http").build().map_err(Failure::failed)?;
    let end = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let node = tokio::select! {
            node = plan.start() => node?,
            () = signals.any() => return Ok(Exit::Done),
        };
        let kept = started(&node)?;
        notify::tell("READY=1");
        let failed = tokio::select! {
            why = failure(&node) => Some(why),
            () = signals.any() => None,
        };
        notify::tell("STOPPING=1");
        say("stopping: what was accepted is finished; a second signal stops now");
        let remaining = node.remaining();
        let left = tokio::select! {
            left = node.drain() => left,
            () = signals.any() => remaining.told().await,
        };
        drop(kept);
        end(failed, &left)
    });
    // Threads that a second signal has overtaken are not waited for.
    runtime.shutdown_background();
    end
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Signals, Failure> {
        let of = |kind| signal(kind).map_err(Failure::failed);
        Ok(Signals { interrupt: of(SignalKind::interrupt())?, terminate: of(SignalKind::terminate())? })
    }
    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

async fn failure(node: &Node) -> String {
    loop {
        if let Some(why) = node.failed() {
            return why;
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn end(failed: Option<String>, left: &[String]) -> Result<Exit, Failure> {
    if let Some(why) = failed {
        return Err(Failure::failed(anyhow::anyhow!(why)).next("nothing that was acknowledged is lost; mend the cause and start again"));
    }
    if left.is_empty() {
        say("stopped; nothing is left to do");
        return Ok(Exit::Done);
    }
    say(&format!("stopped; left on disk: {}. The next start goes on with it", left.join("; ")));
    Ok(Exit::WorkLeft)
}

/// Nobody may be listening any more; that stops nothing.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
