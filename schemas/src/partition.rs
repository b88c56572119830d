//! From a partition key to a partition, as the Java client's default partitioner does it.

use sha2::{Digest, Sha256};

/// The key as it stands on the log: longer than `limit::PARTITION_KEY_BYTES` becomes the hex of its SHA-256.
pub fn bounded_key(text: &str) -> String {
    if text.len() <= crate::limit::PARTITION_KEY_BYTES {
        return text.to_owned();
    }
    Sha256::digest(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
}

/// `toPositive(murmur2(key)) % partitions` (Apache Kafka, `BuiltInPartitioner`).
pub fn partition_of(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & 0x7fff_ffff) as i32 % partitions
}

/// Apache Kafka's `Utils.murmur2`.
pub fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut h: u32 = 0x9747_b28c ^ data.len() as u32;
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            h ^= u32::from(*byte) << (8 * i);
        }
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^ (h >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Apache Kafka's own `UtilsTest.testMurmur2`.
    #[test]
    fn equals_the_java_client() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
    }

    #[test]
    fn long_keys_are_hashed() {
        assert_eq!(bounded_key(&"x".repeat(256)).len(), 256);
        assert_eq!(bounded_key(&"x".repeat(257)).len(), 64);
    }
}
