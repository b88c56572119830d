//! Directories whose entries survive a power cut: a new file is only as durable as the directories above it.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes what is missing of `dir` and above it, for the owner alone, each new entry synced.
pub(crate) fn make_dirs(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    make_dirs(parent_of(dir))?;
    make_dir(dir)?;
    sync_dir(parent_of(dir))
}

/// Makes one directory unless it is there. The caller syncs its parent.
pub(crate) fn make_dir(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

pub(crate) fn parent_of(dir: &Path) -> &Path {
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
