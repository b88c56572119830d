//! What was found in the texts of before: hosts, paths, titles and product names of a site come again and again.
//!
//! Owns: a table of fixed size for each thread. Invariant: a hash only tells where to look; the whole text is compared.

use forebay_schemas::limit;
use std::cell::RefCell;

thread_local! {
    static MEMO: RefCell<Memo> = RefCell::new(Memo { slots: vec![Slot::default(); limit::SCANNED_TEXTS] });
}

struct Memo {
    /// One text each; a newer one takes the place of the older.
    slots: Vec<Slot>,
}

#[derive(Clone, Default)]
struct Slot {
    text: String,
    redacted: Option<String>,
}

/// What `scan` gives for `text`, from the table if it is there.
pub(super) fn of(text: &str, scan: impl FnOnce(&str) -> Option<String>) -> Option<String> {
    if text.is_empty() || text.len() > limit::SCANNED_TEXT_BYTES {
        return scan(text);
    }
    MEMO.with_borrow_mut(|memo| {
        let at = hash(text.as_bytes()) % memo.slots.len();
        let slot = &mut memo.slots[at];
        if slot.text != text {
            slot.redacted = scan(text);
            slot.text.clear();
            slot.text.push_str(text);
        }
        slot.redacted.clone()
    })
}

/// Whoever makes texts that meet in one slot gains nothing but a second look at them.
fn hash(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks::<8>();
    let last = rest.iter().fold(text.len() as u64, |word, byte| word << 8 | u64::from(*byte));
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let mixed = words.chain([last]).fold(0u64, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (mixed >> 40) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_from_its_neighbours_in_a_slot() {
        let scan = |text: &str| text.contains('7').then(|| text.replace('7', "[seven]"));
        for round in 0..2 {
            for n in 0..limit::SCANNED_TEXTS * 3 {
                let text = format!("text {n}");
                assert_eq!(of(&text, scan), scan(&text), "round {round}");
            }
        }
        let long = "7".repeat(limit::SCANNED_TEXT_BYTES + 1);
        assert_eq!(of(&long, scan), scan(&long));
        assert_eq!(of("", |_| Some("asked".to_owned())).as_deref(), Some("asked"));
    }
}
