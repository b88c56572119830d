//! Who was started to outlive us: one file a process.
//!
//! Owns: the files, and whether a process is still the one that was started. Invariant: a process is ended only when its
//! start time is the recorded one: ids are used again.

use crate::process::poll;
use crate::{Failure, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXTENSION: &str = "pid";
/// How long a process may take to end in order. A broker whose fellows have gone would take minutes.
const END_MAX: Duration = Duration::from_secs(15);

pub struct Record {
    pub name: String,
    pub pid: u32,
    start: u64,
    file: PathBuf,
}

/// Beside its log.
pub fn write(log: &Path, name: &str, pid: u32) -> Result<()> {
    let start = start_time(pid).ok_or_else(|| Failure(format!("{name} has ended at once: see {}", log.display())))?;
    Ok(std::fs::write(log.with_extension(EXTENSION), format!("{pid} {start} {name}"))?)
}

/// All below a folder, in the order of their names.
pub fn read_all(folder: &Path) -> Result<Vec<Record>> {
    let mut found = Vec::new();
    let mut entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            found.extend(read_all(&path)?);
        } else if path.extension().is_some_and(|e| e == EXTENSION) {
            found.extend(parse(&std::fs::read_to_string(&path)?, &path));
        }
    }
    Ok(found)
}

fn parse(text: &str, file: &Path) -> Option<Record> {
    let mut parts = text.splitn(3, ' ');
    let (pid, start) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Record { name: parts.next()?.to_owned(), pid, start, file: file.to_owned() })
}

impl Record {
    pub fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.start)
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw).filter(|_| self.is_alive()) {
            // Ended meanwhile is as good.
            let _ = kill_process(pid, signal);
        }
    }
}

/// All at once, in order first, then at once. Their files go.
pub fn end(records: &[Record]) -> Result<()> {
    for (signal, patience) in [(Signal::TERM, END_MAX), (Signal::KILL, END_MAX)] {
        records.iter().for_each(|record| record.signal(signal));
        if poll(patience, || !records.iter().any(Record::is_alive)) {
            break;
        }
    }
    for record in records {
        if record.is_alive() {
            return Err(Failure(format!("{} (process {}) does not end", record.name, record.pid)));
        }
        std::fs::remove_file(&record.file)?;
    }
    Ok(())
}

/// In the kernel's ticks since boot; `None` for one that has ended, also where nobody has asked for its end yet.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let (state, start) = (*fields.first()?, fields.get(19)?.parse().ok()?);
    (!matches!(state, "Z" | "X")).then_some(start)
}
