//! The key space of a task's state: key group (u16) · operator uid (u8) · user key · namespace, so that one ordered
//! store holds every operator's state and a key group is one range of it.
//!
//! Owns: the table of uids and how each one's key is put together. Does not own: values (beside their operators).
//! Invariant: uids, `KEY_GROUPS` and the layouts are persisted; a change needs a new `wire::delta::FORMAT`.

use forebay_schemas::partition::murmur2;

/// Into how many groups the user keys of one task fall; fixed for good.
pub const KEY_GROUPS: u16 = 64;
/// The key group of what belongs to the store itself and not to an operator. It is in no delta.
const LOCAL_GROUP: u16 = u16::MAX;

/// Every operator state that there is or was, by its persisted byte. A retired one keeps its byte and its line.
/// Byte 0 is the local store's own (`meta_key`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Uid {
    /// Clock, watermark and gateways of the task. User key: empty. No TTL.
    Progress = 1,
    /// Counts by source, outcome and reason. User key: `source 0 outcome 0 reason`. No TTL.
    Totals = 2,
    /// Counts of fields that the catalogue does not classify. User key: `event type 0 path`. No TTL.
    Unclassified = 3,
    /// Event ids seen. User key: generation (u64), hash of source and id (16 bytes); the group is by the hash alone, so
    /// that a generation is one range in each group. TTL `dedup.ttl`.
    Seen = 4,
    /// Windows that this state has known, and the rules of their time zones. User key: the window's uid; or `uid 0 "zone"`.
    /// No TTL.
    Window = 5,
    /// What there is of a window's key. User key: `window uid 0 key`. Gone when nothing of it is open; put again like what has
    /// no TTL.
    Line = 6,
    /// What is kept of a bucket of it. User key as of its line; namespace: bucket, since (u64 each). As its line.
    Pane = 7,
    /// Blocks of a pane's sketches. User key and namespace as of its pane, then the block's number (u16). As its line.
    Block = 8,
    /// How far the repartition topic was read, and the time of each task that writes to it. User key: empty, or the task's
    /// number. No TTL.
    Repartition = 9,
    /// Counts of late events. User key: the window's uid. No TTL.
    Late = 10,
}

impl Uid {
    pub const ALL: [Uid; 10] = [
        Uid::Progress,
        Uid::Totals,
        Uid::Unclassified,
        Uid::Seen,
        Uid::Window,
        Uid::Line,
        Uid::Pane,
        Uid::Block,
        Uid::Repartition,
        Uid::Late,
    ];

    pub fn from_byte(byte: u8) -> Option<Uid> {
        Uid::ALL.into_iter().find(|uid| *uid as u8 == byte)
    }
}

/// Where the store keeps its own position: behind all operators' keys.
pub fn meta_key() -> [u8; 3] {
    let [high, low] = LOCAL_GROUP.to_be_bytes();
    [high, low, 0]
}

/// The uid byte of a stored key; `None` for what is no operator's key.
pub fn uid_byte(key: &[u8]) -> Option<u8> {
    let group = u16::from_be_bytes([*key.first()?, *key.get(1)?]);
    (group < KEY_GROUPS).then(|| key.get(2).copied()).flatten()
}

/// Key of an operator whose user key is text or bytes without a namespace.
pub fn plain(uid: Uid, user_key: &[u8]) -> Vec<u8> {
    let group = (murmur2(user_key) & 0x7fff_ffff) % u32::from(KEY_GROUPS);
    let mut key = Vec::with_capacity(3 + user_key.len());
    key.extend_from_slice(&prefix(group as u16, uid));
    key.extend_from_slice(user_key);
    key
}

/// Key with a namespace: the group is by the user key alone.
pub fn spaced(uid: Uid, user_key: &[u8], namespace: &[u8]) -> Vec<u8> {
    let mut key = plain(uid, user_key);
    key.extend_from_slice(namespace);
    key
}

/// What `plain` was given.
pub fn user_key(key: &[u8]) -> &[u8] {
    key.get(3..).unwrap_or_default()
}

pub const SEEN_BYTES: usize = 3 + 8 + 16;

/// Key of `Uid::Seen`. The group is the hash's first bits, so that within a generation keys sort as their hashes do.
pub fn seen(generation: u64, hash: [u8; 16]) -> [u8; SEEN_BYTES] {
    let mut key = [0; SEEN_BYTES];
    let group = u16::from(hash[0]) * KEY_GROUPS / 256;
    key[..3].copy_from_slice(&prefix(group, Uid::Seen));
    key[3..11].copy_from_slice(&generation.to_be_bytes());
    key[11..].copy_from_slice(&hash);
    key
}

/// Generations `[from, to)` of `Uid::Seen` in every group, as ranges `[start, end)` in key order.
pub fn seen_ranges(from: u64, to: u64) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    (0..KEY_GROUPS).map(move |group| {
        let at = |generation: u64| [prefix(group, Uid::Seen).as_slice(), &generation.to_be_bytes()].concat();
        (at(from), at(to))
    })
}

/// All keys of `uid` in every group, as ranges `[start, end)` in key order.
pub fn uid_ranges(uid: Uid) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    (0..KEY_GROUPS).map(move |group| {
        let [high, low, byte] = prefix(group, uid);
        (vec![high, low, byte], vec![high, low, byte + 1])
    })
}

/// All keys of windows, group by group: of `Uid::Window`, `Uid::Line`, `Uid::Pane` and `Uid::Block`.
pub fn window_ranges() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    (0..KEY_GROUPS).map(|group| (prefix(group, Uid::Window).to_vec(), prefix(group, Uid::Repartition).to_vec()))
}

fn prefix(group: u16, uid: Uid) -> [u8; 3] {
    let [high, low] = group.to_be_bytes();
    [high, low, uid as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Persisted: these bytes never change.
    #[test]
    fn golden_keys() {
        let hex = |key: &[u8]| key.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(&plain(Uid::Progress, b"")), "001901");
        assert_eq!(hex(&plain(Uid::Totals, b"web\0bad\0unreadable")), "001f027765620062616400756e7265616461626c65");
        assert_eq!(hex(&seen(7, [0xab; 16])), "002a040000000000000007abababababababababababababababab");
        assert_eq!(
            hex(&spaced(Uid::Pane, b"views\0{}", &[1; 16])),
            format!("{}01010101010101010101010101010101", hex(&plain(Uid::Pane, b"views\0{}")))
        );
        assert_eq!(hex(&plain(Uid::Pane, b"views\0{}")), "0036077669657773007b7d");
        assert_eq!(hex(&meta_key()), "ffff00");
    }

    #[test]
    fn ranges_hold_their_keys_and_no_others() {
        for hash in [[0; 16], [0xff; 16], [0x5a; 16]] {
            let inside = |generation: u64| {
                seen_ranges(5, 8)
                    .filter(|(from, to)| *from <= seen(generation, hash).to_vec() && seen(generation, hash).to_vec() < *to)
                    .count()
            };
            assert_eq!([4, 5, 7, 8].map(inside), [0, 1, 1, 0]);
        }
        let key = plain(Uid::Totals, b"x");
        assert_eq!(uid_ranges(Uid::Totals).filter(|(from, to)| *from <= key && key < *to).count(), 1);
        assert_eq!(uid_ranges(Uid::Unclassified).filter(|(from, to)| *from <= key && key < *to).count(), 0);
        assert_eq!(uid_byte(&key), Some(Uid::Totals as u8));
        assert_eq!(uid_byte(&meta_key()), None);
    }
}
