//! Reads a segment block by block, holding one block at a time.
//!
//! Owns: where blocks lie in a file. Does not own: their format (`schemas::ocf`), what the records mean.
//! Invariant: a file that is torn or rotten ends at its last whole block; nothing behind it is looked at.

use bytes::Bytes;
use forebay_schemas::ocf::{self, Header};
use forebay_schemas::wire::avro::{DecodeError, Reader};
use forebay_schemas::wire::raw_request::{self, RawRequest};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A block's records, and where the block lies.
pub struct Block {
    pub start: u64,
    pub end: u64,
    pub requests: Vec<RawRequest>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// No whole block stands at this offset.
    #[error("offset {at}: {error}")]
    Torn { at: u64, error: DecodeError },
}

pub struct SegmentReader {
    file: File,
    header: Header,
    at: u64,
    end: u64,
}

/// Two longs (count and size) at the front of a block.
const BLOCK_HEAD_BYTES: u64 = 20;
const HEADER_BYTES_MAX: u64 = 1 << 20;

impl SegmentReader {
    /// Reads up to `end`, or the file's end. `Torn` when not even the header is whole.
    pub fn open(path: &Path, end: Option<u64>) -> Result<SegmentReader, ReadError> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let end = end.map_or(length, |end| end.min(length));
        let mut size = 8 << 10;
        loop {
            let bytes = read(&file, 0, size.min(end))?;
            match ocf::read_header(&bytes) {
                Ok(header) => return Ok(SegmentReader { at: header.length as u64, file, header, end }),
                Err(error) if size >= end.min(HEADER_BYTES_MAX) => return Err(ReadError::Torn { at: 0, error }),
                Err(_) => size *= 4,
            }
        }
    }

    /// The offset of the next block.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Goes to the block that begins at `offset`.
    pub fn seek(&mut self, offset: u64) {
        self.at = offset.max(self.header.length as u64);
    }

    /// Blocks behind `end` are not looked at.
    pub fn end_at(&mut self, end: u64) {
        self.end = end;
    }

    /// The next block; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Block>, ReadError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let start = self.at;
        let torn = |error| ReadError::Torn { at: start, error };
        let head = read(&self.file, start, BLOCK_HEAD_BYTES.min(self.end - start))?;
        let mut reader = Reader::new(&head);
        let size = reader.long().and_then(|_count| reader.long()).map_err(torn)?;
        let taken = (head.len() - reader.rest.len()) as u64;
        let whole = u64::try_from(size).ok().and_then(|size| taken.checked_add(size)?.checked_add(16));
        let whole = whole.filter(|n| *n <= self.end - start).ok_or(torn(DecodeError("block ends early")))?;
        let bytes = read(&self.file, start, whole)?;
        let block = ocf::read_block(&bytes, 0, &self.header).map_err(torn)?.ok_or(torn(DecodeError("no block")))?;
        let requests = requests(&block).map_err(torn)?;
        self.at = start + block.end as u64;
        Ok(Some(Block { start, end: self.at, requests }))
    }
}

/// The records of a block.
pub fn requests(block: &ocf::Block) -> Result<Vec<RawRequest>, DecodeError> {
    let mut reader = Reader::new(&block.records);
    let mut out = Vec::with_capacity(block.count.min(1_024));
    for _ in 0..block.count {
        out.push(raw_request::decode(&mut reader, &block.records)?);
    }
    reader.end()?;
    Ok(out)
}

fn read(file: &File, at: u64, length: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, at)?;
    Ok(Bytes::from(bytes))
}
