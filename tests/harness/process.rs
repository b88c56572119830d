//! One process of the product: started, signalled, killed, started again, its log kept over all of it.

use super::{binary, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Dropped: killed.
pub struct Process {
    arguments: Vec<OsString>,
    pub env: Vec<(String, String)>,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// Not started yet. Output is added to `log`.
    pub fn new(arguments: Vec<OsString>, env: Vec<(String, String)>, log: &Path) -> Process {
        Process { arguments, env, log: log.to_owned(), child: None }
    }

    pub fn set_arguments(&mut self, arguments: Vec<OsString>) {
        self.arguments = arguments;
    }
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).expect("a log file");
        let mut command = Command::new(binary());
        command.args(&self.arguments).envs(self.env.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a handle")).stderr(log);
        self.child = Some(command.spawn().expect("the binary starts"));
    }

    pub fn is_running(&mut self) -> bool {
        match &mut self.child {
            None => false,
            Some(child) => {
                let running = child.try_wait().expect("a child").is_none();
                if !running {
                    self.child = None;
                }
                running
            }
        }
    }

    /// Waits for `done`; panics when the process ends before, or when it takes too long.
    pub fn wait(&mut self, what: &str, mut done: impl FnMut(&Process) -> bool) {
        let log = self.log.clone();
        poll(
            what,
            || {
                if let Some(status) = self.child.as_mut().expect("spawned").try_wait().expect("a child") {
                    panic!("it ended with {status}; awaited was: {what}\n{}", text(&log));
                }
                done(self)
            },
            || text(&log),
        );
    }

    /// Waits until it ends by itself; the exit code, -1 after a signal.
    pub fn wait_end(&mut self) -> i32 {
        let mut child = self.child.take().expect("running");
        let mut code = None;
        let log = self.log.clone();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            poll(
                "the end of the process",
                || {
                    code = child.try_wait().expect("a child").map(|status| status.code().unwrap_or(-1));
                    code.is_some()
                },
                || text(&log),
            );
        }));
        if let Err(panic) = ended {
            let _ = child.kill();
            let _ = child.wait();
            std::panic::resume_unwind(panic);
        }
        code.expect("it has ended")
    }

    pub fn log(&self) -> String {
        text(&self.log)
    }
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("running").id()
    }
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().expect("running")), signal).expect("our own child");
    }
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("running");
        child.kill().expect("our own child");
        child.wait().expect("our own child");
    }
    /// SIGTERM; the exit code.
    pub fn stop(&mut self) -> i32 {
        self.signal(Signal::TERM);
        self.wait_end()
    }
}

fn text(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
