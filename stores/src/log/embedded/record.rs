//! How a record lies in its column family. The key is the offset, big-endian, so that byte order is log order.
//!
//! Value: kind (1 byte: with or without a value) · timestamp (i64) · position (u64: bytes of this partition before this
//! record) · key (length, bytes) · headers (count; name and value, each with its length) · value (the rest).
//! Fixed integers are little-endian, lengths and the count are LEB128. Kinds are persisted: a retired one keeps its number.

use crate::log::{Entry, Record};
use bytes::{Buf, Bytes};
use forebay_schemas::time::Micros;

const WITHOUT_VALUE: u8 = 1;
const WITH_VALUE: u8 = 2;
/// Kind, timestamp and position.
const FIXED_BYTES: usize = 17;

pub(super) fn offset_key(offset: i64) -> [u8; 8] {
    offset.to_be_bytes()
}

pub(super) fn key_offset(key: &[u8]) -> Option<i64> {
    key.try_into().ok().map(i64::from_be_bytes).filter(|offset| *offset >= 0)
}

/// What the message limit counts, and `position` with it.
pub(super) fn size(key: &Bytes, value: &Option<Bytes>, headers: &[(String, Bytes)]) -> usize {
    let headers: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    key.len() + value.as_ref().map_or(0, Bytes::len) + headers
}

/// The fixed part: enough to search a partition by time or by bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub timestamp: Micros,
    pub position: u64,
}

pub(super) fn encode(out: &mut Vec<u8>, stamp: Stamp, entry: &Entry) {
    out.push(if entry.value.is_some() { WITH_VALUE } else { WITHOUT_VALUE });
    out.extend_from_slice(&stamp.timestamp.0.to_le_bytes());
    out.extend_from_slice(&stamp.position.to_le_bytes());
    put_bytes(out, &entry.key);
    put_length(out, entry.headers.len());
    for (name, value) in &entry.headers {
        put_bytes(out, name.as_bytes());
        put_bytes(out, value);
    }
    if let Some(value) = &entry.value {
        out.extend_from_slice(value);
    }
}

/// `None`: no record of this version.
pub(super) fn stamp(stored: &[u8]) -> Option<Stamp> {
    let (mut fixed, _) = stored.split_at_checked(FIXED_BYTES)?;
    matches!(fixed.get_u8(), WITH_VALUE | WITHOUT_VALUE)
        .then(|| Stamp { timestamp: Micros(fixed.get_i64_le()), position: fixed.get_u64_le() })
}

/// Shares `stored` with the record. `None`: damaged, or of another version.
pub(super) fn decode(offset: i64, mut stored: Bytes) -> Option<Record> {
    let stamp = stamp(&stored)?;
    let with_value = stored[0] == WITH_VALUE;
    stored.advance(FIXED_BYTES);
    let key = take_bytes(&mut stored)?;
    let count = take_length(&mut stored)?;
    let mut headers = Vec::with_capacity(count.min(stored.len()));
    for _ in 0..count {
        let name = String::from_utf8(take_bytes(&mut stored)?.into()).ok()?;
        headers.push((name, take_bytes(&mut stored)?));
    }
    if !with_value && !stored.is_empty() {
        return None;
    }
    Some(Record { offset, timestamp: stamp.timestamp, key, value: with_value.then_some(stored), headers })
}

fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn take_length(from: &mut Bytes) -> Option<usize> {
    let mut length = 0;
    for shift in (0..35).step_by(7) {
        let byte = *from.first()?;
        from.advance(1);
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(length);
        }
    }
    None
}

fn take_bytes(from: &mut Bytes) -> Option<Bytes> {
    let length = take_length(from)?;
    (length <= from.len()).then(|| from.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMP: Stamp = Stamp { timestamp: Micros(1_764_496_800_123_456), position: 0x0102 };

    #[test]
    fn bytes_on_disk_hold_still() {
        let entry = Entry {
            key: Bytes::from_static(b"k"),
            value: Some(Bytes::from_static(b"value")),
            headers: vec![("h".into(), Bytes::from_static(b"x"))],
        };
        let mut stored = Vec::new();
        encode(&mut stored, STAMP, &entry);
        assert_eq!(stored, b"\x02\x40\x8a\xfa\xec\xcc\x44\x06\x00\x02\x01\0\0\0\0\0\0\x01k\x01\x01h\x01xvalue");
        assert_eq!(offset_key(258), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(size(&entry.key, &entry.value, &entry.headers), 8);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_written_is_read_and_what_is_cut_is_not(
            key in prop::collection::vec(any::<u8>(), 0..300),
            value in prop::option::of(prop::collection::vec(any::<u8>(), 0..20_000)),
            headers in prop::collection::vec(("\\PC{0,8}", prop::collection::vec(any::<u8>(), 0..200)), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let entry = Entry {
                key: key.into(),
                value: value.map(Bytes::from),
                headers: headers.into_iter().map(|(name, value)| (name, Bytes::from(value))).collect(),
            };
            let mut stored = Vec::new();
            encode(&mut stored, STAMP, &entry);
            prop_assert_eq!(stamp(&stored), Some(STAMP));
            let head = stored.len() - entry.value.as_ref().map_or(0, Bytes::len);
            let record = decode(7, Bytes::from(stored.clone())).expect("whole");
            prop_assert_eq!((record.offset, record.timestamp), (7, STAMP.timestamp));
            prop_assert_eq!((record.key, record.value, record.headers), (entry.key, entry.value, entry.headers));
            stored.truncate(cut.index(head));
            prop_assert_eq!(decode(7, stored.into()), None);
        }
    }
}
