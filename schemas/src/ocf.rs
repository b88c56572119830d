//! Avro Object Container Files (Avro 1.12 specification, "Object Container Files"): header, blocks, torn tails.
//!
//! Owns: one block of many records as bytes, the border up to which a file is whole. Does not own: files.
//! Invariant: a block counts as whole only when its sync marker matches and its data decompress (zstd frames carry
//! a content checksum), so a tail of zeros or of another write is never taken for records.

use crate::wire::avro::{self, DecodeError, Reader};
use bytes::Bytes;

pub const MAGIC: [u8; 4] = *b"Obj\x01";
/// zstd level: 1 compresses our records as well as 3 does, at half the cost (measured, `docs/performance.md`).
const ZSTD_LEVEL: i32 = 1;
/// A block that claims to be larger when inflated is not ours.
const BLOCK_BYTES_MAX: usize = 256 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    Zstandard,
    Null,
}

impl Codec {
    pub fn name(self) -> &'static str {
        match self {
            Codec::Zstandard => "zstandard",
            Codec::Null => "null",
        }
    }
    pub fn from_name(name: &str) -> Option<Codec> {
        [Codec::Zstandard, Codec::Null].into_iter().find(|c| c.name() == name)
    }
}

/// What stands before the first block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    pub schema: String,
    pub codec: Codec,
    pub sync: [u8; 16],
    /// Bytes of the header itself.
    pub length: usize,
}

/// The header's bytes. `sync` must be random: it separates blocks.
pub fn header(schema: &str, codec: Codec, sync: [u8; 16]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let pairs = [("avro.codec", codec.name()), ("avro.schema", schema)];
    avro::array(
        &pairs,
        |(key, value), out| {
            avro::string(key, out);
            avro::bytes(value.as_bytes(), out);
        },
        &mut out,
    );
    out.extend_from_slice(&sync);
    out
}

/// Reads the header at the start of a file.
pub fn read_header(file: &[u8]) -> Result<Header, DecodeError> {
    let rest = file.strip_prefix(&MAGIC).ok_or(DecodeError("not an Avro container file"))?;
    let mut reader = Reader::new(rest);
    let pairs = reader.array(|r| Ok((r.string()?, r.bytes()?.to_vec())))?;
    let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| String::from_utf8_lossy(value).into_owned());
    let (sync, rest) = reader.rest.split_first_chunk::<16>().ok_or(DecodeError("header ends early"))?;
    Ok(Header {
        schema: value("avro.schema").ok_or(DecodeError("no schema in the header"))?,
        codec: Codec::from_name(value("avro.codec").as_deref().unwrap_or("null")).ok_or(DecodeError("codec not supported"))?,
        sync: *sync,
        length: file.len() - rest.len(),
    })
}

/// One block: `records` is the concatenated datums, `count` of them.
pub fn block(records: &[u8], count: usize, codec: Codec, sync: [u8; 16]) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(records.len() / 2 + 64);
    avro::long(count as i64, &mut out);
    match codec {
        Codec::Null => avro::bytes(records, &mut out),
        Codec::Zstandard => {
            let mut encoder = zstd::bulk::Compressor::new(ZSTD_LEVEL)?;
            encoder.include_checksum(true)?;
            avro::bytes(&encoder.compress(records)?, &mut out);
        }
    }
    out.extend_from_slice(&sync);
    Ok(out)
}

/// A whole block at the front of `file[at..]`.
#[derive(Clone, Debug)]
pub struct Block {
    pub count: usize,
    /// Inflated records.
    pub records: Bytes,
    /// Where the next block begins.
    pub end: usize,
}

/// The block at `at`; `Ok(None)` at the end of the file, an error where the file is torn.
pub fn read_block(file: &[u8], at: usize, header: &Header) -> Result<Option<Block>, DecodeError> {
    let rest = file.get(at..).unwrap_or(&[]);
    if rest.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader::new(rest);
    let count = usize::try_from(reader.long()?).map_err(|_| DecodeError("negative count"))?;
    let data = reader.bytes()?;
    let (sync, rest) = reader.rest.split_first_chunk::<16>().ok_or(DecodeError("block ends early"))?;
    if *sync != header.sync {
        return Err(DecodeError("sync marker does not match"));
    }
    let records = match header.codec {
        Codec::Null => Bytes::copy_from_slice(data),
        Codec::Zstandard => {
            let size = zstd::zstd_safe::get_frame_content_size(data).ok().flatten().ok_or(DecodeError("no zstd frame"))?;
            let size = usize::try_from(size).ok().filter(|n| *n <= BLOCK_BYTES_MAX).ok_or(DecodeError("block too large"))?;
            Bytes::from(zstd::bulk::decompress(data, size).map_err(|_| DecodeError("block does not decompress"))?)
        }
    };
    Ok(Some(Block { count, records, end: file.len() - rest.len() }))
}

/// The length up to which a file is whole: past the last good block, or the header, or 0 without a good header.
pub fn whole_length(file: &[u8]) -> usize {
    let Ok(header) = read_header(file) else { return 0 };
    let mut at = header.length;
    while let Ok(Some(block)) = read_block(file, at, &header) {
        at = block.end;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::raw_request::SCHEMA;

    const SYNC: [u8; 16] = *b"0123456789abcdef";

    fn file(codec: Codec) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = header(SCHEMA, codec, SYNC);
        let mut borders = vec![bytes.len()];
        for n in 0..3usize {
            bytes.extend(block(&vec![n as u8; 1000 + n], 1 + n, codec, SYNC).expect("compresses"));
            borders.push(bytes.len());
        }
        (bytes, borders)
    }

    #[test]
    fn blocks_read_back() {
        for codec in [Codec::Zstandard, Codec::Null] {
            let (bytes, borders) = file(codec);
            let header = read_header(&bytes).expect("header");
            assert_eq!((header.schema.as_str(), header.length), (SCHEMA, borders[0]));
            let mut at = header.length;
            for n in 0..3usize {
                let block = read_block(&bytes, at, &header).expect("whole").expect("a block");
                assert_eq!((block.count, &block.records[..]), (1 + n, &vec![n as u8; 1000 + n][..]));
                at = block.end;
            }
            assert!(read_block(&bytes, at, &header).expect("the end").is_none());
        }
    }

    #[test]
    fn a_torn_tail_is_cut_at_the_last_whole_block() {
        let (bytes, borders) = file(Codec::Zstandard);
        for cut in 0..bytes.len() {
            let expected = borders.iter().rev().find(|b| **b <= cut).copied().unwrap_or(0);
            assert_eq!(whole_length(&bytes[..cut]), expected, "cut at {cut}");
            let mut zeros = bytes[..cut].to_vec();
            zeros.resize(bytes.len() + 100, 0);
            assert!(whole_length(&zeros) <= bytes.len() && whole_length(&zeros) >= expected.min(cut), "zeros from {cut}");
        }
    }

    #[test]
    fn a_flipped_bit_ends_the_file() {
        let (bytes, borders) = file(Codec::Zstandard);
        let mut bad = bytes.clone();
        bad[borders[1] + 12] ^= 1;
        assert_eq!(whole_length(&bad), borders[1]);
    }
}
