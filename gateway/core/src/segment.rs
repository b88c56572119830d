//! Spool segments as pure code: their names, and the ledger that says how far each has come.
//!
//! Owns: segment names (file in the spool and object in the raw landing), ledger records and their replay.
//! Does not own: files, fsync, uploads.
//! Invariants: a name is fixed when the segment is created; replay stops at the first record that is torn.

use forebay_schemas::id::RequestId;
use forebay_schemas::time::Micros;

const HOUR_MICROS: i64 = 3_600_000_000;

/// One segment: the hour (UTC) in which it was created, who wrote it, and the first request in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentName {
    /// Hours since the epoch.
    pub hour: i64,
    /// ASCII letters, digits, `.`, `-`.
    pub gateway: String,
    pub first: RequestId,
}

impl SegmentName {
    pub fn new(received_at: Micros, gateway: &str, first: RequestId) -> SegmentName {
        SegmentName { hour: received_at.0.div_euclid(HOUR_MICROS), gateway: gateway.to_owned(), first }
    }
    /// `raw/dt=YYYY-MM-DD/hr=HH/<gateway>-<first request id>.avro`.
    pub fn object(&self) -> String {
        format!("{}{}-{}.avro", SegmentName::object_prefix(self.hour), self.gateway, self.first)
    }
    /// `raw/dt=YYYY-MM-DD/hr=HH/`: the names of an hour's objects begin so, and lie between this and the next hour's.
    pub fn object_prefix(hour: i64) -> String {
        let (date, hour) = date_and_hour(hour);
        format!("raw/dt={date}/hr={hour}/")
    }
    pub fn parse_object(name: &str) -> Option<SegmentName> {
        let (date, rest) = name.strip_prefix("raw/dt=")?.split_once("/hr=")?;
        let (hour, file) = rest.split_once('/')?;
        SegmentName::parse(date, hour, file.strip_suffix(".avro")?)
    }
    /// The file's name in the spool folder: `YYYY-MM-DDTHH_<gateway>-<first request id>.avro`. Sorts by hour.
    pub fn file(&self) -> String {
        format!("{}.avro", self.stem())
    }
    /// The ledger's file beside it: `….ledger`.
    pub fn ledger_file(&self) -> String {
        format!("{}.ledger", self.stem())
    }
    /// Of the segment's file or of its ledger's.
    pub fn parse_file(name: &str) -> Option<SegmentName> {
        let stem = name.strip_suffix(".avro").or_else(|| name.strip_suffix(".ledger"))?;
        let (date, rest) = stem.split_once('T')?;
        let (hour, rest) = rest.split_once('_')?;
        SegmentName::parse(date, hour, rest)
    }
    /// True when a request received then belongs to a later segment.
    pub fn hour_is_over(&self, received_at: Micros) -> bool {
        received_at.0.div_euclid(HOUR_MICROS) > self.hour
    }

    fn stem(&self) -> String {
        let (date, hour) = date_and_hour(self.hour);
        format!("{date}T{hour}_{}-{}", self.gateway, self.first)
    }
    fn parse(date: &str, hour: &str, rest: &str) -> Option<SegmentName> {
        const ID: usize = 36;
        let (gateway, id) = rest.split_at_checked(rest.len().checked_sub(ID)?)?;
        let gateway = gateway.strip_suffix('-')?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
        if gateway.is_empty() || !gateway.bytes().all(plain) {
            return None;
        }
        let at = Micros::parse_rfc3339(&format!("{date}T{hour}:00:00Z"))?;
        let name = SegmentName::new(at, gateway, id.parse().ok()?);
        // One segment has one name: other spellings of the date or the id are not ours.
        (name.stem() == format!("{date}T{hour}_{rest}")).then_some(name)
    }
}

