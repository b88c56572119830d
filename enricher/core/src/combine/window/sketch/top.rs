//! The most frequent values: counters, spread over blocks by the value's hash; a full block gives up the rarest.
//!
//! Owns: counters, which of them are given up, how much a count may lack, their bytes in state. Does not own: the hash.
//! A block is a summary of Misra and Gries (Finding repeated elements, 1982) of 8 counters. Of more than 8, the ninth largest
//! count is taken off each, and those at zero are gone; the block adds it to its error. So a value's true count is what is
//! counted of it and up to the error more; one that is not counted has the error at most. Of n values in a block, c of them
//! still counted, the error is at most (n − c)/9, through any merges (Agarwal, Cormode, Huang, Phillips, Wei, Yi: Mergeable
//! summaries, PODS 2012). A frequent value keeps its count, so it is the rare ones that make the error: a 2304th of them at
//! most, on average over the blocks.
//! Invariant: merging in any order is exact while a block has 8 values; beyond, it depends on the order within the error.

use super::hash;
use forebay_schemas::limit;
use forebay_schemas::wire::avro::{self, DecodeError, Reader};
use std::collections::BTreeMap;

pub const BLOCKS: u16 = 256;
const BLOCK_COUNTERS: usize = 8;

/// The counters of a block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    counts: BTreeMap<String, u64>,
    /// What a count may lack.
    error: u64,
}

/// A value that was seen `count` times at least, `count + error` times at most. One that was frequent from the beginning
/// lacks nearly all of the error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frequent {
    pub text: String,
    pub count: u64,
    pub error: u64,
}

impl Counters {
    pub fn of(text: &str) -> Option<(u16, Counters)> {
        let counters = Counters { counts: BTreeMap::from([(text.to_owned(), 1)]), error: 0 };
        (text.len() <= limit::SKETCH_TEXT_BYTES).then(|| ((hash(text) % u64::from(BLOCKS)) as u16, counters))
    }

    pub fn merge(&mut self, other: &Counters) -> bool {
        for (text, more) in &other.counts {
            match self.counts.get_mut(text) {
                Some(count) => *count = count.saturating_add(*more),
                None => {
                    self.counts.insert(text.clone(), *more);
                }
            }
        }
        let mut less = 0;
        if self.counts.len() > BLOCK_COUNTERS {
            let mut counts: Vec<u64> = self.counts.values().copied().collect();
            counts.sort_unstable_by(|one, other| other.cmp(one));
            less = counts[BLOCK_COUNTERS];
            self.counts.retain(|_, count| {
                *count = count.saturating_sub(less);
                *count > 0
            });
        }
        self.error = self.error.saturating_add(other.error).saturating_add(less);
        !other.counts.is_empty() || other.error > 0
    }

    /// Error; how many counters; of each its text and count, in the order of texts.
    pub fn encode(&self, out: &mut Vec<u8>) {
        avro::long(self.error as i64, out);
        avro::long(self.counts.len() as i64, out);
        for (text, count) in &self.counts {
            avro::string(text, out);
            avro::long(*count as i64, out);
        }
    }

    pub fn decode(r: &mut Reader<'_>) -> Result<Counters, DecodeError> {
        let error = r.long()? as u64;
        let len = usize::try_from(r.long()?).ok().filter(|len| *len <= BLOCK_COUNTERS).ok_or(DecodeError("too many counters"))?;
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for _ in 0..len {
            let (text, count) = (r.str()?, r.long()? as u64);
            let is_next = counts.last_key_value().is_none_or(|(last, _)| last.as_str() < text);
            if !is_next || text.len() > limit::SKETCH_TEXT_BYTES || count == 0 {
                return Err(DecodeError("no counter"));
            }
            counts.insert(text.to_owned(), count);
        }
        Ok(Counters { counts, error })
    }
}

