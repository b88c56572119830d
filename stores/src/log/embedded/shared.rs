//! What the log, its readers and its lanes share: the open folder and the tail of each partition.
//!
//! Owns: the one way to write (`write`), waking of who waits, coming back after a failed write.
//! Invariants: offsets are given under the lock of their partition and become visible after the synced write;
//! after a write whose outcome is unknown nothing more is written until the folder was opened anew and its WAL has told.

use super::folder::{Folder, META, Tail, damaged, family, family_name};
use super::meta::TopicMeta;
use super::record::{self, Stamp};
use super::{EmbeddedOptions, tuning};
use crate::log::{Bounds, Entry, LogError, TopicPartition};
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use rocksdb::{DB, WriteBatch};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Between two attempts to open the folder again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);
/// Room for a record's own framing in a batch.
const FRAMING_BYTES: usize = 64;

pub(super) struct Partition {
    pub at: TopicPartition,
    pub family: String,
    tail: Mutex<Tail>,
    start: AtomicI64,
    /// Of what is durable: readers go no further.
    end: AtomicI64,
}

impl Partition {
    pub fn bounds(&self) -> Bounds {
        // The end first: it never goes back, so the start that is read after it may be past it, but never the reverse.
        let end = self.end.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        Bounds { start, end: end.max(start) }
    }
    /// Keeps others from appending to it and from moving its start.
    pub fn lock(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock()
    }
    pub fn set_start(&self, _locked: &mut MutexGuard<'_, Tail>, start: i64) {
        self.start.store(start, Ordering::Release);
    }
}

pub(super) struct Shared {
    pub dir: PathBuf,
    pub options: EmbeddedOptions,
    read_only: bool,
    topics: [Option<TopicMeta>; Topic::ALL.len()],
    partitions: Vec<Partition>,
    /// `None` while it could not be opened again.
    db: RwLock<Option<DB>>,
    /// A write failed: what is on disk may differ from the tails.
    failed: AtomicBool,
    reopen_after: Mutex<Option<Instant>>,
    /// Epoch of each lane that was opened, under a lock that its commits hold.
    pub lanes: Mutex<BTreeMap<String, Arc<Mutex<u64>>>>,
    /// Held by who moves starts.
    pub retaining: Mutex<()>,
    appends: Mutex<()>,
    appended: Condvar,
}

/// Why a write was not done.
pub(super) enum NotWritten {
    /// Nothing of it is there.
    Refused(LogError),
    /// All of it or nothing: opening the folder again tells.
    Unknown(String),
}

impl From<LogError> for NotWritten {
    fn from(error: LogError) -> NotWritten {
        NotWritten::Refused(error)
    }
}

impl Shared {
    pub fn open(dir: &Path, options: EmbeddedOptions) -> Result<Shared, LogError> {
        let folder = Folder::open(dir, &options)?;
        Shared::of(dir, options, folder, false)
    }

    pub fn open_read_only(dir: &Path) -> Result<Shared, LogError> {
        let options = EmbeddedOptions::default();
        let folder = Folder::open_read_only(dir, &options)?;
        Shared::of(dir, options, folder, true)
    }

    fn of(dir: &Path, options: EmbeddedOptions, folder: Folder, read_only: bool) -> Result<Shared, LogError> {
        let mut partitions = Vec::new();
        for (topic, meta) in Topic::ALL.into_iter().zip(folder.topics) {
            for partition in 0..meta.map_or(0, |meta| meta.partitions) {
                let at = TopicPartition { topic, partition };
                let (start, tail) = folder.ends(at)?;
                let (start, end) = (AtomicI64::new(start), AtomicI64::new(tail.end));
                partitions.push(Partition { at, family: family_name(at), tail: Mutex::new(tail), start, end });
            }
        }
        Ok(Shared {
            dir: dir.to_owned(),
            options,
            read_only,
            topics: folder.topics,
            partitions,
            db: RwLock::new(Some(folder.db)),
            failed: AtomicBool::new(false),
            reopen_after: Mutex::new(None),
            lanes: Mutex::default(),
            retaining: Mutex::default(),
            appends: Mutex::default(),
            appended: Condvar::new(),
        })
    }

