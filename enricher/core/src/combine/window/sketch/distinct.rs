//! How many different values there were: HyperLogLog with 2¹² registers.
//!
//! Owns: registers, the estimate, their bytes in state. Does not own: the hash of a value.
//! A register keeps the highest rank of the hashes that fall to it; the rank is the place of the first one behind the bits
//! that choose the register (Flajolet, Fusy, Gandouet, Meunier: HyperLogLog, AofA 2007). The standard error is 1.04/√4096, or
//! 1.63 % of the answer; of few values it is less. The estimate is that of Ertl (New cardinality estimation algorithms for
//! HyperLogLog sketches, 2017, algorithm 6), which needs no table against bias and no other method for few values.
//! Invariant: merging is the larger rank of each register.

use super::{hash, take};
use forebay_schemas::wire::avro::{DecodeError, Reader};

const PRECISION: u32 = 12;
const REGISTERS: u16 = 1 << PRECISION;
const BLOCK_REGISTERS: u16 = 64;
pub const BLOCKS: u16 = REGISTERS / BLOCK_REGISTERS;
/// Of a hash that is zeros behind the bits that choose its register.
const RANK_MAX: u8 = (u64::BITS - PRECISION + 1) as u8;
/// Marks the first byte of a block whose registers are all written.
const DENSE: u8 = 0x80;
/// What a rank takes in bits.
const RANK_BITS: u32 = u8::BITS - RANK_MAX.leading_zeros();

/// The ranks of a block's registers; 0: nothing fell to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registers([u8; BLOCK_REGISTERS as usize]);

impl Registers {
    pub fn of(text: &str) -> (u16, Registers) {
        let hash = hash(text);
        let register = (hash >> (u64::BITS - PRECISION)) as u16;
        // The bit set behind the hash bounds the rank.
        let rank = ((hash << PRECISION) | (1 << (PRECISION - 1))).leading_zeros() as u8 + 1;
        let mut ranks = [0; BLOCK_REGISTERS as usize];
        ranks[usize::from(register % BLOCK_REGISTERS)] = rank;
        (register / BLOCK_REGISTERS, Registers(ranks))
    }

    pub fn merge(&mut self, other: &Registers) -> bool {
        let before = self.0;
        self.0.iter_mut().zip(other.0).for_each(|(rank, other)| *rank = (*rank).max(other));
        self.0 != before
    }

    /// Few registers: how many, then each as 16 bits, its place above its rank. Many: the mark with the width of a rank above
    /// the least one, that one, then a word for each bit of the width, in which each register has a bit. Whichever is shorter.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let least = self.0.iter().copied().min().unwrap_or(0);
        let most = self.0.iter().copied().max().unwrap_or(0);
        let width = u8::BITS - (most - least).leading_zeros();
        let set = self.0.iter().filter(|rank| **rank > 0).count();
        if 2 * set < 2 + 8 * width as usize {
            out.push(set as u8);
            for (place, rank) in (0_u16..).zip(self.0).filter(|(_, rank)| *rank > 0) {
                out.extend_from_slice(&(place << RANK_BITS | u16::from(rank)).to_be_bytes());
            }
            return;
        }
        out.extend_from_slice(&[DENSE | width as u8, least]);
        for bit in 0..width {
            let word = self.0.iter().rev().fold(0_u64, |word, rank| word << 1 | u64::from((rank - least) >> bit & 1));
            out.extend_from_slice(&word.to_be_bytes());
        }
    }

    pub fn decode(r: &mut Reader<'_>) -> Result<Registers, DecodeError> {
        let [first] = take(r)?;
        let mut ranks = [0_u8; BLOCK_REGISTERS as usize];
        if first < DENSE {
            let mut next = 0;
            for _ in 0..first {
                let register = u16::from_be_bytes(take(r)?);
                let (place, rank) = (register >> RANK_BITS, (register & ((1 << RANK_BITS) - 1)) as u8);
                if place < next || place >= BLOCK_REGISTERS || rank == 0 {
                    return Err(DecodeError("registers out of order"));
                }
                ranks[usize::from(place)] = rank;
                next = place + 1;
            }
        } else {
            let [least] = take(r)?;
            let width = u32::from(first - DENSE);
            if width > RANK_BITS || least > RANK_MAX {
                return Err(DecodeError("rank out of range"));
            }
            for bit in 0..width {
                let word = u64::from_be_bytes(take(r)?);
                (0..).zip(&mut ranks).for_each(|(place, rank)| *rank |= ((word >> place & 1) as u8) << bit);
            }
            ranks.iter_mut().for_each(|rank| *rank += least);
        }
        if ranks.iter().any(|rank| *rank > RANK_MAX) {
            return Err(DecodeError("rank out of range"));
        }
        Ok(Registers(ranks))
    }
}

/// Of a sketch's blocks; those that are not there are empty. Only operations that IEEE 754 rounds exactly, in a fixed order.
pub(super) fn estimate<'a>(blocks: impl Iterator<Item = &'a Registers>) -> u64 {
    let mut registers = [0_u16; RANK_MAX as usize + 1];
    blocks.flat_map(|block| block.0).filter(|rank| *rank > 0).for_each(|rank| registers[usize::from(rank)] += 1);
    registers[0] = REGISTERS.saturating_sub(registers.iter().sum());
    let all = f64::from(REGISTERS);
    let [empty, ranks @ .., highest] = registers.map(f64::from);
    let above = ranks.iter().rev().fold(all * tau(1.0 - highest / all), |sum, count| 0.5 * (sum + count));
    let sum = above + all * sigma(empty / all);
    (all * all / (2.0 * std::f64::consts::LN_2 * sum)).round() as u64
}