/// By count, the largest first, then by text.
pub(super) fn most_frequent<'a>(blocks: impl Iterator<Item = &'a Counters>, k: usize) -> Vec<Frequent> {
    let mut all: Vec<(&str, u64, u64)> =
        blocks.flat_map(|block| block.counts.iter().map(|(text, count)| (text.as_str(), *count, block.error))).collect();
    all.sort_unstable_by(|(text, count, _), (other, more, _)| more.cmp(count).then(text.cmp(other)));
    all.truncate(k.min(limit::SKETCH_TOP));
    all.into_iter().map(|(text, count, error)| Frequent { text: text.to_owned(), count, error }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{encoded, hex, random, sketch, zipf};
    use super::super::{Block, Kind, Sketch, Value};
    use super::*;

    fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Sketch {
        sketch(Kind::Top, texts.into_iter().map(Value::Text))
    }

    fn counters(sketch: &Sketch) -> impl Iterator<Item = (u16, &Counters)> {
        sketch.blocks().map(|(number, block)| match block {
            Block::Top(counters) => (number, counters),
            Block::Distinct(_) | Block::Quantiles(_) => panic!("another kind"),
        })
    }

    fn exact(texts: &[String]) -> BTreeMap<&str, u64> {
        texts.iter().fold(BTreeMap::new(), |mut counts, text| {
            *counts.entry(text.as_str()).or_default() += 1;
            counts
        })
    }

    /// Persisted: these bytes never change.
    #[test]
    fn golden_bytes() {
        let (number, abc) = Kind::Top.block_of(Value::Text("abc")).expect("a place");
        assert_eq!((number, hex(&abc)), (0xea, "00020661626302".to_owned()));
        let counts = BTreeMap::from([("a".to_owned(), 64), ("ä".to_owned(), u64::MAX)]);
        assert_eq!(hex(&Block::Top(Counters { counts, error: 3 })), "06040261800104c3a401");
    }

    #[test]
    fn broken_counters_are_refused() {
        let block = |texts: &[(&str, i64)]| {
            let mut out = vec![0];
            avro::long(texts.len() as i64, &mut out);
            for (text, count) in texts {
                avro::string(text, &mut out);
                avro::long(*count, &mut out);
            }
            Counters::decode(&mut Reader::new(&out)).is_ok()
        };
        let (long, longer) = ("x".repeat(limit::SKETCH_TEXT_BYTES), "x".repeat(limit::SKETCH_TEXT_BYTES + 1));
        assert!(block(&[("", 1), ("a", 1), (&long, 1)]));
        assert!(!block(&[("a", 0)]));
        assert!(!block(&[("a", 1), ("a", 1)]));
        assert!(!block(&[("b", 1), ("a", 1)]));
        assert!(!block(&[(&longer, 1)]));
        assert!(!block(&["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(|text| (text, 1))));
        // As many as it says are not made room for.
        let mut endless = vec![0];
        avro::long(i64::MAX, &mut endless);
        assert!(Counters::decode(&mut Reader::new(&endless)).is_err());
    }

    #[test]
    fn few_values_are_exact_and_in_order() {
        let told = |sketch: &Sketch, k| sketch.top(k).into_iter().map(|f| (f.text, f.count, f.error)).collect::<Vec<_>>();
        let all = of(["b", "c", "a", "c", "b", "c"]);
        let [a, b, c] = [("a", 1), ("b", 2), ("c", 3)].map(|(text, count)| (text.to_owned(), count, 0));
        assert_eq!(told(&all, 10), [c.clone(), b.clone(), a]);
        assert_eq!(told(&all, 2), [c, b]);
        let tied = of(["b", "a", "c"]);
        assert_eq!(told(&tied, 2), [("a".to_owned(), 1, 0), ("b".to_owned(), 1, 0)]);
        let many: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        assert_eq!(of(many.iter().map(String::as_str)).top(usize::MAX).len(), limit::SKETCH_TOP);
    }

    /// Whatever comes, in whatever parts: no count is too large, none lacks more than the error, no error is above its bound.
    #[test]
    fn counts_are_within_their_errors() {
        let uniform = || random(2).map(|number| (number % 20_000).to_string());
        let streams: [(&str, Vec<String>); 4] = [
            ("zipf", zipf(1, 100_000).take(100_000).map(|n| n.to_string()).collect()),
            ("uniform", uniform().take(60_000).collect()),
            ("few", random(3).map(|number| (number % 40).to_string()).take(20_000).collect()),
            ("rare ones last", zipf(4, 50).take(40_000).map(|n| n.to_string()).chain(uniform().take(40_000)).collect()),
        ];
        for (name, texts) in &streams {
            let exact = exact(texts);
            for part in [1, 300, 30_000] {
                let mut all = Sketch::new(Kind::Top);
                texts.chunks(part).for_each(|texts| all.merge(&of(texts.iter().map(String::as_str))).expect("one kind"));
                let mut seen = vec![0_u64; usize::from(BLOCKS)];
                exact.iter().for_each(|(text, count)| seen[(hash(text) % u64::from(BLOCKS)) as usize] += count);
                for (number, block) in counters(&all) {
                    assert!(block.counts.len() <= BLOCK_COUNTERS);
                    let counted = block.counts.values().sum::<u64>();
                    assert!(block.error * 9 <= seen[usize::from(number)] - counted, "{name} in parts of {part}: {block:?}");
                    for (text, count) in &block.counts {
                        let exact = exact[text.as_str()];
                        assert!(*count <= exact && exact <= count + block.error, "{name} in parts of {part}: {text} {count} {exact}");
                    }
                }
                for (text, count) in &exact {
                    let number = (hash(text) % u64::from(BLOCKS)) as u16;
                    let Block::Top(block) = &all.blocks[&number] else { panic!("another kind") };
                    assert!(block.counts.contains_key(*text) || *count <= block.error, "{name} in parts of {part}: {text}");
                }
            }
        }
    }

    #[test]
    fn the_most_frequent_are_found() {
        let texts: Vec<String> = zipf(5, 1_000_000).take(200_000).map(|n| n.to_string()).collect();
        let told = of(texts.iter().map(String::as_str)).top(100);
        let mut exact: Vec<(&str, u64)> = exact(&texts).into_iter().collect();
        exact.sort_by(|(text, count), (other, more)| more.cmp(count).then(text.cmp(other)));
        let found = |k: usize| exact[..k].iter().filter(|(text, _)| told[..k].iter().any(|told| told.text == *text)).count();
        assert_eq!(found(10), 10);
        assert!(found(100) >= 95, "{}", found(100));
    }

    #[test]
    fn what_is_written_is_small() {
        let mut all = Sketch::new(Kind::Top);
        let (mut sum, mut most) = (0, 0);
        for rank in zipf(6, 1_000_000).take(100_000) {
            let (number, block) = Kind::Top.block_of(Value::Text(&format!("{rank:010}"))).expect("a place");
            assert_eq!(encoded(&block).len(), 14);
            assert_eq!(all.merge_block(number, block), Ok(true));
            let len = encoded(&all.blocks[&number]).len();
            (sum, most) = (sum + len, len.max(most));
        }
        assert!(sum <= 63 * 100_000 && most <= 104, "{sum} {most}");
        assert!(all.blocks().map(|(_, block)| encoded(block).len()).sum::<usize>() <= 16 << 10);
    }
}
