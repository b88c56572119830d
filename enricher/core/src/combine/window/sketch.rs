//! Sketches: how many values are distinct, which are most frequent, their quantiles; in space that events do not fill up.
//!
//! Owns: the kinds of sketch, their blocks, merging, their bytes in state. Does not own: where a block is stored, which field
//! is read.
//! A sketch is a set of numbered blocks. A value changes one of them, so what is written for it is small in a full sketch, too.
//! Invariants: sketches merge block by block; those of distinct values and of quantiles come to the same bytes in any order
//! and in any parts, those of frequent values for as long as no block of theirs overflows. The bytes, and with them the
//! hash, are persisted: a change needs a new format of state.

pub mod distinct;
pub mod top;
pub mod quantiles;

use super::number::Decimal;
use distinct::Registers;
use forebay_schemas::wire::avro::{self, DecodeError, Reader};
use quantiles::Bins;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use top::{Counters, Frequent};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Distinct,
    Top,
    Quantiles,
}

/// What an event holds in the field that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    Text(&'a str),
    /// As a text it is what it shows, so 1 and 1.0 are one value.
    Number(Decimal),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Block {
    Distinct(Registers),
    Top(Counters),
    Quantiles(Bins),
}

/// Blocks of one kind under their numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sketch {
    kind: Kind,
    blocks: BTreeMap<u16, Block>,
}

/// A block, or a sketch, of another kind; or a block under a number that its kind does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("blocks of different sketches")]
pub struct Misplaced;

impl Kind {
    /// The bound on a sketch's blocks; their numbers are below it.
    pub fn blocks(self) -> u16 {
        match self {
            Kind::Distinct => distinct::BLOCKS,
            Kind::Top => top::BLOCKS,
            Kind::Quantiles => quantiles::BLOCKS,
        }
    }

    /// The block of a sketch in which there is nothing else. `None`: the kind has no place for such a value, which is a text
    /// among quantiles and one longer than `limit::SKETCH_TEXT_BYTES` among frequent values.
    pub fn block_of(self, value: Value<'_>) -> Option<(u16, Block)> {
        let shown;
        let text = match value {
            Value::Text(text) => text,
            Value::Number(number) if self == Kind::Quantiles => {
                let (block, bins) = Bins::of(number);
                return Some((block, Block::Quantiles(bins)));
            }
            Value::Number(number) => {
                shown = number.to_string();
                &shown
            }
        };
        match self {
            Kind::Distinct => {
                let (block, registers) = Registers::of(text);
                Some((block, Block::Distinct(registers)))
            }
            Kind::Top => Counters::of(text).map(|(block, counters)| (block, Block::Top(counters))),
            Kind::Quantiles => None,
        }
    }
}

impl Block {
    pub fn kind(&self) -> Kind {
        match self {
            Block::Distinct(_) => Kind::Distinct,
            Block::Top(_) => Kind::Top,
            Block::Quantiles(_) => Kind::Quantiles,
        }
    }

    /// Of the same number in two sketches. Tells whether this one changed, and so must be written.
    pub fn merge(&mut self, other: &Block) -> Result<bool, Misplaced> {
        match (self, other) {
            (Block::Distinct(all), Block::Distinct(more)) => Ok(all.merge(more)),
            (Block::Top(all), Block::Top(more)) => Ok(all.merge(more)),
            (Block::Quantiles(all), Block::Quantiles(more)) => Ok(all.merge(more)),
            (Block::Distinct(_) | Block::Top(_) | Block::Quantiles(_), _) => Err(Misplaced),
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Block::Distinct(registers) => registers.encode(out),
            Block::Top(counters) => counters.encode(out),
            Block::Quantiles(bins) => bins.encode(out),
        }
    }

    pub fn decode(kind: Kind, r: &mut Reader<'_>) -> Result<Block, DecodeError> {
        match kind {
            Kind::Distinct => Registers::decode(r).map(Block::Distinct),
            Kind::Top => Counters::decode(r).map(Block::Top),
            Kind::Quantiles => Bins::decode(r).map(Block::Quantiles),
        }
    }
}

