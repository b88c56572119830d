//! The data folder of `dev`: who holds it, and how to reach that process.
//!
//! Owns: `lock` (held for the process's life, with its pid), `admin.json`, `.gitignore`. Does not own: what the parts keep below it.
//! Invariants: one process holds a folder; `admin.json` is whole or absent, readable by its user alone, and never outlives a
//! graceful stop.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A command that only looks holds the lock for microseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The mode bit of folders like `/tmp`.
const STICKY: u32 = 0o1000;

/// How to talk to the process that holds a folder.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admin {
    pub url: String,
    pub pid: u32,
    /// All roles.
    pub token: String,
    /// Masked records only.
    pub view_token: String,
}

/// A folder that this process holds.
pub struct DataFolder {
    path: PathBuf,
    _lock: File,
}

impl DataFolder {
    /// Makes the folder when it is missing and takes it; fails when another process has it.
    pub fn take(path: &Path) -> Result<DataFolder> {
        make(path)?;
        if fs::metadata(path).is_ok_and(|found| found.mode() & STICKY != 0) {
            bail!("{} is a folder that many share; give one of its own, like {}", path.display(), path.join("forebay-data").display());
        }
        close_to_others(path)?;
        let mut lock = open_lock(path).with_context(|| format!("{} cannot be opened", path.join("lock").display()))?;
        let started = Instant::now();
        while !try_lock(&lock)? {
            if started.elapsed() > LOCK_PATIENCE {
                bail!("process {} holds {}", holder(&mut lock), path.display());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        lock.set_len(0)?;
        write!(lock, "{}", std::process::id())?;
        let gitignore = path.join(".gitignore");
        if !gitignore.exists() {
            fs::write(&gitignore, "*\n").with_context(|| format!("{} cannot be written", gitignore.display()))?;
        }
        // What a killed process left behind must not be taken for ours.
        remove(&path.join("admin.json"))?;
        Ok(DataFolder { path: path.to_owned(), _lock: lock })
    }

    pub fn write_admin(&self, admin: &Admin) -> Result<()> {
        self.write_private("admin.json", &serde_json::to_vec_pretty(admin)?)
    }
    pub fn remove_admin(&self) -> Result<()> {
        remove(&self.path.join("admin.json"))
    }

    /// A file of 0600, there as a whole or not at all.
    pub fn write_private(&self, name: &str, content: &[u8]) -> Result<()> {
        let (path, beside) = (self.path.join(name), self.path.join(format!(".{name}.new")));
        let written = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&beside, &path)
        };
        written().with_context(|| format!("{} cannot be written", path.display()))
    }
}

/// Makes the folder, closed to others, when it is missing.
pub fn make(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).with_context(|| format!("{} cannot be created", path.display()))
}

/// Takes every right from all but the owner, whoever made the file or folder and with what umask.
pub fn close_to_others(path: &Path) -> Result<()> {
    let context = || format!("{} is open to other users and cannot be closed to them", path.display());
    let mode = fs::metadata(path).with_context(context)?.mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7700)).with_context(context)?;
    }
    Ok(())
}

/// Who holds a folder: nobody, or the process of this pid.
pub fn held_by(path: &Path) -> Result<Option<u32>> {
    let Ok(mut lock) = OpenOptions::new().read(true).open(path.join("lock")) else { return Ok(None) };
    if try_lock(&lock)? {
        return Ok(None);
    }
    Ok(Some(holder(&mut lock)))
}

/// `admin.json` of the process `pid`, if it has written it.
pub fn admin_of(path: &Path, pid: u32) -> Option<Admin> {
    let admin: Admin = serde_json::from_slice(&fs::read(path.join("admin.json")).ok()?).ok()?;
    (admin.pid == pid).then_some(admin)
}

fn open_lock(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path.join("lock"))
}

fn try_lock(lock: &File) -> Result<bool> {
    match rustix::fs::flock(lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(anyhow::Error::from(e).context("the folder's lock")),
    }
}

/// 0 when the holder has not written it yet.
fn holder(lock: &mut File) -> u32 {
    let mut text = String::new();
    lock.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok()).unwrap_or(0)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(anyhow::Error::from(e).context(format!("{} cannot be removed", path.display())))
        }
        Err(_) | Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn one_holder_and_files_for_its_user_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data");
        assert_eq!(held_by(&path).expect("looks"), None);
        let data = DataFolder::take(&path).expect("free");
        let me = std::process::id();
        assert_eq!(held_by(&path).expect("looks"), Some(me));
        let error = DataFolder::take(&path).err().expect("held").to_string();
        assert!(error.contains(&me.to_string()), "{error}");

        let admin = Admin { url: "http://127.0.0.1:1".to_owned(), pid: me, token: "t".to_owned(), view_token: "v".to_owned() };
        data.write_admin(&admin).expect("written");
        assert!(admin_of(&path, me) == Some(admin) && admin_of(&path, me + 1).is_none());
        let mode = |p: &Path| fs::metadata(p).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("admin.json")), mode(&path.join("lock"))), (0o700, 0o600, 0o600));
        assert_eq!(fs::read_to_string(path.join(".gitignore")).expect("there"), "*\n");

        drop(data);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o775)).expect("ours");
        assert_eq!(held_by(&path).expect("looks"), None, "a process that is gone holds nothing");
        DataFolder::take(&path).expect("free again");
        assert_eq!(mode(&path), 0o700, "a folder that was there, too");
        assert!(admin_of(&path, me).is_none(), "what a killed process left is removed");

        let shared = folder.path().join("tmp");
        fs::create_dir(&shared).expect("made");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("ours");
        assert!(DataFolder::take(&shared).err().expect("not ours alone").to_string().contains("many share"));
        assert_eq!(mode(&shared), 0o777);
    }
}
