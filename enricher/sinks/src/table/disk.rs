//! What lies on this machine beside an object store: folders that survive a power cut, a file that is replaced.

use super::error::SinkError;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

pub(super) fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, SinkError> {
    result.map_err(|source| SinkError::Io { path: path.to_owned(), source })
}

/// Replaces a file in one step: a reader sees the old bytes or the new ones, also after a power cut.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), SinkError> {
    let next = path.with_extension("tmp");
    let mut file = at(&next, File::create(&next))?;
    at(&next, file.write_all(bytes).and_then(|()| file.sync_all()))?;
    at(path, fs::rename(&next, path))?;
    sync_dir(path.parent().unwrap_or(Path::new("/")))
}

fn sync_dir(path: &Path) -> Result<(), SinkError> {
    at(path, File::open(path).and_then(|dir| dir.sync_all()))
}

/// Creates `path` and syncs each parent that got a new entry.
pub(super) fn create_dirs(path: &Path) -> Result<(), SinkError> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_dirs(parent)?;
    match fs::create_dir(path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return at(path, Err(e)),
        _ => {}
    }
    sync_dir(parent)
}