impl Sketch {
    pub fn new(kind: Kind) -> Sketch {
        Sketch { kind, blocks: BTreeMap::new() }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// `false`: the kind has no place for such a value.
    pub fn add(&mut self, value: Value<'_>) -> bool {
        let added = self.kind.block_of(value);
        added.is_some_and(|(number, block)| self.merge_block(number, block).is_ok())
    }

    pub fn merge_block(&mut self, number: u16, block: Block) -> Result<bool, Misplaced> {
        if number >= self.kind.blocks() || block.kind() != self.kind {
            return Err(Misplaced);
        }
        match self.blocks.get_mut(&number) {
            Some(known) => known.merge(&block),
            None => {
                self.blocks.insert(number, block);
                Ok(true)
            }
        }
    }

    pub fn merge(&mut self, other: &Sketch) -> Result<(), Misplaced> {
        if self.kind != other.kind {
            return Err(Misplaced);
        }
        other.blocks.iter().try_for_each(|(number, block)| self.merge_block(*number, block.clone()).map(|_| ()))
    }

    /// Its blocks under their numbers.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let blocks: Vec<(&u16, &Block)> = self.blocks.iter().collect();
        avro::array(
            &blocks,
            |(number, block), out| {
                avro::long(i64::from(**number), out);
                block.encode(out);
            },
            out,
        );
    }

    pub fn decode(kind: Kind, r: &mut Reader<'_>) -> Result<Sketch, DecodeError> {
        let mut sketch = Sketch::new(kind);
        for (number, block) in r.array(|r| Ok((r.int()?, Block::decode(kind, r)?)))? {
            let number = u16::try_from(number).map_err(|_| DecodeError("no such block"))?;
            sketch.merge_block(number, block).map_err(|_| DecodeError("no such block"))?;
        }
        Ok(sketch)
    }

    pub fn blocks(&self) -> impl Iterator<Item = (u16, &Block)> {
        self.blocks.iter().map(|(number, block)| (*number, block))
    }

    /// About how many different values were added. 0 of a sketch of another kind.
    pub fn distinct(&self) -> u64 {
        distinct::estimate(self.blocks.values().filter_map(|block| match block {
            Block::Distinct(registers) => Some(registers),
            Block::Top(_) | Block::Quantiles(_) => None,
        }))
    }

    /// The most frequent values, `limit::SKETCH_TOP` at most. None of a sketch of another kind.
    pub fn top(&self, k: usize) -> Vec<Frequent> {
        let counters = self.blocks.values().filter_map(|block| match block {
            Block::Top(counters) => Some(counters),
            Block::Distinct(_) | Block::Quantiles(_) => None,
        });
        top::most_frequent(counters, k)
    }

    /// `None` of nothing, for a `q` outside of [0, 1], and of a sketch of another kind.
    pub fn quantile(&self, q: Decimal) -> Option<Decimal> {
        let bins: Vec<(u16, &Bins)> = self
            .blocks()
            .filter_map(|(number, block)| match block {
                Block::Quantiles(bins) => Some((number, bins)),
                Block::Distinct(_) | Block::Top(_) => None,
            })
            .collect();
        quantiles::quantile(&bins, q)
    }
}

/// The same on every platform and for ever.
fn hash(text: &str) -> u64 {
    u64::from_be_bytes(*Sha256::digest(text).first_chunk().expect("SHA-256 has 32 bytes"))
}

