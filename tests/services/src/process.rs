//! One process of a service.
//!
//! Owns: its start, the wait until it is ready, signals, its end. Does not own: what it is.
//! Invariant: unless it is detached, it ends when its value is dropped, and by the kernel's hand when this process ends.

use crate::{Failure, Result, record};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

/// How long a start may take on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);
/// How much of a log an error shows.
const TAIL_LINES: usize = 30;

pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// Where this start's lines begin in the log.
    log_start: u64,
    detached: bool,
}

impl Process {
    /// Output is added to `log`.
    pub fn start(name: &str, program: Command, log: &Path, detached: bool) -> Result<Process> {
        let output = OpenOptions::new().create(true).append(true).open(log)?;
        let log_start = output.metadata()?.len();
        // Both replace themselves by the program, so the process id is the program's.
        let (wrapper, args): (_, &[&str]) = if detached { ("setsid", &[]) } else { ("setpriv", &["--pdeathsig", "KILL", "--"]) };
        let mut command = Command::new(wrapper);
        command.args(args).arg(program.get_program()).args(program.get_args());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = spawn(command).map_err(|e| Failure(format!("{name}: {wrapper}: {e}")))?;
        if detached {
            record::write(log, name, child.id())?;
        }
        Ok(Process { name: name.to_owned(), child, log: log.to_owned(), log_start, detached })
    }

    /// Polls until `ready`. An error shows the log's tail; the process has ended then.
    pub fn wait_ready(&mut self, mut ready: impl FnMut(&Process) -> bool) -> Result<()> {
        let mut ended = None;
        let passed = poll(START_MAX, || {
            if ready(self) {
                return true;
            }
            ended = self.child.try_wait().ok().flatten();
            ended.is_some()
        });
        let what = match ended {
            Some(status) => format!("ended with {status}"),
            None if passed => return Ok(()),
            None => format!("is not ready after {} s", START_MAX.as_secs()),
        };
        let failure = self.failure(&what);
        self.kill();
        Err(failure)
    }

    fn failure(&self, what: &str) -> Failure {
        Failure(format!("{} {what}; the end of {}:\n{}", self.name, self.log.display(), tail(&self.log_text())))
    }

    /// What it has written since this start.
    pub fn log_text(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(self.log_start as usize..).unwrap_or_default()).into_owned()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).map_err(|e| Failure(format!("{}: {e}", self.name)))
    }

    /// Asks it to end, and waits until it has.
    fn end(&mut self, signal: Signal) -> Result<()> {
        // Its number may be another's by now.
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        self.signal(signal)?;
        let ended = poll(START_MAX, || self.child.try_wait().is_ok_and(|status| status.is_some()));
        if ended { Ok(()) } else { Err(self.failure("does not end")) }
    }

    /// At once, as by kill -9.
    fn kill(&mut self) {
        // Ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.detached {
            self.kill();
        }
    }
}

/// A process that can be killed and started again behind a shared reference.
pub struct Slot(Mutex<Process>);

impl Slot {
    pub fn new(process: Process) -> Slot {
        Slot(Mutex::new(process))
    }

    pub fn pid(&self) -> u32 {
        self.0.lock().child.id()
    }

    pub fn kill(&self) {
        self.0.lock().kill();
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.0.lock().signal(signal)
    }

    pub fn end(&self, signal: Signal) -> Result<()> {
        self.0.lock().end(signal)
    }

    /// Kills what is there, if it still runs, before the next one starts.
    pub fn restart(&self, start: impl FnOnce() -> Result<Process>) -> Result<()> {
        let mut process = self.0.lock();
        process.kill();
        *process = start()?;
        Ok(())
    }

    pub fn wait_ready(&self, ready: impl FnMut(&Process) -> bool) -> Result<()> {
        self.0.lock().wait_ready(ready)
    }
}

/// Whether it became true within `patience`.
pub fn poll(patience: Duration, mut ready: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if ready() {
            return true;
        }
        if started.elapsed() > patience {
            return false;
        }
        std::thread::sleep(POLL);
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

type Spawned = mpsc::Sender<std::io::Result<Child>>;

/// The kernel's hand falls when the *thread* that started a child ends, and a test's thread ends with its test: so one
/// thread, which lives as long as this process, starts all.
fn spawn(command: Command) -> std::io::Result<Child> {
    static SPAWNER: LazyLock<mpsc::Sender<(Command, Spawned)>> = LazyLock::new(|| {
        let (sender, commands) = mpsc::channel::<(Command, Spawned)>();
        std::thread::spawn(move || {
            for (mut command, answer) in commands {
                // The asker waits for the answer.
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (answer, spawned) = mpsc::channel();
    let gone = || std::io::Error::other("the spawning thread has ended");
    SPAWNER.send((command, answer)).map_err(|_| gone())?;
    spawned.recv().map_err(|_| gone())?
}

/// Runs to the end and gives what it printed; an error shows both outputs.
pub fn output(mut command: Command) -> Result<String> {
    let said = |text: &OsStr| text.to_string_lossy().into_owned();
    let line = std::iter::once(command.get_program()).chain(command.get_args()).map(said).collect::<Vec<_>>().join(" ");
    let output = command.stdin(Stdio::null()).output().map_err(|e| Failure(format!("{line}: {e}")))?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(out);
    }
    Err(Failure(format!("{line}\n{}\n{out}{}", output.status, String::from_utf8_lossy(&output.stderr))))
}
