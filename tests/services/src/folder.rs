//! The folder of a service.
//!
//! Owns: folders of services that keep nothing, and their removal, also when the process that made them was killed.

use crate::{Home, Result};
use std::fs::File;
use std::path::PathBuf;
use tempfile::TempDir;

const PREFIX: &str = "forebay-services-";
/// Locked while its folder is in use.
const CLAIM: &str = ".claim";

/// A home in use. Dropped: a folder of its own is removed.
pub struct Folder {
    pub path: PathBuf,
    pub detached: bool,
    _own: Option<(TempDir, File)>,
}

impl Folder {
    pub fn open(home: Home) -> Result<Folder> {
        let (path, detached, own) = match home {
            Home::Own => {
                sweep()?;
                let own = own()?;
                (own.0.path().to_owned(), false, Some(own))
            }
            Home::At(path) => (path, false, None),
            Home::Detached(path) => (path, true, None),
        };
        std::fs::create_dir_all(&path)?;
        Ok(Folder { path, detached, _own: own })
    }
}

fn own() -> Result<(TempDir, File)> {
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
    let making = folder.path().join("claim.new");
    let claim = File::create(&making)?;
    claim.lock()?;
    // Under its name it is locked from the first moment on, so nobody sweeps a folder that is being made.
    std::fs::rename(&making, folder.path().join(CLAIM))?;
    Ok((folder, claim))
}

/// Removes what ended processes have left.
fn sweep() -> Result<()> {
    for entry in std::fs::read_dir(std::env::temp_dir())? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Another process may be sweeping too: what is gone is gone.
        if File::open(entry.path().join(CLAIM)).is_ok_and(|claim| claim.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}
