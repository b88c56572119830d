//! A Parquet file read where it lies: the parts that are asked for, with a little more at a time.

use bytes::Bytes;
use forebay_schemas::limit;
use forebay_stores::objects::{Objects, ObjectsError};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

/// An object of `bytes` bytes. What was read last is kept, since pages and their headers lie side by side.
#[derive(Clone)]
pub(super) struct Ranged {
    objects: Arc<dyn Objects>,
    name: String,
    bytes: u64,
    last: Arc<Mutex<(u64, Bytes)>>,
}

impl Ranged {
    pub(super) fn open(objects: Arc<dyn Objects>, name: String) -> std::result::Result<Ranged, ObjectsError> {
        let bytes = objects.size(&name)?;
        Ok(Ranged { objects, name, bytes, last: Arc::default() })
    }

    fn part(&self, start: u64, length: u64) -> Result<Bytes> {
        let end = start.saturating_add(length).min(self.bytes);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let held = last.0..last.0 + last.1.len() as u64;
        if start < held.start || end > held.end {
            let ahead = end.max(start.saturating_add(limit::SINK_READ_AHEAD_BYTES)).min(self.bytes);
            let read = self.objects.get_range(&self.name, start..ahead);
            *last = (start, read.map_err(|error| ParquetError::External(Box::new(error)))?.into());
        }
        let from = usize::try_from(start - last.0).unwrap_or(usize::MAX);
        let to = usize::try_from(end - last.0).unwrap_or(usize::MAX);
        if to > last.1.len() {
            return Err(ParquetError::EOF(format!("{} is shorter than it was", self.name)));
        }
        Ok(last.1.slice(from.min(to)..to))
    }
}

impl Length for Ranged {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Ranged {
    type T = From;

    fn get_read(&self, start: u64) -> Result<From> {
        Ok(From { object: self.clone(), next: start })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let part = self.part(start, length as u64)?;
        if part.len() < length { Err(ParquetError::EOF(format!("{} ends within a part that it names", self.name))) } else { Ok(part) }
    }
}

/// Reads on from a place.
pub(super) struct From {
    object: Ranged,
    next: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let part = self.object.part(self.next, buffer.len() as u64).map_err(std::io::Error::other)?;
        buffer[..part.len()].copy_from_slice(&part);
        self.next += part.len() as u64;
        Ok(part.len())
    }
}