/// Ertl's σ, for registers that nothing fell to: x + Σ 2ᵏ⁻¹·x^(2ᵏ) over k ≥ 1.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut sum, mut factor) = (x, 1.0);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor *= 2.0;
        if sum == before {
            return sum;
        }
    }
}

/// Ertl's τ, for registers at the highest rank: (1 − x − Σ 2⁻ᵏ·(1 − x^(2⁻ᵏ))² over k ≥ 1) / 3.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut sum, mut factor) = (1.0 - x, 1.0);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{encoded, hex, random, sketch};
    use super::super::{Block, Kind, Sketch, Value};
    use super::*;

    fn of(texts: impl Iterator<Item = u64>) -> Sketch {
        let texts: Vec<String> = texts.map(|n| n.to_string()).collect();
        sketch(Kind::Distinct, texts.iter().map(|text| Value::Text(text)))
    }

    /// Persisted: these bytes never change.
    #[test]
    fn golden_bytes() {
        let (number, abc) = Kind::Distinct.block_of(Value::Text("abc")).expect("a place");
        assert_eq!((number, hex(&abc)), (46, "0109c1".to_owned()));
        let block = |ranks: &dyn Fn(u8) -> u8| hex(&Block::Distinct(Registers(std::array::from_fn(|place| ranks(place as u8)))));
        assert_eq!(block(&|_| 0), "00");
        assert_eq!(block(&|_| RANK_MAX), "8035");
        assert_eq!(block(&|place| place.saturating_sub(61)), "020f810fc2");
        assert_eq!(block(&|place| 5 + place % 3), "820524924924924924924924924924924924");
    }

    #[test]
    fn each_form_of_a_block_comes_back() {
        let mut random = random(1);
        for filled in 0..=u64::from(BLOCK_REGISTERS) {
            for most in [1, 2, 9, u64::from(RANK_MAX)] {
                let registers = Registers(std::array::from_fn(|_| {
                    let is_filled = random.next().expect("endless") % u64::from(BLOCK_REGISTERS) < filled;
                    if is_filled { 1 + (random.next().expect("endless") % most) as u8 } else { 0 }
                }));
                let bytes = encoded(&Block::Distinct(registers.clone()));
                assert!(bytes.len() <= 50, "{} bytes", bytes.len());
                let mut reader = Reader::new(&bytes);
                assert_eq!(Registers::decode(&mut reader), Ok(registers));
                assert!(reader.rest.is_empty());
            }
        }
        for broken in ["\u{1}", "\u{1}\0\0", "\u{2}\0\u{41}\0\u{41}", "\u{1}\u{10}\u{1}", "\u{1}\0\u{36}"] {
            assert!(Registers::decode(&mut Reader::new(broken.as_bytes())).is_err(), "{broken:?}");
        }
        for broken in [&[0x80, RANK_MAX + 1][..], &[0x87, 0, 0], &[0x81, RANK_MAX, 255, 255, 255, 255, 255, 255, 255, 255]] {
            assert!(Registers::decode(&mut Reader::new(broken)).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn estimates_are_as_near_as_is_stated() {
        let error = 1.04 / f64::from(REGISTERS).sqrt();
        for count in [1, 2, 10, 100, 1_000, 5_000, 12_000, 40_000] {
            let off = |seed: u64| of((0..count).map(|n| seed << 32 | n)).distinct().abs_diff(count) as f64 / count as f64;
            let off: Vec<f64> = (0..40).map(off).collect();
            assert!(off.iter().all(|off| *off <= 4.0 * error), "{count}: {off:?}");
            let mean_square = off.iter().map(|off| off * off).sum::<f64>() / off.len() as f64;
            assert!(mean_square.sqrt() <= 1.2 * error, "{count}: {}", mean_square.sqrt());
        }
    }

    #[test]
    fn seen_again_is_not_more() {
        let once = of(0..3_000);
        assert_eq!(of((0..9_000).map(|n| n % 3_000)), once);
    }

    /// Of 100,000 values an eighth change a block.
    #[test]
    fn what_is_written_is_small() {
        let mut written = Vec::new();
        let mut all = Sketch::new(Kind::Distinct);
        for n in 0..100_000_u64 {
            let (number, block) = Kind::Distinct.block_of(Value::Text(&n.to_string())).expect("a place");
            assert_eq!(encoded(&block).len(), 3);
            if all.merge_block(number, block) == Ok(true) {
                written.push(encoded(&all.blocks[&number]).len());
            }
        }
        assert!(written.len() < 12_500, "{} blocks", written.len());
        assert!(written.iter().all(|len| *len <= 34) && written.iter().sum::<usize>() <= 31 * written.len());
        assert!(all.blocks().map(|(_, block)| encoded(block).len()).sum::<usize>() <= 34 * usize::from(BLOCKS));
    }
}
