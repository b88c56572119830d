//! The `meta` column family: everything about the log that is no record.
//!
//! | key | value |
//! |---|---|
//! | `0` | format version: u32 |
//! | `1` topic word | topic id: 16 bytes · partitions: i32 |
//! | `2` partition: i32, topic word | where the log begins: start, end, timestamp, position: i64 each |
//! | `3` lane id | epoch: u64 |
//! | `4` partition: i32, topic word, `/`, lane id | committed offset: i64 · metadata |
//!
//! Integers are big-endian. The first byte of a key is its kind and is persisted: a retired kind keeps its number.

use crate::log::{Committed, TopicPartition};
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use uuid::Uuid;

/// Of this whole folder. Another one is refused.
pub(super) const FORMAT: u32 = 1;

pub(super) const FORMAT_KEY: [u8; 1] = [0];

pub(super) fn topic_key(topic: Topic) -> Vec<u8> {
    [&[1], topic.word().as_bytes()].concat()
}
pub(super) fn begin_key(at: TopicPartition) -> Vec<u8> {
    partition_key(2, at)
}
pub(super) fn epoch_key(lane: &str) -> Vec<u8> {
    [&[3], lane.as_bytes()].concat()
}
pub(super) fn committed_key(lane: &str, at: TopicPartition) -> Vec<u8> {
    let mut key = partition_key(4, at);
    key.push(b'/');
    key.extend_from_slice(lane.as_bytes());
    key
}

fn partition_key(kind: u8, at: TopicPartition) -> Vec<u8> {
    [&[kind], &at.partition.to_be_bytes()[..], at.topic.word().as_bytes()].concat()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TopicMeta {
    pub id: Uuid,
    pub partitions: i32,
}

impl TopicMeta {
    pub fn encode(self) -> Vec<u8> {
        [&self.id.as_bytes()[..], &self.partitions.to_be_bytes()].concat()
    }
    pub fn decode(stored: &[u8]) -> Option<TopicMeta> {
        let (id, partitions) = stored.split_first_chunk::<16>()?;
        Some(TopicMeta { id: Uuid::from_bytes(*id), partitions: i32::from_be_bytes(partitions.try_into().ok()?) })
    }
}

/// Where a partition begins, and what its next record must follow when none is left from which that could be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Begin {
    pub start: i64,
    pub end: i64,
    pub timestamp: Micros,
    pub position: u64,
}

impl Begin {
    /// Of a partition from which nothing was ever dropped.
    pub const NEW: Begin = Begin { start: 0, end: 0, timestamp: Micros(i64::MIN), position: 0 };

    pub fn encode(self) -> Vec<u8> {
        [self.start.to_be_bytes(), self.end.to_be_bytes(), self.timestamp.0.to_be_bytes(), self.position.to_be_bytes()].concat()
    }
    pub fn decode(stored: &[u8]) -> Option<Begin> {
        let (fields, rest) = stored.as_chunks::<8>();
        let [start, end, timestamp, position] = fields.try_into().ok().filter(|_| rest.is_empty())?;
        Some(Begin {
            start: i64::from_be_bytes(start),
            end: i64::from_be_bytes(end),
            timestamp: Micros(i64::from_be_bytes(timestamp)),
            position: u64::from_be_bytes(position),
        })
    }
}

pub(super) fn encode_committed(committed: &Committed) -> Vec<u8> {
    [&committed.offset.to_be_bytes()[..], committed.metadata.as_bytes()].concat()
}
pub(super) fn decode_committed(stored: &[u8]) -> Option<Committed> {
    let (offset, metadata) = stored.split_first_chunk::<8>()?;
    Some(Committed { offset: i64::from_be_bytes(*offset), metadata: String::from_utf8(metadata.to_vec()).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_on_disk_hold_still() {
        let at = TopicPartition { topic: Topic::Bad, partition: 3 };
        assert_eq!(topic_key(Topic::Bad), b"\x01bad");
        assert_eq!(begin_key(at), b"\x02\0\0\0\x03bad");
        assert_eq!(epoch_key("job/0"), b"\x03job/0");
        assert_eq!(committed_key("job/0", at), b"\x04\0\0\0\x03bad/job/0");

        let topic = TopicMeta { id: Uuid::from_u128(1), partitions: 4 };
        assert_eq!(topic.encode(), [&[0u8; 15][..], b"\x01\0\0\0\x04"].concat());
        assert_eq!(TopicMeta::decode(&topic.encode()), Some(topic));

        let begin = Begin { start: 1, end: 2, timestamp: Micros(-3), position: 4 };
        assert_eq!(begin.encode(), b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xfd\0\0\0\0\0\0\0\x04");
        assert_eq!(Begin::decode(&begin.encode()), Some(begin));
        assert_eq!(Begin::decode(&begin.encode()[1..]), None);

        let committed = Committed { offset: 9, metadata: "seq=7".into() };
        assert_eq!(encode_committed(&committed), b"\0\0\0\0\0\0\0\x09seq=7");
        assert_eq!(decode_committed(&encode_committed(&committed)), Some(committed));
    }
}
