//! The object store as a folder of this machine.
//!
//! Owns: put-if-absent (temp file, fsync, link, fsync of the directories), reading, listing in name order.
//! Does not own: what the objects are, retention.
//! Invariants: an object's name appears at once with all its bytes, or not at all; it is never written again;
//! a put that answered `Created` or `Same` survives a power cut; a failed put leaves nothing behind.

use super::{Content, ObjectInfo, Objects, ObjectsError, Put, check_name};
use crate::durable::{Access, make_dir, make_dirs, parent_of, sync_dir};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Begins the names of unfinished puts. No object may be called so.
pub const TEMP_PREFIX: &str = ".tmp-";
/// Directories remembered as durable; past it they are learned anew.
const DURABLE_DIRS_MAX: usize = 1_024;

/// Objects are files below `root`, under their names. Nothing is created before the first put.
pub struct Folder {
    root: PathBuf,
    access: Access,
    /// Directories whose entries up to the root this process has synced.
    durable: Mutex<BTreeSet<PathBuf>>,
}

impl Folder {
    /// Files for the owner alone.
    pub fn new(root: impl Into<PathBuf>) -> Folder {
        Folder { root: root.into(), access: Access::Owner, durable: Mutex::new(BTreeSet::new()) }
    }

    /// Files for whom the process's umask lets in: other users' programs read them where they lie.
    pub fn shared(root: impl Into<PathBuf>) -> Folder {
        Folder { access: Access::Umask, ..Folder::new(root) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn open(&self, name: &str) -> Result<File, ObjectsError> {
        check_name(name)?;
        let missing = || ObjectsError::NotFound(name.to_owned());
        match File::open(self.path(name)) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Err(missing()),
            Ok(file) if file.metadata()?.is_dir() => Err(missing()),
            opened => Ok(opened?),
        }
    }

    /// Makes `dir` and its parents, and syncs each entry on the way: a directory may be there from a process that died
    /// before its sync, so being there is not enough.
    fn durable_dir(&self, dir: &Path) -> io::Result<()> {
        if self.durable.lock().contains(dir) && dir.is_dir() {
            return Ok(());
        }
        if dir == self.root {
            make_dirs(dir, self.access)?;
        } else {
            self.durable_dir(parent_of(dir))?;
            make_dir(dir, self.access)?;
        }
        sync_dir(parent_of(dir))?;
        let mut durable = self.durable.lock();
        if durable.len() >= DURABLE_DIRS_MAX {
            durable.clear();
        }
        durable.insert(dir.to_owned());
        Ok(())
    }

    /// The name is taken. The one who took it may have died before its sync: what is answered `Same` is durable, too.
    fn taken(&self, path: &Path, dir: &Path, content: Content<'_>) -> Result<Put, ObjectsError> {
        if !same_content(&mut File::open(path)?, content)? {
            return Ok(Put::Different);
        }
        self.durable_dir(dir)?;
        sync_dir(dir)?;
        Ok(Put::Same)
    }
}

impl Objects for Folder {
    fn put_if_absent(&self, name: &str, content: Content<'_>) -> Result<Put, ObjectsError> {
        check_name(name)?;
        let path = self.path(name);
        let dir = path.parent().expect("a checked name lies below the root");
        if path.is_file() {
            return self.taken(&path, dir, content);
        }
        self.durable_dir(dir)?;
        let temp = Temp::write(dir, content, self.access)?;
        match fs::hard_link(&temp.path, &path) {
            Ok(()) => {
                sync_dir(dir)?;
                Ok(Put::Created)
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => self.taken(&path, dir, content),
            Err(e) => Err(e.into()),
        }
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, ObjectsError> {
        let mut bytes = Vec::new();
        self.open(name)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, ObjectsError> {
        let mut file = self.open(name)?;
        file.seek(SeekFrom::Start(range.start))?;
        let mut bytes = Vec::new();
        file.take(range.end.saturating_sub(range.start)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn size(&self, name: &str) -> Result<u64, ObjectsError> {
        Ok(self.open(name)?.metadata()?.len())
    }

    fn delete(&self, name: &str) -> Result<(), ObjectsError> {
        check_name(name)?;
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(sync_dir(parent_of(&path))?),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn list(&self, prefix: &str, start_after: Option<&str>, max: usize) -> Result<Vec<ObjectInfo>, ObjectsError> {
        let mut listing = Listing { prefix, start_after: start_after.unwrap_or(""), max, found: Vec::new() };
        listing.walk(&self.root, "")?;
        Ok(listing.found)
    }
}

/// A file that goes away with its owner unless it has been linked elsewhere.
struct Temp {
    path: PathBuf,
}

impl Temp {
    /// Copies `content` to a new file in `dir` and syncs it.
    fn write(dir: &Path, content: Content<'_>, access: Access) -> io::Result<Temp> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (mut file, temp) = loop {
            let nth = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!("{TEMP_PREFIX}{}-{nth}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(access.file()).open(&path) {
                Ok(file) => break (file, Temp { path }),
                // Left by a process that had this number before and was killed.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        };
        match content {
            Content::Bytes(bytes) => file.write_all(bytes)?,
            Content::File(from) => {
                io::copy(&mut File::open(from)?, &mut file)?;
            }
        }
        file.sync_all()?;
        Ok(temp)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // What cannot be removed is ignored by readers.
        let _ = fs::remove_file(&self.path);
    }
}

fn same_content(stored: &mut File, content: Content<'_>) -> io::Result<bool> {
    match content {
        Content::Bytes(bytes) => Ok(stored.metadata()?.len() == bytes.len() as u64 && same_stream(stored, &mut &bytes[..])?),
        Content::File(path) => {
            let mut file = File::open(path)?;
            Ok(stored.metadata()?.len() == file.metadata()?.len() && same_stream(stored, &mut file)?)
        }
    }
}

fn same_stream(a: &mut impl Read, b: &mut impl Read) -> io::Result<bool> {
    const STEP: usize = 64 << 10;
    let (mut from_a, mut from_b) = (Vec::with_capacity(STEP), Vec::with_capacity(STEP));
    loop {
        from_a.clear();
        from_b.clear();
        a.take(STEP as u64).read_to_end(&mut from_a)?;
        b.take(STEP as u64).read_to_end(&mut from_b)?;
        if from_a != from_b {
            return Ok(false);
        }
        if from_a.is_empty() {
            return Ok(true);
        }
    }
}

/// One page of names, walked in name order.
struct Listing<'a> {
    prefix: &'a str,
    start_after: &'a str,
    max: usize,
    found: Vec<ObjectInfo>,
}

impl Listing<'_> {
    /// `below` is the name of `dir` with its closing slash; empty for the root.
    fn walk(&mut self, dir: &Path, below: &str) -> io::Result<()> {
        for name in sorted_names(dir, below)? {
            if self.found.len() == self.max {
                return Ok(());
            }
            let path = dir.join(name[below.len()..].trim_end_matches('/'));
            if name.ends_with('/') {
                let before = name.as_str() < self.start_after && !self.start_after.starts_with(&name);
                if !before && (name.starts_with(self.prefix) || self.prefix.starts_with(&name)) {
                    self.walk(&path, &name)?;
                }
            } else if name.as_str() > self.start_after && name.starts_with(self.prefix) {
                match fs::metadata(&path) {
                    Ok(meta) => self.found.push(ObjectInfo { name, bytes: meta.len() }),
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }
}

/// The entries of a directory as names, those of directories with a closing slash: sorted so, a walk is in name order
/// (`a-b` comes before `a/b`). What could be no object is left out.
fn sorted_names(dir: &Path, below: &str) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        let Ok(part) = entry.file_name().into_string() else { continue };
        let name = format!("{below}{part}");
        if check_name(&name).is_err() {
            continue;
        }
        if kind.is_dir() {
            names.push(name + "/");
        } else if kind.is_file() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests;
