//! The spool's folder: its lock, the gateway's name, ledgers, repair after a stop or a crash, deletion.
//!
//! Owns: every file beside an open segment. Does not own: what the ledger's records mean (gateway-core `segment`).
//! Invariants: after `repair` every segment is whole, sealed and synced; `newest` is never behind a deleted segment.

use super::file::{Files, SegmentFile};
use super::reader::{ReadError, SegmentReader};
use super::shelf::{Landing, Segment};
use crate::chance;
use forebay_gateway_core::segment::{Ledger, LedgerRecord, SegmentName};
use forebay_schemas::id::RequestId;
use forebay_schemas::time::Micros;
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct SpoolDir {
    path: PathBuf,
    files: Arc<dyn Files>,
    _lock: File,
}

/// What a spool held when it was opened.
#[derive(Debug)]
pub struct Recovered {
    /// In spool order.
    pub segments: Vec<(SegmentName, Segment)>,
    pub newest: Option<Newest>,
}

/// The last request that was ever spooled here; ids and times go on after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Newest {
    pub request_id: RequestId,
    pub received_at: Micros,
}

#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error("another process holds the spool {0}")]
    Held(PathBuf),
    #[error("spool {path}: {error}")]
    Io { path: PathBuf, error: io::Error },
}

const LOCK: &str = "lock";
const GATEWAY: &str = "gateway";
const NEWEST: &str = "newest";
/// Removed at a start, as every file that ends so.
const PROBE: &str = "probe.tmp";
/// How a segment's file name ends; ledgers have names like it.
const SEGMENT: &str = ".avro";

