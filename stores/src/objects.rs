//! The object store: immutable objects under names that nobody else can take.

pub mod folder;
pub mod s3;

use forebay_schemas::limit;
use std::ops::Range;
use std::path::Path;

/// What is put: a file as it lies, or bytes.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    File(&'a Path),
    Bytes(&'a [u8]),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// The object is there, durable, and ours.
    Created,
    /// The name was taken by an object with the same bytes: an earlier put whose answer was lost.
    Same,
    /// The name was taken by other bytes. Never overwritten; pages someone.
    Different,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectInfo {
    pub name: String,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    #[error("no object {0:?}")]
    NotFound(String),
    #[error("object name {0:?} is not allowed")]
    BadName(String),
    /// What waiting does not change: no such bucket, credentials that are wrong or may not do this.
    #[error("the object store refuses: {0}")]
    Refused(String),
    /// Anything that may pass.
    #[error("objects: {0}")]
    Io(#[from] std::io::Error),
}

/// Names are `/`-separated, relative, without empty, `.`, `..` or `.tmp-…` parts and without control characters, within
/// `limit::OBJECT_NAME_BYTES` and `limit::OBJECT_PART_BYTES`. Blocking; called from threads of their own.
pub trait Objects: Send + Sync {
    fn put_if_absent(&self, name: &str, content: Content<'_>) -> Result<Put, ObjectsError>;
    fn get(&self, name: &str) -> Result<Vec<u8>, ObjectsError>;
    /// The bytes `range` of an object; fewer when the object ends before, none when it ends before `range` begins.
    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, ObjectsError>;
    /// How many bytes the object has.
    fn size(&self, name: &str) -> Result<u64, ObjectsError>;
    /// Objects whose name begins with `prefix`, in name order, from after `start_after`; at most `max`.
    fn list(&self, prefix: &str, start_after: Option<&str>, max: usize) -> Result<Vec<ObjectInfo>, ObjectsError>;
    /// Removes an object; none of that name is no error. Raw objects are never removed this way (law R1): this is for
    /// what others name, like a table's files.
    fn delete(&self, name: &str) -> Result<(), ObjectsError>;
}

/// The same names are allowed in every form, so that a folder can be moved to a bucket and back.
pub(crate) fn check_name(name: &str) -> Result<(), ObjectsError> {
    let part = |part: &str| {
        !part.is_empty() && part != "." && part != ".." && !part.starts_with(folder::TEMP_PREFIX) && part.len() <= limit::OBJECT_PART_BYTES
    };
    let allowed = name.len() <= limit::OBJECT_NAME_BYTES && name.split('/').all(part) && !name.chars().any(|c| c.is_control() || c == '\\');
    if allowed { Ok(()) } else { Err(ObjectsError::BadName(name.to_owned())) }
}

#[cfg(test)]
mod conformance;
