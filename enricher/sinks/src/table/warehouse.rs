//! The files of a table, by their absolute locations, kept by an object store.
//!
//! Owns: which location is which object, reading, putting, removing, listing; what an object store cannot do and a
//! folder can (`version-hint.text`). Does not own: what the files are. Invariants: a file is written once, whole and
//! durable when `put` returns; nothing outside the warehouse is read or removed.

use super::NAMESPACE;
use super::error::SinkError;
use super::place;
use super::shape::Shape;
use bytes::Bytes;
use forebay_schemas::limit;
use forebay_stores::objects::{Content, Objects, ObjectsError, Put};
use futures::FutureExt;
use iceberg::io::FileIO;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone)]
pub(super) struct Warehouse {
    pub shape: &'static Shape,
    objects: Arc<dyn Objects>,
    /// What its locations begin with, without `/` at the end: an absolute path, or `s3://bucket/prefix`.
    root: String,
    folder: Option<PathBuf>,
}

impl Warehouse {
    /// The table of `shape` in the warehouse `at`, whose root is also that of `objects`. A folder is made if it is missing.
    pub(super) fn open(at: &place::Warehouse, objects: Arc<dyn Objects>, shape: &'static Shape) -> Result<Warehouse, SinkError> {
        if let place::Warehouse::Folder(path) = at {
            std::fs::create_dir_all(path).map_err(|source| SinkError::Io { path: path.clone(), source })?;
        }
        Warehouse::look(at, objects, shape)
    }

    /// The same without making anything.
    pub(super) fn look(at: &place::Warehouse, objects: Arc<dyn Objects>, shape: &'static Shape) -> Result<Warehouse, SinkError> {
        let place::Warehouse::Folder(path) = at else {
            return Ok(Warehouse { shape, objects, root: at.clone().into(), folder: None });
        };
        let folder = path.canonicalize().or_else(|_| std::path::absolute(path));
        let folder = folder.map_err(|source| SinkError::Io { path: path.clone(), source })?;
        let root = folder.to_str().ok_or_else(|| SinkError::Io {
            path: folder.clone(),
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path of a warehouse must be UTF-8"),
        })?;
        Ok(Warehouse { shape, objects, root: root.trim_end_matches('/').to_owned(), folder: Some(folder) })
    }

    /// Below the root.
    fn table(&self) -> String {
        format!("{NAMESPACE}/{}", self.shape.name)
    }

    /// Where the table is, as Iceberg writes it.
    pub(super) fn table_location(&self) -> String {
        format!("{}/{}", self.root, self.table())
    }

    /// Whether a table at `location` is the one of this warehouse.
    pub(super) fn is_table(&self, location: &str) -> bool {
        self.name(location.trim_end_matches('/')).is_ok_and(|name| name == self.table())
    }

    /// The table's folder, if the warehouse is one.
    pub(super) fn table_folder(&self) -> Option<PathBuf> {
        Some(self.folder.as_deref()?.join(self.table()))
    }

    /// A new file. Durable when this returns; an error does not say that it is not there.
    pub(super) fn put(&self, location: &str, bytes: &[u8]) -> Result<(), SinkError> {
        let failed = |source| SinkError::Objects { location: location.to_owned(), source };
        match self.objects.put_if_absent(&self.name(location)?, Content::Bytes(bytes)).map_err(failed)? {
            Put::Created | Put::Same => Ok(()),
            Put::Different => Err(failed(ObjectsError::Io(std::io::Error::other("another file has this name already")))),
        }
    }

    pub(super) fn read(&self, location: &str) -> Result<Bytes, SinkError> {
        let read = self.objects.get(&self.name(location)?);
        read.map(Bytes::from).map_err(|source| SinkError::Objects { location: location.to_owned(), source })
    }

    /// The file as one of a memory, for `iceberg`'s own readers.
    pub(super) fn scratch(&self, location: &str) -> Result<FileIO, SinkError> {
        let io = FileIO::new_with_memory();
        now(io.new_output(location)?.write(self.read(location)?))?;
        Ok(io)
    }

    /// The object of a file, to be read in parts.
    pub(super) fn object(&self, location: &str) -> Result<(Arc<dyn Objects>, String), SinkError> {
        Ok((self.objects.clone(), self.name(location)?))
    }

    /// Removes a file that may be gone already. A failure is told in the log and left to the next sweep.
    pub(super) fn remove(&self, location: &str) {
        self.remove_all([location]);
    }

    /// As `remove`, up to the first that the object store does not remove: the others would wait for it as long.
    pub(super) fn remove_all<L: AsRef<str>>(&self, locations: impl IntoIterator<Item = L>) {
        for location in locations {
            let location = location.as_ref();
            match self.name(location) {
                Ok(name) => {
                    if let Err(error) = self.objects.delete(&name) {
                        return tracing::warn!(%error, location, "could not remove files of the table; a sweep will");
                    }
                }
                // Another program put it there; it is not ours to remove.
                Err(error) => tracing::warn!(%error, "left a file of the table where it is"),
            }
        }
    }

    /// The locations of all files below the folder `part` of the table, in name order.
    pub(super) fn list(&self, part: &str) -> Result<Vec<String>, SinkError> {
        let prefix = format!("{}/{part}/", self.table());
        let mut names: Vec<String> = Vec::new();
        loop {
            let after = names.last().map(String::as_str);
            let page = self.objects.list(&prefix, after, limit::SINK_LIST_OBJECTS);
            let page = page.map_err(|source| SinkError::Objects { location: prefix.clone(), source })?;
            if page.is_empty() {
                return Ok(names.into_iter().map(|name| format!("{}/{name}", self.root)).collect());
            }
            names.extend(page.into_iter().map(|object| object.name));
        }
    }

    /// Whether a table was filled here, whatever a catalogue says.
    pub(super) fn has_rows(&self) -> Result<bool, SinkError> {
        let prefix = format!("{}/data/", self.table());
        let found = self.objects.list(&prefix, None, 1);
        Ok(!found.map_err(|source| SinkError::Objects { location: prefix.clone(), source })?.is_empty())
    }

    /// Where a metadata file is by now if the whole warehouse was moved.
    pub(super) fn moved(&self, location: String) -> String {
        let file = location.rsplit('/').next().unwrap_or_default();
        if self.folder.is_some() && self.name(&location).is_err() { format!("{}/metadata/{file}", self.table_location()) } else { location }
    }

    /// The object's name. Other programs write locations with other schemes for the same place.
    pub(super) fn name(&self, location: &str) -> Result<String, SinkError> {
        let inside = match &self.folder {
            Some(_) => path_of(location).strip_prefix(&self.root),
            None => self.root.split_once("://").and_then(|(_, root)| {
                let (scheme, place) = location.split_once("://")?;
                matches!(scheme, "s3" | "s3a" | "s3n").then(|| place.strip_prefix(root))?
            }),
        };
        let name = inside.and_then(|rest| rest.strip_prefix('/')).map(str::to_owned);
        name.ok_or_else(|| SinkError::Outside { location: location.to_owned(), warehouse: self.root.clone() })
    }
}

/// The path of a location as Iceberg writes it: plain, or with `file:`.
fn path_of(location: &str) -> &str {
    let rest = location.strip_prefix("file:").unwrap_or(location);
    match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        _ => rest,
    }
}

/// What `iceberg` does with a memory is done at once.
pub(super) fn now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().expect("a memory never waits")
}
