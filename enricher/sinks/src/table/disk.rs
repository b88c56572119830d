//! Files that are on disk when we say so: synced, put in place by rename, their folders synced too.

use super::error::SinkError;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, SinkError> {
    result.map_err(|source| SinkError::Io { path: path.to_owned(), source })
}

/// The path of a location as Iceberg writes it: plain, or with `file:`.
pub(super) fn path_of(location: &str) -> PathBuf {
    let rest = location.strip_prefix("file:").unwrap_or(location);
    match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') => PathBuf::from(path),
        _ => PathBuf::from(rest),
    }
}

/// Writes a new file and syncs it; the caller syncs the folder.
pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), SinkError> {
    let mut file = at(path, File::create(path))?;
    at(path, file.write_all(bytes).and_then(|()| file.sync_all()))
}

/// Replaces a file in one step: a reader sees the old bytes or the new ones, also after a power cut.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), SinkError> {
    let next = path.with_extension("tmp");
    write_synced(&next, bytes)?;
    at(path, fs::rename(&next, path))?;
    sync_dir(path.parent().unwrap_or(Path::new("/")))
}

/// Syncs a file that another hand wrote, and its folder.
pub(super) fn sync_file(path: &Path) -> Result<(), SinkError> {
    at(path, File::open(path).and_then(|file| file.sync_all()))?;
    sync_dir(path.parent().unwrap_or(Path::new("/")))
}

pub(super) fn sync_dir(path: &Path) -> Result<(), SinkError> {
    at(path, File::open(path).and_then(|dir| dir.sync_all()))
}

/// Creates `path` and syncs each parent that got a new entry.
pub(super) fn create_dirs(path: &Path) -> Result<(), SinkError> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    create_dirs(parent)?;
    match fs::create_dir(path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return at(path, Err(e)),
        _ => {}
    }
    sync_dir(parent)
}

/// Deletes a file that may be gone already. A failure is told in the log and left to the next sweep.
pub(super) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, path = %path.display(), "could not remove a file of the table"),
    }
}
