//! One segment's file, behind a trait so that tests can let the disk fail.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

pub trait SegmentFile: Send {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Makes all that was written durable.
    fn sync(&mut self) -> io::Result<()>;
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// How a new segment's file is made.
pub type Create = Box<dyn Fn(&Path) -> io::Result<Box<dyn SegmentFile>> + Send>;

/// A real file, readable by its owner alone; it must not exist.
pub fn create(path: &Path) -> io::Result<Box<dyn SegmentFile>> {
    Ok(Box::new(OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?))
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
