//! What came of the texts of before: hosts, paths, titles and product names of a site come again and again.
//!
//! Owns: a table of fixed size for each thread. Does not own: the rules. Invariants: a hash only tells where to look, the
//! whole text is compared; a rule is a function of the text and of what its number stands for.

use forebay_schemas::limit;
use std::cell::RefCell;

/// What is done with a text: one number for one function, in the whole process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rule(pub u64);

thread_local! {
    static MEMO: RefCell<Memo> = RefCell::new(Memo { slots: vec![Slot::default(); limit::REMEMBERED_TEXTS] });
}

struct Memo {
    /// One text each; a newer one takes the place of the older.
    slots: Vec<Slot>,
}

#[derive(Clone, Default)]
struct Slot {
    rule: Rule,
    text: String,
    changed: Option<String>,
}

/// What `rule` makes of `text`, `None` for what it leaves as it is: from the table if it is there, else by `work`, which
/// must not ask the table itself.
pub(crate) fn of(rule: Rule, text: &str, work: impl FnOnce(&str) -> Option<String>) -> Option<String> {
    if text.is_empty() || text.len() > limit::REMEMBERED_TEXT_BYTES {
        return work(text);
    }
    MEMO.with_borrow_mut(|memo| {
        let at = (hash(text.as_bytes()) ^ rule.0 as usize) % limit::REMEMBERED_TEXTS;
        let slot = &mut memo.slots[at];
        if slot.rule != rule || slot.text != text {
            slot.changed = work(text);
            slot.rule = rule;
            slot.text.clear();
            slot.text.push_str(text);
        }
        slot.changed.clone()
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
    fn a_text_is_told_from_its_neighbours_in_a_slot_and_a_rule_from_another() {
        let seven = |text: &str| text.contains('7').then(|| text.replace('7', "[seven]"));
        let none = |text: &str| text.contains('0').then(|| text.replace('0', ""));
        for round in 0..2 {
            for n in 0..limit::REMEMBERED_TEXTS * 3 {
                let text = format!("text {n}");
                assert_eq!(of(Rule(0), &text, seven), seven(&text), "round {round}");
                // In the same slot.
                assert_eq!(of(Rule(1 << 60), &text, none), none(&text), "round {round}");
            }
        }
        let long = "7".repeat(limit::REMEMBERED_TEXT_BYTES + 1);
        assert_eq!(of(Rule(0), &long, seven), seven(&long));
        assert_eq!(of(Rule(0), "", |_| Some("asked".to_owned())).as_deref(), Some("asked"));
    }
}
