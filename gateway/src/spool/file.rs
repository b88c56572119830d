//! The disk below the spool, behind traits so that tests can let it fail and forget.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Where segments lie.
pub trait Files: Send + Sync {
    /// Makes a file, readable by its owner alone; it must not exist.
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>>;
    /// Makes the names in a folder durable.
    fn sync_names(&self, folder: &Path) -> io::Result<()>;
}

/// One segment's file.
pub trait SegmentFile: Send {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Makes all that was written durable.
    fn sync(&mut self) -> io::Result<()>;
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// The machine's own disk.
pub struct Disk;

impl Files for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        Ok(Box::new(OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?))
    }
    fn sync_names(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

impl SegmentFile for File {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}
