//! Stand-ins for the log, the object store and the disk that fail on demand. For tests alone.

use crate::spool::file::{self, Create, SegmentFile};
use bytes::Bytes;
use forebay_schemas::topic::{PUBLISHED_THROUGH, Topic};
use forebay_schemas::wire::harvested::{self, Harvested};
use forebay_stores::log::{Bounds, Committed, Entry, Lane, Log, LogError, Reader, TopicPartition};
use forebay_stores::objects::{Content, ObjectInfo, Objects, ObjectsError, Put};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[derive(Default)]
pub struct FakeLog {
    pub entries: Mutex<Vec<(TopicPartition, Entry)>>,
    pub fails: AtomicBool,
    pub refused: AtomicU32,
}

impl FakeLog {
    pub fn events(&self) -> Vec<Harvested> {
        let decode = |value: &Bytes| harvested::decode(value).expect("a harvested event");
        self.entries.lock().iter().filter_map(|(_, entry)| entry.value.as_ref().map(decode)).collect()
    }
    pub fn ids(&self) -> Vec<String> {
        self.events().iter().map(|event| event.event_id.to_string()).collect()
    }
    /// For each tick in order: its partition and time.
    pub fn ticks(&self) -> Vec<(i32, i64)> {
        let tick = |(at, entry): &(TopicPartition, Entry)| {
            let (name, value) = entry.headers.first().filter(|_| entry.value.is_none())?;
            assert_eq!(name, PUBLISHED_THROUGH);
            Some((at.partition, std::str::from_utf8(value).expect("text").parse().expect("a number")))
        };
        self.entries.lock().iter().filter_map(tick).collect()
    }
}

fn no<T>() -> Result<T, LogError> {
    Err(LogError::Io("not in this test".to_owned()))
}

impl Log for FakeLog {
    fn partitions(&self, _: Topic) -> i32 {
        4
    }
    fn topic_id(&self, _: Topic) -> Result<String, LogError> {
        no()
    }
    /// A failing append leaves a prefix behind, as the contract allows.
    fn append(&self, entries: Vec<(TopicPartition, Entry)>) -> Result<(), LogError> {
        let mut all = self.entries.lock();
        if self.fails.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            all.extend(entries.into_iter().take(1));
            return no();
        }
        all.extend(entries);
        Ok(())
    }
    fn bounds(&self, _: TopicPartition) -> Result<Bounds, LogError> {
        no()
    }
    fn reader(&self, _: TopicPartition, _: i64) -> Result<Box<dyn Reader>, LogError> {
        no()
    }
    fn lane(&self, _: &str) -> Result<Box<dyn Lane>, LogError> {
        no()
    }
    fn committed(&self, _: &str, _: TopicPartition) -> Result<Option<Committed>, LogError> {
        no()
    }
    fn wait_past(&self, _: &[(TopicPartition, i64)], _: Duration) {}
}

#[derive(Default)]
pub struct FakeObjects {
    pub objects: Mutex<BTreeMap<String, Vec<u8>>>,
    pub refuses: AtomicBool,
    /// Names handed out by `list`.
    pub listed: AtomicUsize,
    /// Names whose put began, in order.
    begun: Mutex<Vec<String>>,
    /// Puts of names that begin so wait.
    held: Mutex<Option<String>>,
    released: Condvar,
    pub fails: AtomicBool,
    pub puts: AtomicU32,
}

impl FakeObjects {
    pub fn hold(&self, prefix: &str) {
        *self.held.lock() = Some(prefix.to_owned());
    }
    pub fn release(&self) {
        *self.held.lock() = None;
        self.released.notify_all();
    }
    pub fn begun(&self) -> Vec<String> {
        self.begun.lock().clone()
    }
}