fn date_and_hour(hour: i64) -> (String, String) {
    let text = Micros(hour.saturating_mul(HOUR_MICROS)).to_rfc3339();
    let (date, time) = text.split_once('T').expect("RFC 3339 has a T");
    (date.to_owned(), time[..2].to_owned())
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

const SEALED: u8 = 1;
const LANDED: u8 = 2;
const PUBLISHED: u8 = 3;

impl LedgerRecord {
    /// Appends the record: length of kind and fields (one byte), kind, fields (little-endian), CRC32 of all before it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(64);
        match self {
            LedgerRecord::Sealed { length, requests, sha256 } => {
                body.push(SEALED);
                body.extend_from_slice(&length.to_le_bytes());
                body.extend_from_slice(&requests.to_le_bytes());
                body.extend_from_slice(sha256);
            }
            LedgerRecord::Landed => body.push(LANDED),
            LedgerRecord::Published { through } => {
                body.push(PUBLISHED);
                body.extend_from_slice(&through.to_le_bytes());
            }
        }
        let start = out.len();
        out.push(u8::try_from(body.len()).expect("records are short"));
        out.extend_from_slice(&body);
        let crc = crc32fast::hash(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }

    /// The record at the front and what follows it; `None` when it is torn or of an unknown kind.
    fn decode(bytes: &[u8]) -> Option<(LedgerRecord, &[u8])> {
        let (&length, _) = bytes.split_first()?;
        let (framed, rest) = bytes.split_at_checked(1 + usize::from(length))?;
        let (crc, rest) = rest.split_first_chunk::<4>()?;
        if length == 0 || u32::from_le_bytes(*crc) != crc32fast::hash(framed) {
            return None;
        }
        let record = match framed[1..] {
            [SEALED, ref fields @ ..] => {
                let (length, fields) = fields.split_first_chunk::<8>()?;
                let (requests, fields) = fields.split_first_chunk::<8>()?;
                LedgerRecord::Sealed {
                    length: u64::from_le_bytes(*length),
                    requests: u64::from_le_bytes(*requests),
                    sha256: fields.try_into().ok()?,
                }
            }
            [LANDED] => LedgerRecord::Landed,
            [PUBLISHED, ref fields @ ..] => LedgerRecord::Published { through: u64::from_le_bytes(fields.try_into().ok()?) },
            _ => return None,
        };
        Some((record, rest))
    }
}

impl Ledger {
    /// Reads a ledger file up to its first torn record.
    pub fn replay(file: &[u8]) -> Ledger {
        let mut ledger = Ledger::default();
        let mut rest = file;
        while let Some((record, after)) = LedgerRecord::decode(rest) {
            ledger.apply(record);
            rest = after;
        }
        ledger.whole_length = (file.len() - rest.len()) as u64;
        ledger
    }
    pub fn apply(&mut self, record: LedgerRecord) {
        match record {
            LedgerRecord::Sealed { length, requests, sha256 } => self.sealed = Some(Sealed { length, requests, sha256 }),
            LedgerRecord::Landed => self.landed = true,
            LedgerRecord::Published { through } => self.published_through = self.published_through.max(through),
        }
    }
    /// True when the segment may be deleted: sealed, landed, and published to its end.
    pub fn done(&self) -> bool {
        self.landed && self.sealed.is_some_and(|sealed| self.published_through >= sealed.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn name() -> SegmentName {
        let first = RequestId(Uuid::parse_str("01a22b36-5a4c-75de-8aa0-e225cefea702").expect("a UUID"));
        SegmentName::new(Micros::parse_rfc3339("2026-11-30T06:59:59.999Z").expect("a time"), "gw-1.eu", first)
    }

    #[test]
    fn names_are_fixed_and_read_back() {
        let name = name();
        assert_eq!(name.object(), "raw/dt=2026-11-30/hr=06/gw-1.eu-01a22b36-5a4c-75de-8aa0-e225cefea702.avro");
        assert_eq!(name.file(), "2026-11-30T06_gw-1.eu-01a22b36-5a4c-75de-8aa0-e225cefea702.avro");
        assert_eq!(SegmentName::parse_object(&name.object()), Some(name.clone()));
        assert_eq!(SegmentName::parse_file(&name.file()), Some(name.clone()));
        assert_eq!(SegmentName::parse_file(&name.ledger_file()), Some(name.clone()));
        assert!(!name.hour_is_over(Micros::parse_rfc3339("2026-11-30T06:00:00Z").expect("a time")));
        assert!(name.hour_is_over(Micros::parse_rfc3339("2026-11-30T07:00:00Z").expect("a time")));
    }

    #[test]
    fn other_names_are_nobodys() {
        for other in [
            "",
            "x.avro",
            "2026-11-30T06_gw.avro",
            "2026-11-30T06_-01a22b36-5a4c-75de-8aa0-e225cefea702.avro",
            "2026-11-30T06_g/w-01a22b36-5a4c-75de-8aa0-e225cefea702.avro",
            "2026-11-30T06_gw-01A22B36-5a4c-75de-8aa0-e225cefea702.avro",
            "2026-11-30T6_gw-01a22b36-5a4c-75de-8aa0-e225cefea702.avro",
            "2026-11-30T06_gw-01a22b36-5a4c-75de-8aa0-e225cefea702.tmp",
            "2026-11-30T06_gwüü-01a22b36-5a4c-75de-8aa0-e225cefea70",
        ] {
            assert_eq!(SegmentName::parse_file(other), None, "{other}");
        }
    }

    #[test]
    fn a_ledger_is_read_up_to_its_torn_tail() {
        let sealed = LedgerRecord::Sealed { length: 1_000, requests: 7, sha256: [9; 32] };
        let records = [LedgerRecord::Published { through: 400 }, sealed, LedgerRecord::Landed, LedgerRecord::Published { through: 1_000 }];
        let (mut file, mut borders) = (Vec::new(), vec![0]);
        for record in records {
            record.encode(&mut file);
            borders.push(file.len());
        }
        for cut in 0..=file.len() {
            let whole = borders.iter().filter(|border| **border <= cut).count() - 1;
            let mut expected = Ledger { whole_length: borders[whole] as u64, ..Ledger::default() };
            records[..whole].iter().for_each(|record| expected.apply(*record));
            assert_eq!(Ledger::replay(&file[..cut]), expected, "cut at {cut}");
            let mut zeros = file[..cut].to_vec();
            zeros.resize(file.len() + 64, 0);
            assert!(Ledger::replay(&zeros).whole_length <= cut.max(expected.whole_length as usize) as u64 + 4, "zeros from {cut}");
        }
        assert!(Ledger::replay(&file).done());
        assert!(!Ledger::replay(&file[..borders[3]]).done());
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 1;
            let before = borders.iter().rev().find(|border| **border <= at).copied().expect("the first is 0");
            assert_eq!(Ledger::replay(&bad).whole_length, before as u64, "a flipped bit at {at}");
        }
    }
}
