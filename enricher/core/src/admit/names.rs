//! Names that are looked up for every member of every event: a small table that never leaves the cache.
//!
//! Owns: name → number. Invariant: a hash only tells where to look; the whole name is compared.

pub(crate) struct Names {
    names: Vec<Box<str>>,
    /// Number of the name plus one, by hash; 0 is free. At least twice as many as names, a power of two.
    slots: Vec<u16>,
}

impl Names {
    /// The names get the numbers 0, 1, 2 … At most `u16::MAX` names (a schema has far fewer).
    pub fn new(names: Vec<Box<str>>) -> Names {
        let mut slots = vec![0; (names.len() * 2).next_power_of_two().max(4)];
        for (number, name) in names.iter().enumerate() {
            let mut at = hash(name.as_bytes()) & (slots.len() - 1);
            while slots[at] != 0 {
                at = (at + 1) & (slots.len() - 1);
            }
            slots[at] = u16::try_from(number + 1).expect("a schema has fewer fields than that");
        }
        Names { names, slots }
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        let mut at = hash(name.as_bytes()) & (self.slots.len() - 1);
        loop {
            match self.slots[at] {
                0 => return None,
                number if *self.names[usize::from(number) - 1] == *name => return Some(usize::from(number) - 1),
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }
}

/// Of the length, the first eight and the last eight bytes: enough to tell field names apart.
fn hash(name: &[u8]) -> usize {
    let (first, last) = match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (name.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0),
    };
    let ends = first ^ last.rotate_left(23) ^ name.len() as u64;
    (ends.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_name_is_found_and_no_other() {
        let all: Vec<String> = (0..300).map(|n| format!("name_{n}_{}", "x".repeat(n % 20))).collect();
        let names = super::Names::new(all.iter().map(|name| name.as_str().into()).collect());
        for (number, name) in all.iter().enumerate() {
            assert_eq!(names.find(name), Some(number));
            assert_eq!(names.find(&format!("{name}y")), None);
        }
        assert_eq!(names.find(""), None);
        assert_eq!(super::Names::new(vec!["".into()]).find(""), Some(0));
    }
}