    pub fn topic(&self, topic: Topic) -> Option<TopicMeta> {
        self.topics[Topic::ALL.iter().position(|t| *t == topic)?]
    }

    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    fn index(&self, at: TopicPartition) -> Result<usize, LogError> {
        // Partitions lie in the order of (topic, partition), which is that of `TopicPartition`.
        let found = self.partitions.binary_search_by_key(&at, |partition| partition.at);
        found.map_err(|_| LogError::Refused(format!("topic {} has no partition {}", at.topic.word(), at.partition)))
    }

    pub fn partition(&self, at: TopicPartition) -> Result<&Partition, LogError> {
        Ok(&self.partitions[self.index(at)?])
    }

    /// The database, for reading and for as long as the answer is held.
    pub fn db(&self) -> Result<Open<'_>, LogError> {
        if self.db.read().is_none() {
            self.reopen()?;
        }
        Open::of(self.db.read())
    }

    /// The database, for writing: opened anew when a write had failed.
    pub fn writable(&self) -> Result<Open<'_>, LogError> {
        if self.read_only {
            return Err(LogError::Io("opened for reading only".to_owned()));
        }
        if self.failed.load(Ordering::Acquire) {
            self.reopen()?;
        }
        self.db()
    }

    /// A full disk is refused before RocksDB meets it, while flushes, retention and a restart still have room.
    fn check_room(&self) -> Result<(), LogError> {
        let disk = rustix::fs::statvfs(&self.dir).map_err(|e| LogError::Io(format!("{}: {e}", self.dir.display())))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free >= limit::LOG_RESERVE_BYTES {
            return Ok(());
        }
        let needed = limit::LOG_RESERVE_BYTES >> 20;
        Err(LogError::Io(format!("{}: {} MiB free of the {needed} MiB that it needs", self.dir.display(), free >> 20)))
    }

    /// Writes `entries` and what `with` adds to the batch, durably and all or nothing; then shows them to readers.
    pub fn write<'e, E>(&self, entries: E, with: impl FnOnce(&DB, &mut WriteBatch) -> Result<(), LogError>) -> Result<(), NotWritten>
    where
        E: IntoIterator<Item = &'e (TopicPartition, Entry), IntoIter: Clone>,
    {
        let entries = entries.into_iter();
        let (touched, bytes) = self.measure(entries.clone())?;
        self.check_room()?;
        let db = self.writable()?;
        // In the order of partitions, so that two writers never wait for each other.
        let mut locked: BTreeMap<usize, (MutexGuard<'_, Tail>, &rocksdb::ColumnFamily)> = BTreeMap::new();
        for index in touched {
            let partition = &self.partitions[index];
            locked.insert(index, (partition.lock(), family(&db, &partition.family)?));
        }
        if self.failed.load(Ordering::Acquire) {
            return Err(LogError::Io("a write beside this one has just failed".to_owned()).into());
        }
        let now = (self.options.clock)();
        let mut tails: BTreeMap<usize, Tail> = locked.iter().map(|(index, (tail, _))| (*index, **tail)).collect();
        let mut batch = WriteBatch::with_capacity_bytes(bytes);
        let mut value = Vec::new();
        let mut last: Option<(TopicPartition, usize)> = None;
        for (at, entry) in entries {
            let index = match last {
                Some((last, index)) if last == *at => index,
                _ => self.index(*at)?,
            };
            last = Some((*at, index));
            let tail = tails.get_mut(&index).expect("every entry was measured");
            tail.timestamp = tail.timestamp.max(now);
            value.clear();
            record::encode(&mut value, Stamp { timestamp: tail.timestamp, position: tail.position }, entry);
            batch.put_cf(&locked[&index].1, record::offset_key(tail.end), &value);
            tail.end += 1;
            tail.position += record::size(&entry.key, &entry.value, &entry.headers) as u64;
        }
        with(&db, &mut batch)?;
        self.write_batch(&db, batch)?;
        for (index, tail) in tails {
            let (locked, _) = locked.get_mut(&index).expect("the tails are those of what is locked");
            **locked = tail;
            self.partitions[index].end.store(tail.end, Ordering::Release);
        }
        drop(locked);
        self.wake();
        Ok(())
    }

    /// A synced write of a batch that appends nothing, or whose partitions are locked.
    pub fn write_batch(&self, db: &DB, batch: WriteBatch) -> Result<(), NotWritten> {
        if batch.is_empty() {
            return Ok(());
        }
        db.write_opt(batch, &tuning::synced()).map_err(|e| {
            self.failed.store(true, Ordering::Release);
            NotWritten::Unknown(e.into_string())
        })
    }

    /// Which partitions are touched, and about how large the batch will be.
    fn measure<'e>(&self, entries: impl Iterator<Item = &'e (TopicPartition, Entry)>) -> Result<(BTreeSet<usize>, usize), LogError> {
        let (mut touched, mut bytes) = (BTreeSet::new(), FRAMING_BYTES);
        for (at, entry) in entries {
            touched.insert(self.index(*at)?);
            let size = record::size(&entry.key, &entry.value, &entry.headers);
            if size > limit::MESSAGE_BYTES {
                return Err(LogError::TooLarge { topic_partition: *at, bytes: size });
            }
            bytes += size + FRAMING_BYTES;
        }
        Ok((touched, bytes))
    }

    /// Closes the folder and opens it anew: what is in its WAL is the truth about writes that had failed.
    fn reopen(&self) -> Result<(), LogError> {
        let mut db = self.db.write();
        if db.is_some() && !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut reopen_after = self.reopen_after.lock();
        let now = Instant::now();
        if reopen_after.is_some_and(|after| now < after) {
            return Err(LogError::Io("closed after a failed write; opened again within a second".to_owned()));
        }
        self.check_room()?;
        *reopen_after = Some(now + REOPEN_PAUSE);
        *db = None;
        let folder = Folder::open(&self.dir, &self.options)?;
        let ends: Vec<_> = self.partitions.iter().map(|partition| folder.ends(partition.at)).collect::<Result<_, _>>()?;
        for (partition, (start, tail)) in self.partitions.iter().zip(ends) {
            if tail.end < partition.end.load(Ordering::Acquire) {
                return Err(damaged(format_args!("acknowledged records of {} are missing", partition.family)));
            }
            *partition.lock() = tail;
            partition.start.store(start, Ordering::Release);
            partition.end.store(tail.end, Ordering::Release);
        }
        *db = Some(folder.db);
        self.failed.store(false, Ordering::Release);
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        drop(self.appends.lock());
        self.appended.notify_all();
    }

    pub fn wait_past(&self, positions: &[(TopicPartition, i64)], wait: Duration) {
        let until = Instant::now().checked_add(wait);
        let past = |(at, position): &(TopicPartition, i64)| self.partition(*at).is_ok_and(|partition| partition.bounds().end > *position);
        let mut appends = self.appends.lock();
        while !positions.iter().any(past) {
            match until {
                None => self.appended.wait(&mut appends),
                Some(until) if self.appended.wait_until(&mut appends, until).timed_out() => return,
                Some(_) => {}
            }
        }
    }
}

/// A database that stays open while this is held.
pub(super) struct Open<'a>(RwLockReadGuard<'a, Option<DB>>);

impl<'a> Open<'a> {
    fn of(guard: RwLockReadGuard<'a, Option<DB>>) -> Result<Open<'a>, LogError> {
        match *guard {
            Some(_) => Ok(Open(guard)),
            None => Err(LogError::Io("closed after a failed write".to_owned())),
        }
    }
    pub fn meta(&self) -> Result<&rocksdb::ColumnFamily, LogError> {
        family(self, META)
    }
}

impl std::ops::Deref for Open<'_> {
    type Target = DB;
    fn deref(&self) -> &DB {
        self.0.as_ref().expect("checked when it was made")
    }
}