impl Objects for FakeObjects {
    fn put_if_absent(&self, name: &str, content: Content<'_>) -> Result<Put, ObjectsError> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        self.begun.lock().push(name.to_owned());
        let mut held = self.held.lock();
        let until = Instant::now() + Duration::from_secs(60);
        while held.as_ref().is_some_and(|prefix| name.starts_with(prefix)) && !self.released.wait_until(&mut held, until).timed_out() {}
        drop(held);
        if self.refuses.load(Ordering::SeqCst) {
            return Err(ObjectsError::Refused("no such bucket".to_owned()));
        }
        if self.fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("not now").into());
        }
        let bytes = match content {
            Content::File(path) => std::fs::read(path)?,
            Content::Bytes(bytes) => bytes.to_vec(),
        };
        let mut objects = self.objects.lock();
        match objects.get(name) {
            Some(there) if *there == bytes => Ok(Put::Same),
            Some(_) => Ok(Put::Different),
            None => {
                objects.insert(name.to_owned(), bytes);
                Ok(Put::Created)
            }
        }
    }
    fn get(&self, name: &str) -> Result<Vec<u8>, ObjectsError> {
        self.objects.lock().get(name).cloned().ok_or_else(|| ObjectsError::NotFound(name.to_owned()))
    }
    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, ObjectsError> {
        let bytes = self.get(name)?;
        let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX).min(bytes.len());
        Ok(bytes[at(range.start)..at(range.end)].to_vec())
    }
    fn size(&self, name: &str) -> Result<u64, ObjectsError> {
        Ok(self.get(name)?.len() as u64)
    }
    fn delete(&self, name: &str) -> Result<(), ObjectsError> {
        self.objects.lock().remove(name);
        Ok(())
    }
    fn list(&self, prefix: &str, start_after: Option<&str>, max: usize) -> Result<Vec<ObjectInfo>, ObjectsError> {
        let objects = self.objects.lock();
        let names = objects.iter().filter(|(name, _)| name.starts_with(prefix) && start_after.is_none_or(|after| name.as_str() > after));
        let page: Vec<_> = names.take(max).map(|(name, bytes)| ObjectInfo { name: name.clone(), bytes: bytes.len() as u64 }).collect();
        self.listed.fetch_add(page.len(), Ordering::SeqCst);
        Ok(page)
    }
}

/// What a disk does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskFault {
    Works,
    /// Half of the bytes are written, then there is no space.
    Full,
    /// Everything is written and the sync fails.
    SyncFails,
    /// … and the file cannot even be cut back.
    SyncAndCutFail,
}

#[derive(Clone)]
pub struct Disk(Arc<Mutex<DiskFault>>);

impl Disk {
    pub fn new() -> Disk {
        Disk(Arc::new(Mutex::new(DiskFault::Works)))
    }
    pub fn set(&self, fault: DiskFault) {
        *self.0.lock() = fault;
    }
    pub fn create(&self) -> Create {
        let disk = self.clone();
        Box::new(move |path: &Path| Ok(Box::new(FakeFile { file: file::create(path)?, disk: disk.clone() })))
    }
}

struct FakeFile {
    file: Box<dyn SegmentFile>,
    disk: Disk,
}

impl SegmentFile for FakeFile {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        if *self.disk.0.lock() == DiskFault::Full && !bytes.is_empty() {
            self.file.write_at(&bytes[..bytes.len() / 2], at)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_at(bytes, at)
    }
    fn sync(&mut self) -> io::Result<()> {
        match *self.disk.0.lock() {
            DiskFault::Works | DiskFault::Full => self.file.sync(),
            DiskFault::SyncFails | DiskFault::SyncAndCutFail => Err(io::Error::other("input/output error")),
        }
    }
    fn cut(&mut self, length: u64) -> io::Result<()> {
        match *self.disk.0.lock() {
            DiskFault::SyncAndCutFail => Err(io::Error::other("input/output error")),
            DiskFault::Works | DiskFault::Full | DiskFault::SyncFails => self.file.cut(length),
        }
    }
}