impl SpoolDir {
    /// Makes the folder if need be and takes its lock, which the process holds until it ends.
    pub fn open(path: &Path, files: Arc<dyn Files>) -> Result<SpoolDir, SpoolError> {
        let io = |error| SpoolError::Io { path: path.to_owned(), error };
        if !path.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io)?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(parent).and_then(|parent| parent.sync_all()).map_err(io)?;
        }
        let lock = options().write(true).create(true).truncate(false).open(path.join(LOCK)).map_err(io)?;
        match lock.try_lock() {
            Ok(()) => Ok(SpoolDir { path: path.to_owned(), files, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(SpoolError::Held(path.to_owned())),
            Err(TryLockError::Error(error)) => Err(io(error)),
        }
    }

    pub fn error(&self, error: io::Error) -> SpoolError {
        SpoolError::Io { path: self.path.clone(), error }
    }

    /// The configured name, else the one that was made here once.
    pub fn gateway(&self, configured: Option<&str>) -> io::Result<String> {
        if let Some(name) = configured {
            return Ok(name.to_owned());
        }
        match fs::read_to_string(self.path.join(GATEWAY)) {
            Ok(name) if !name.trim().is_empty() => Ok(name.trim().to_owned()),
            Ok(_) => self.name_gateway(),
            Err(error) if error.kind() == ErrorKind::NotFound => self.name_gateway(),
            Err(error) => Err(error),
        }
    }

    fn name_gateway(&self) -> io::Result<String> {
        let name = format!("g{:012x}", chance::bits() >> 16);
        self.replace(GATEWAY, name.as_bytes())?;
        Ok(name)
    }

    pub fn file(&self, name: &SegmentName) -> PathBuf {
        self.path.join(name.file())
    }

    /// Makes a new segment's file.
    pub fn create(&self, name: &SegmentName) -> io::Result<Box<dyn SegmentFile>> {
        self.files.create(&self.file(name))
    }

    /// Makes names in the folder durable.
    pub fn sync(&self) -> io::Result<()> {
        self.files.sync_names(&self.path)
    }

    /// Whether `bytes` can be written and synced here now. They do not stay.
    pub fn probe(&self, bytes: &[u8]) -> io::Result<()> {
        let path = self.path.join(PROBE);
        remove(&path)?;
        let mut file = self.files.create(&path)?;
        let written = file.write_at(bytes, 0).and_then(|()| file.sync());
        remove(&path)?;
        written
    }

    /// Makes an empty ledger, so that one sync of the folder makes both names of a new segment durable.
    pub fn begin_ledger(&self, name: &SegmentName) -> io::Result<()> {
        options().append(true).create(true).open(self.path.join(name.ledger_file())).map(drop)
    }

    /// Adds a record to a segment's ledger; with `durable` it is synced.
    pub fn note(&self, name: &SegmentName, record: LedgerRecord, durable: bool) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(64);
        record.encode(&mut bytes);
        let mut file = options().append(true).create(true).open(self.path.join(name.ledger_file()))?;
        file.write_all(&bytes)?;
        if durable { file.sync_data() } else { Ok(()) }
    }

    /// Remembers the newest request, before its segment is sealed.
    pub fn remember(&self, newest: Newest) -> io::Result<()> {
        self.replace(NEWEST, format!("{} {}\n", newest.request_id, newest.received_at.0).as_bytes())
    }

    fn remembered(&self) -> io::Result<Option<Newest>> {
        let text = match fs::read_to_string(self.path.join(NEWEST)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let parsed = text.trim().split_once(' ').and_then(|(id, at)| {
            let (request_id, at) = (id.parse().ok()?, at.parse().ok()?);
            Some(Newest { request_id, received_at: Micros(at) })
        });
        Ok(parsed)
    }

    /// Deletes a segment that is landed and published: the file first, so that a ledger never stands without need.
    pub fn remove(&self, name: &SegmentName) -> io::Result<()> {
        remove(&self.file(name))?;
        remove(&self.path.join(name.ledger_file()))
    }

    /// Cuts torn tails, removes empty segments, seals the rest; nothing is appended to a segment after a restart.
    pub fn repair(&self) -> io::Result<Recovered> {
        let mut newest = self.remembered()?;
        let mut segments = Vec::new();
        for name in self.names()? {
            let ledger = self.ledger(&name)?;
            let length = fs::metadata(self.file(&name))?.len();
            let sealed = match ledger.sealed {
                Some(sealed) if length >= sealed.length => {
                    cut(&self.file(&name), sealed.length, length)?;
                    sealed.length
                }
                _ => {
                    let Some(scan) = self.scan(&name)? else {
                        tracing::warn!(segment = name.file(), bytes = length, "an empty segment is removed");
                        self.remove(&name)?;
                        continue;
                    };
                    self.seal(&name, &scan, length, ledger.sealed.is_some())?;
                    newest = newest.max(Some(scan.newest));
                    scan.length
                }
            };
            let landing = if ledger.landed { Landing::Landed } else { Landing::Waiting };
            let published = ledger.published_through.min(sealed);
            segments.push((name, Segment { durable: sealed, sealed: true, landing, taken: published, published, damaged: false }));
        }
        self.drop_orphans(&segments)?;
        self.sync()?;
        Ok(Recovered { segments, newest })
    }

    fn seal(&self, name: &SegmentName, scan: &Scan, length: u64, was_sealed: bool) -> io::Result<()> {
        if was_sealed {
            tracing::error!(segment = name.file(), "a sealed segment is shorter than its ledger says: the disk lost bytes");
        }
        if scan.length < length {
            tracing::warn!(segment = name.file(), bytes = length - scan.length, "a torn tail is cut");
        }
        // Always synced: after a kill, the last block may stand in memory alone, and from now on it counts.
        let file = options().write(true).open(self.file(name))?;
        file.set_len(scan.length)?;
        file.sync_all()?;
        let record = LedgerRecord::Sealed { length: scan.length, requests: scan.requests, sha256: scan.sha256 };
        match self.remember(scan.newest).and_then(|()| self.note(name, record, true)) {
            // Publishing and landing what is here is what makes room again; the next start looks at the file anew.
            Err(error) if is_full(&error) => {
                tracing::error!(segment = name.file(), %error, "the seal of a segment cannot be noted");
                Ok(())
            }
            noted => noted,
        }
    }

    /// The whole part of a segment; `None` when it holds no request.
    fn scan(&self, name: &SegmentName) -> io::Result<Option<Scan>> {
        let path = self.file(name);
        let mut reader = match SegmentReader::open(&path, None) {
            Ok(reader) => reader,
            Err(ReadError::Torn { .. }) => return Ok(None),
            Err(ReadError::Io(error)) => return Err(error),
        };
        let (mut requests, mut newest) = (0, None);
        loop {
            match reader.next() {
                Ok(Some(block)) => {
                    requests += block.requests.len() as u64;
                    let last = block.requests.last().map(|r| Newest { request_id: r.request_id, received_at: r.received_at });
                    newest = last.or(newest);
                }
                Ok(None) | Err(ReadError::Torn { .. }) => break,
                Err(ReadError::Io(error)) => return Err(error),
            }
        }
        let Some(newest) = newest else { return Ok(None) };
        let sha256 = hash(&path, reader.at())?;
        Ok(Some(Scan { length: reader.at(), requests, newest, sha256 }))
    }

    /// Segments in the folder, in spool order.
    fn names(&self) -> io::Result<Vec<SegmentName>> {
        let mut names = names(&self.path)?;
        names.sort_by_key(|name| name.first);
        Ok(names)
    }

    fn ledger(&self, name: &SegmentName) -> io::Result<Ledger> {
        let path = self.path.join(name.ledger_file());
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ledger::default()),
            bytes => bytes?,
        };
        let ledger = Ledger::replay(&bytes);
        cut(&path, ledger.whole_length, bytes.len() as u64)?;
        Ok(ledger)
    }

    fn drop_orphans(&self, segments: &[(SegmentName, Segment)]) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let file = entry.file_name();
            let known = segments.iter().any(|(name, _)| name.ledger_file().as_str() == file);
            let ours = Path::new(&file).extension().is_some_and(|e| e == "ledger" || e == "tmp");
            if ours && !known {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.path.join(format!("{name}.tmp"));
        let mut file = options().write(true).create(true).truncate(true).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&temporary, self.path.join(name))?;
        self.sync()
    }
}

struct Scan {
    length: u64,
    requests: u64,
    newest: Newest,
    sha256: [u8; 32],
}

/// Segments in a spool folder, in no order; also read by `find`, without the lock.
pub fn names(path: &Path) -> io::Result<Vec<SegmentName>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.file_name();
        names.extend(file.to_str().filter(|file| file.ends_with(SEGMENT)).and_then(SegmentName::parse_file));
    }
    Ok(names)
}

pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn cut(path: &Path, whole: u64, length: u64) -> io::Result<()> {
    if whole < length {
        let file = options().write(true).open(path)?;
        file.set_len(whole)?;
        file.sync_all()?;
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn hash(path: &Path, length: u64) -> io::Result<[u8; 32]> {
    let mut file = File::open(path)?.take(length);
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.finalize().into()),
            n => hasher.update(&piece[..n]),
        }
    }
}
