//! Avro 1.12 binary encoding, the few types that our records use.

use crate::id::IdOrigin;
use crate::time::Micros;
use std::borrow::Cow;

/// The bytes are not a record of the expected schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("avro: {0}")]
pub struct DecodeError(pub &'static str);

pub fn long(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
pub fn bytes(value: &[u8], out: &mut Vec<u8>) {
    long(value.len() as i64, out);
    out.extend_from_slice(value);
}
pub fn string(value: &str, out: &mut Vec<u8>) {
    bytes(value.as_bytes(), out);
}
pub fn boolean(value: bool, out: &mut Vec<u8>) {
    out.push(u8::from(value));
}
/// A union of null and one other type, null first.
pub fn optional<T>(value: Option<T>, write: impl FnOnce(T, &mut Vec<u8>), out: &mut Vec<u8>) {
    match value {
        None => long(0, out),
        Some(value) => {
            long(1, out);
            write(value, out);
        }
    }
}
pub fn optional_string(value: Option<&str>, out: &mut Vec<u8>) {
    optional(value, string, out);
}
pub fn optional_long(value: Option<i64>, out: &mut Vec<u8>) {
    optional(value, long, out);
}
/// An array or map in one block.
pub fn array<T>(items: &[T], mut write: impl FnMut(&T, &mut Vec<u8>), out: &mut Vec<u8>) {
    if !items.is_empty() {
        long(items.len() as i64, out);
        for item in items {
            write(item, out);
        }
    }
    long(0, out);
}

/// Reads a datum from the front of a slice. Lengths are checked against what is left, so nothing large is allocated.
pub struct Reader<'a> {
    pub rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(datum: &'a [u8]) -> Reader<'a> {
        Reader { rest: datum }
    }
    pub fn long(&mut self) -> Result<i64, DecodeError> {
        let mut value: u64 = 0;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(DecodeError("long ends early"))?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift).ok_or(DecodeError("long too long"))?;
            if byte < 0x80 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(DecodeError("long too long"))
    }
    pub fn int(&mut self) -> Result<i32, DecodeError> {
        i32::try_from(self.long()?).map_err(|_| DecodeError("int out of range"))
    }
    pub fn micros(&mut self) -> Result<Micros, DecodeError> {
        self.long().map(Micros)
    }
    pub fn boolean(&mut self) -> Result<bool, DecodeError> {
        match self.rest.split_first() {
            Some((byte @ (0 | 1), rest)) => {
                self.rest = rest;
                Ok(*byte == 1)
            }
            Some(_) | None => Err(DecodeError("no boolean")),
        }
    }
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = usize::try_from(self.long()?).map_err(|_| DecodeError("negative length"))?;
        if len > self.rest.len() {
            return Err(DecodeError("bytes end early"));
        }
        let (value, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(value)
    }
    pub fn str(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError("string is not UTF-8"))
    }
    pub fn string(&mut self) -> Result<String, DecodeError> {
        self.str().map(str::to_owned)
    }
    pub fn text(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        self.str().map(Cow::Borrowed)
    }
    pub fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, DecodeError>) -> Result<Option<T>, DecodeError> {
        match self.long()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(DecodeError("no such union branch")),
        }
    }
    pub fn optional_string(&mut self) -> Result<Option<String>, DecodeError> {
        self.optional(Reader::string)
    }
    pub fn optional_text(&mut self) -> Result<Option<Cow<'a, str>>, DecodeError> {
        self.optional(Reader::text)
    }
    pub fn array<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>) -> Result<Vec<T>, DecodeError> {
        let mut items = Vec::new();
        loop {
            let mut count = self.long()?;
            if count == 0 {
                return Ok(items);
            }
            if count < 0 {
                self.long()?;
                count = count.checked_neg().ok_or(DecodeError("count out of range"))?;
            }
            for _ in 0..count {
                items.push(read(self)?);
            }
        }
    }
    pub fn id_origin(&mut self) -> Result<IdOrigin, DecodeError> {
        let ordinal = usize::try_from(self.long()?).map_err(|_| DecodeError("no such symbol"))?;
        IdOrigin::ALL.get(ordinal).copied().ok_or(DecodeError("no such symbol"))
    }
    pub fn end(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError("bytes left over")) }
    }
}