fn take<const N: usize>(r: &mut Reader<'_>) -> Result<[u8; N], DecodeError> {
    let (taken, rest) = r.rest.split_first_chunk().ok_or(DecodeError("block ends early"))?;
    r.rest = rest;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_schemas::limit;
    use proptest::prelude::*;

    const KINDS: [Kind; 3] = [Kind::Distinct, Kind::Top, Kind::Quantiles];

    /// Random numbers, the same in each run (splitmix64).
    pub(super) fn random(mut seed: u64) -> impl Iterator<Item = u64> {
        std::iter::repeat_with(move || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        })
    }

    /// Ranks from 1 whose frequency is one over the rank.
    pub(super) fn zipf(seed: u64, ranks: u32) -> impl Iterator<Item = u32> {
        let mut sums: Vec<f64> = Vec::new();
        for rank in 1..=ranks {
            sums.push(sums.last().unwrap_or(&0.0) + 1.0 / f64::from(rank));
        }
        let all = sums[sums.len() - 1];
        random(seed).map(move |number| 1 + sums.partition_point(|sum| *sum < (number >> 11) as f64 / (1_u64 << 53) as f64 * all) as u32)
    }

    pub(super) fn sketch<'a>(kind: Kind, values: impl IntoIterator<Item = Value<'a>>) -> Sketch {
        let mut sketch = Sketch::new(kind);
        values.into_iter().for_each(|value| assert!(sketch.add(value)));
        sketch
    }

    pub(super) fn encoded(block: &Block) -> Vec<u8> {
        let mut out = Vec::new();
        block.encode(&mut out);
        out
    }

    pub(super) fn hex(block: &Block) -> String {
        encoded(block).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn bytes(sketch: &Sketch) -> Vec<(u16, Vec<u8>)> {
        sketch.blocks().map(|(number, block)| (number, encoded(block))).collect()
    }

    /// Persisted: a text falls to the same block and register for ever.
    #[test]
    fn golden_hashes() {
        assert_eq!(hash(""), 0xe3b0_c442_98fc_1c14);
        assert_eq!(hash("abc"), 0xba78_16bf_8f01_cfea);
    }

    #[test]
    fn a_value_has_its_place_or_none() {
        let long = "x".repeat(limit::SKETCH_TEXT_BYTES);
        let longer = format!("{long}x");
        let one = Value::Number(Decimal::whole(1));
        for (kind, value, is_taken) in [
            (Kind::Distinct, Value::Text(&longer), true),
            (Kind::Distinct, one, true),
            (Kind::Top, Value::Text(&long), true),
            (Kind::Top, Value::Text(&longer), false),
            (Kind::Top, one, true),
            (Kind::Quantiles, Value::Text("1"), false),
            (Kind::Quantiles, one, true),
        ] {
            assert_eq!(Sketch::new(kind).add(value), is_taken, "{kind:?} {value:?}");
        }
        assert_eq!(sketch(Kind::Distinct, [one, Value::Text("1")]).distinct(), 1);
    }

    #[test]
    fn blocks_of_another_sketch_are_refused() {
        let one = Value::Number(Decimal::whole(1));
        for kind in KINDS {
            let (number, block) = kind.block_of(one).expect("a place");
            let mut all = sketch(kind, [one]);
            assert_eq!(all.merge_block(kind.blocks(), block.clone()), Err(Misplaced));
            assert_eq!(all.merge_block(number, block.clone()), Ok(kind != Kind::Distinct));
            for other in KINDS.into_iter().filter(|other| *other != kind) {
                assert_eq!(Sketch::new(other).merge_block(0, block.clone()), Err(Misplaced));
                assert_eq!(Sketch::new(other).merge(&all), Err(Misplaced));
                let (_, mut block) = other.block_of(one).expect("a place");
                assert_eq!(block.merge(&all.blocks[&number]), Err(Misplaced));
            }
        }
    }

    #[test]
    fn of_nothing_little_is_told() {
        for kind in KINDS {
            let none = Sketch::new(kind);
            assert_eq!((none.distinct(), none.top(10), none.quantile(Decimal(0))), (0, vec![], None));
        }
    }

    proptest! {
        #[test]
        fn parts_and_order_do_not_matter(
            values in prop::collection::vec((prop_oneof![-20..20_i128, any::<i64>().prop_map(i128::from)], 0..4_usize), 0..120),
        ) {
            // Of frequent values there are no more than a block holds.
            let few: Vec<String> = (0..8).map(|n| n.to_string()).collect();
            for kind in KINDS {
                let value = |units: i128| match kind {
                    Kind::Top => Value::Text(&few[units.rem_euclid(8) as usize]),
                    Kind::Distinct | Kind::Quantiles => Value::Number(Decimal(units)),
                };
                let whole = sketch(kind, values.iter().map(|(units, _)| value(*units)));
                let reversed = sketch(kind, values.iter().rev().map(|(units, _)| value(*units)));
                prop_assert_eq!(bytes(&reversed), bytes(&whole));
                let parts = [2, 0, 3, 1].map(|part| sketch(kind, values.iter().filter(|(_, of)| *of == part).map(|(units, _)| value(*units))));
                let [mut left, second, mut right, last] = parts;
                left.merge(&second).expect("one kind");
                right.merge(&last).expect("one kind");
                right.merge(&left).expect("one kind");
                prop_assert_eq!(bytes(&right), bytes(&whole));
                for (_, block) in whole.blocks() {
                    let bytes = encoded(block);
                    let mut reader = Reader::new(&bytes);
                    prop_assert_eq!(&Block::decode(kind, &mut reader).expect("a block"), block);
                    prop_assert!(reader.rest.is_empty());
                    for cut in 0..bytes.len() {
                        prop_assert!(Block::decode(kind, &mut Reader::new(&bytes[..cut])).is_err());
                    }
                }
            }
        }
        #[test]
        fn broken_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80), number in 0..256_u16, q in 0..=1_000_000_000_i128) {
            for kind in KINDS {
                if let Ok(block) = Block::decode(kind, &mut Reader::new(&bytes)) {
                    // What can be read can be told and merged.
                    let mut read = Sketch::new(kind);
                    prop_assert!(read.merge_block(number % kind.blocks(), block).is_ok());
                    prop_assert!(read.clone().merge(&read).is_ok());
                    let _ = (read.distinct(), read.top(1), read.quantile(Decimal(q)));
                }
            }
        }
    }
}
