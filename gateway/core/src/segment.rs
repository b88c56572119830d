//! Spool segments as pure code: their names, and the ledger that says how far each has come.
//!
//! Owns: segment names (file in the spool and object in the raw landing), ledger records and their replay.
//! Does not own: files, fsync, uploads.
//! Invariants: a name is fixed when the segment is created; replay stops at the first record that is torn.

use forebay_schemas::id::RequestId;
use forebay_schemas::time::Micros;

/// One segment: the hour (UTC) in which it was created, who wrote it, and the first request in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentName {
    /// Hours since the epoch.
    pub hour: i64,
    pub gateway: String,
    pub first: RequestId,
}

impl SegmentName {
    pub fn new(received_at: Micros, gateway: &str, first: RequestId) -> SegmentName {
        SegmentName { hour: received_at.0.div_euclid(3_600_000_000), gateway: gateway.to_owned(), first }
    }
    /// `raw/dt=YYYY-MM-DD/hr=HH/<gateway>-<first request id>.avro`.
    pub fn object(&self) -> String {
        todo!()
    }
    pub fn parse_object(name: &str) -> Option<SegmentName> {
        let _ = name;
        todo!()
    }
    /// The file's name in the spool folder: `YYYY-MM-DDTHH_<gateway>-<first request id>.avro`. Sorts by hour.
    pub fn file(&self) -> String {
        todo!()
    }
    /// The ledger's file beside it: `….ledger`.
    pub fn ledger_file(&self) -> String {
        todo!()
    }
    pub fn parse_file(name: &str) -> Option<SegmentName> {
        let _ = name;
        todo!()
    }
    /// True when a request received then belongs to a later segment.
    pub fn hour_is_over(&self, received_at: Micros) -> bool {
        received_at.0.div_euclid(3_600_000_000) > self.hour
    }
}

/// One record of a segment's ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LedgerRecord {
    /// The file is complete: its length, the requests in it, SHA-256 of all its bytes.
    Sealed { length: u64, requests: u64, sha256: [u8; 32] },
    /// The object store holds it under its name, byte-equal.
    Landed,
    /// Every event of the blocks before this byte offset of the file is acknowledged by the log.
    Published { through: u64 },
}

/// What a ledger says when all its records are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    pub sealed: Option<Sealed>,
    pub landed: bool,
    pub published_through: u64,
    /// Bytes of the ledger file that are whole; a torn tail behind them is to be cut before appending.
    pub whole_length: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sealed {
    pub length: u64,
    pub requests: u64,
    pub sha256: [u8; 32],
}

impl LedgerRecord {
    /// Appends the record: length, kind, fields, CRC32 of all of them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let _ = out;
        todo!()
    }
}

impl Ledger {
    /// Reads a ledger file.
    pub fn replay(file: &[u8]) -> Ledger {
        let _ = file;
        todo!()
    }
    /// True when the segment may be deleted: sealed, landed, and published to its end.
    pub fn done(&self) -> bool {
        self.landed && self.sealed.is_some_and(|sealed| self.published_through >= sealed.length)
    }
}
