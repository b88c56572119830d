//! Stand-ins for the log, the object store and the disk that fail on demand. For tests alone.

use crate::spool::file::{self, Files, SegmentFile};
use bytes::Bytes;
use forebay_schemas::topic::{PUBLISHED_THROUGH, Topic};
use forebay_schemas::wire::harvested::{self, Harvested};
use forebay_stores::log::{Bounds, Committed, Entry, Lane, Log, LogError, Reader, TopicPartition};
use forebay_stores::objects::{Content, ObjectInfo, Objects, ObjectsError, Put};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a log does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFault {
    #[default]
    Works,
    /// For so many appends, then it fails.
    WorksFor(u32),
    /// A failing append leaves a prefix behind, as the contract allows.
    Fails,
    Refuses,
    /// Does not answer until it is set to something else.
    Hangs,
}

pub struct FakeLog {
    pub entries: Mutex<Vec<(TopicPartition, Entry)>>,
    fault: Mutex<LogFault>,
    changed: Condvar,
    /// Failed appends.
    pub failed: AtomicU32,
    /// Key and value of the largest record that it takes.
    pub record_max: AtomicUsize,
}

impl Default for FakeLog {
    fn default() -> FakeLog {
        FakeLog {
            entries: Mutex::default(),
            fault: Mutex::default(),
            changed: Condvar::new(),
            failed: AtomicU32::new(0),
            record_max: AtomicUsize::new(usize::MAX),
        }
    }
}

impl FakeLog {
    pub fn set(&self, fault: LogFault) {
        *self.fault.lock() = fault;
        self.changed.notify_all();
    }
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
    fn append(&self, entries: Vec<(TopicPartition, Entry)>) -> Result<(), LogError> {
        let mut fault = self.fault.lock();
        let until = Instant::now() + Duration::from_secs(60);
        while *fault == LogFault::Hangs && !self.changed.wait_until(&mut fault, until).timed_out() {}
        let size = |entry: &Entry| entry.key.len() + entry.value.as_ref().map_or(0, Bytes::len);
        let large = entries.iter().find(|(_, entry)| size(entry) > self.record_max.load(Ordering::SeqCst));
        let error = match (*fault, large) {
            (LogFault::Works | LogFault::WorksFor(_), Some((at, entry))) => LogError::TooLarge { topic_partition: *at, bytes: size(entry) },
            (LogFault::Works, None) => {
                self.entries.lock().extend(entries);
                return Ok(());
            }
            (LogFault::WorksFor(appends @ 1..), None) => {
                *fault = LogFault::WorksFor(appends - 1);
                self.entries.lock().extend(entries);
                return Ok(());
            }
            (LogFault::Refuses, _) => LogError::Refused("no such topic".to_owned()),
            (LogFault::WorksFor(0) | LogFault::Fails | LogFault::Hangs, _) => {
                self.entries.lock().extend(entries.into_iter().take(1));
                LogError::Io("not now".to_owned())
            }
        };
        self.failed.fetch_add(1, Ordering::SeqCst);
        Err(error)
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

/// A disk that fails when told to, and forgets what was not synced when its power is cut.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<Platters>>);

struct Platters {
    fault: DiskFault,
    files: BTreeMap<PathBuf, Synced>,
}

/// What a power cut leaves of a file.
#[derive(Default)]
struct Synced {
    length: u64,
    name: bool,
}

impl Disk {
    pub fn new() -> Disk {
        Disk(Arc::new(Mutex::new(Platters { fault: DiskFault::Works, files: BTreeMap::new() })))
    }
    pub fn set(&self, fault: DiskFault) {
        self.0.lock().fault = fault;
    }
    fn fault(&self) -> DiskFault {
        self.0.lock().fault
    }
    /// Copies into `folder` what would be left if the power were cut now: of segments, what is synced under a name that is.
    pub fn cut_power(&self, folder: &Path) {
        let platters = self.0.lock();
        for (path, synced) in platters.files.iter().filter(|(path, synced)| synced.name && path.exists()) {
            let bytes = std::fs::read(path).expect("reads");
            let left = &bytes[..usize::try_from(synced.length).expect("small")];
            std::fs::write(folder.join(path.file_name().expect("a name")), left).expect("writes");
        }
    }
}

impl Files for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        let file = file::Disk.create(path)?;
        self.0.lock().files.insert(path.to_owned(), Synced::default());
        Ok(Box::new(FakeFile { file, disk: self.clone(), path: path.to_owned(), written: 0 }))
    }
    fn sync_names(&self, folder: &Path) -> io::Result<()> {
        file::Disk.sync_names(folder)?;
        let mut platters = self.0.lock();
        platters.files.iter_mut().filter(|(path, _)| path.parent() == Some(folder)).for_each(|(_, synced)| synced.name = true);
        Ok(())
    }
}

struct FakeFile {
    file: Box<dyn SegmentFile>,
    disk: Disk,
    path: PathBuf,
    written: u64,
}

impl SegmentFile for FakeFile {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        if self.disk.fault() == DiskFault::Full && !bytes.is_empty() {
            self.file.write_at(&bytes[..bytes.len() / 2], at)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_at(bytes, at)?;
        self.written = self.written.max(at + bytes.len() as u64);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        match self.disk.fault() {
            DiskFault::Works | DiskFault::Full => {
                self.file.sync()?;
                self.disk.0.lock().files.entry(self.path.clone()).or_default().length = self.written;
                Ok(())
            }
            DiskFault::SyncFails | DiskFault::SyncAndCutFail => Err(io::Error::other("input/output error")),
        }
    }
    fn cut(&mut self, length: u64) -> io::Result<()> {
        match self.disk.fault() {
            DiskFault::SyncAndCutFail => Err(io::Error::other("input/output error")),
            DiskFault::Works | DiskFault::Full | DiskFault::SyncFails => {
                self.written = self.written.min(length);
                self.file.cut(length)
            }
        }
    }
}
