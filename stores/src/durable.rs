//! Directories whose entries survive a power cut: a new file is only as durable as the directories above it.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// For whom files and directories are made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    Owner,
    /// Whom the process's umask lets in.
    Umask,
}

impl Access {
    pub(crate) fn file(self) -> u32 {
        match self {
            Access::Owner => 0o600,
            Access::Umask => 0o666,
        }
    }
    fn dir(self) -> u32 {
        match self {
            Access::Owner => 0o700,
            Access::Umask => 0o777,
        }
    }
}

/// Makes what is missing of `dir` and above it, each new entry synced.
pub(crate) fn make_dirs(dir: &Path, access: Access) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    make_dirs(parent_of(dir), access)?;
    make_dir(dir, access)?;
    sync_dir(parent_of(dir))
}

/// Makes one directory unless it is there. The caller syncs its parent.
pub(crate) fn make_dir(dir: &Path, access: Access) -> io::Result<()> {
    match DirBuilder::new().mode(access.dir()).create(dir) {
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
