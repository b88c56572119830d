//! Quantiles of numbers within a hundredth: DDSketch.
//!
//! Owns: bins, which number falls to which, quantiles, their bytes in state. Does not own: numbers.
//! Values are counted in bins whose bounds grow by a factor (Masson, Rim, Lee: DDSketch, PVLDB 12, 2019). Where a power of two
//! begins at x = 0 and ends at x = 1, a value falls to the bin 35·(6/35·x³ − 3/5·x² + 10/7·x), a cubic that stands for the
//! logarithm in DDSketch's libraries; here it is of integers, so it is the same on every platform. Its slope times 1 + x is
//! 35·(10/7 + 2/35·x·(3x − 2)²), at least 50, so a bin's bounds differ by e^0.02 at most. An answer is off by tanh(0.01) < 1 %
//! of the true quantile at most, and by half a unit of `Decimal`, to which it is rounded.
//! Invariant: merging is adding counts.

use super::super::number::Decimal;
use super::take;
use forebay_schemas::wire::avro::{self, DecodeError, Reader};

const BINS_PER_OCTAVE: u16 = 35;
/// Powers of two in `Decimal`'s units, up to 1.4·10¹¹; `Decimal::parse` reads less than 10¹¹.
const OCTAVES: u16 = 67;
const BLOCK_BINS: u16 = 16;
/// Those of negative numbers are below it, by size, those of positive ones above.
const ZERO: u16 = (OCTAVES * BINS_PER_OCTAVE).next_multiple_of(BLOCK_BINS);
pub const BLOCKS: u16 = (ZERO + OCTAVES * BINS_PER_OCTAVE) / BLOCK_BINS + 1;

/// How many values fell to each of a block's bins, which are neighbours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bins([u64; BLOCK_BINS as usize]);

impl Bins {
    pub fn of(number: Decimal) -> (u16, Bins) {
        let bin = match (number.0.signum(), number.0.unsigned_abs()) {
            (0, _) => ZERO,
            (-1, units) => ZERO - 1 - bin_of(units),
            (_, units) => ZERO + 1 + bin_of(units),
        };
        let mut counts = [0; BLOCK_BINS as usize];
        counts[usize::from(bin % BLOCK_BINS)] = 1;
        (bin / BLOCK_BINS, Bins(counts))
    }

    pub fn merge(&mut self, other: &Bins) -> bool {
        let before = self.0;
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count = count.saturating_add(more));
        self.0 != before
    }

    /// A bit for each bin with something in it, the first bin's is the lowest; then their counts.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let filled = self.0.iter().rev().fold(0_u16, |filled, count| filled << 1 | u16::from(*count > 0));
        out.extend_from_slice(&filled.to_be_bytes());
        self.0.iter().filter(|count| **count > 0).for_each(|count| avro::long(*count as i64, out));
    }

    pub fn decode(r: &mut Reader<'_>) -> Result<Bins, DecodeError> {
        let filled = u16::from_be_bytes(take(r)?);
        let mut counts = [0; BLOCK_BINS as usize];
        for (_, count) in (0..).zip(&mut counts).filter(|(bin, _)| filled >> bin & 1 == 1) {
            *count = r.long()? as u64;
            if *count == 0 {
                return Err(DecodeError("bin is empty"));
            }
        }
        Ok(Bins(counts))
    }
}

/// The value in whose place ⌊q·(n − 1)⌋ of n values in order stands, from 0; of a sketch's blocks in order of their numbers.
pub(super) fn quantile(blocks: &[(u16, &Bins)], q: Decimal) -> Option<Decimal> {
    let one = Decimal::whole(1);
    let counts = || blocks.iter().flat_map(|(block, bins)| (block * BLOCK_BINS..).zip(bins.0));
    let all: i128 = counts().map(|(_, count)| i128::from(count)).sum();
    if all == 0 || q < Decimal(0) || q > one {
        return None;
    }
    let mut before = q.0 * (all - 1) / one.0;
    let (bin, _) = counts().find(|(_, count)| {
        before -= i128::from(*count);
        before < 0
    })?;
    Some(value(bin))
}

/// What stands for the numbers of a bin.
fn value(bin: u16) -> Decimal {
    let bin = i32::from(bin) - i32::from(ZERO);
    match bin {
        0 => Decimal(0),
        _ => Decimal(i128::from(bin.signum()) * middle(bin.unsigned_abs() - 1)),
    }
}

/// As far from the least number of a bin as from the largest, in parts of each: their harmonic mean, 2·l·h/(l + h).
fn middle(bin: u32) -> i128 {
    let least = least(bin);
    let largest = (self::least(bin + 1) - 1).max(least);
    let (sum, apart) = (least + largest, largest - least);
    (sum - apart * apart / sum) / 2
}

fn least(bin: u32) -> i128 {
    let (mut low, mut high) = (1_u128, 1 << OCTAVES);
    while low < high {
        let middle = low.midpoint(high);
        if u32::from(bin_of(middle)) < bin { low = middle + 1 } else { high = middle }
    }
    low as i128
}

/// Of a number other than 0, by its size. What is beyond the last bin falls to it.
fn bin_of(units: u128) -> u16 {
    let units = units.clamp(1, (1 << OCTAVES) - 1);
    let octave = units.ilog2();
    // Where the number stands between two powers of two, in parts of 2³².
    let x = ((units - (1 << octave)) << 32) >> octave;
    // The bin, in parts of 2⁹⁶.
    let cubic = 6 * x * x * x + ((50 * x) << 64) - ((21 * x * x) << 32);
    octave as u16 * BINS_PER_OCTAVE + (cubic >> 96) as u16
}

#[cfg(test)]
mod tests {
    use super::super::tests::{encoded, hex, random, sketch, zipf};
    use super::super::{Block, Kind, Sketch, Value};
    use super::*;
    use proptest::prelude::*;

    const LARGEST: i128 = (1 << OCTAVES) - 1;

    fn of(numbers: &[i128]) -> Sketch {
        sketch(Kind::Quantiles, numbers.iter().map(|units| Value::Number(Decimal(*units))))
    }

    /// A hundredth, and half a unit.
    fn is_near(told: Decimal, exact: i128) -> bool {
        200 * (told.0 - exact).abs() <= 2 * exact.abs() + 100
    }

    /// Persisted: a number falls to the same block and bin for ever.
    #[test]
    fn golden_bytes() {
        let placed = |text: &str| {
            let (number, block) = Kind::Quantiles.block_of(Value::Number(Decimal::parse(text).expect("a number"))).expect("a place");
            format!("{number} {}", hex(&block))
        };
        let texts = ["-99999999999.999999999", "-1", "-0.000000001", "0", "0.000000001", "1", "1.5", "250", "99999999999.999999999"];
        let places =
            ["1 040002", "81 020002", "146 800002", "147 000102", "147 000202", "212 008002", "213 080002", "229 400002", "292 004002"];
        assert_eq!(texts.map(placed), places);
        let filled = Bins(std::array::from_fn(|bin| if bin % 5 == 0 { 1 << (10 * bin / 5) } else { 0 }));
        assert_eq!(hex(&Block::Quantiles(filled)), "8421028010808080018080808008");
        assert_eq!(Bins::decode(&mut Reader::new(&[0, 1, 0])), Err(DecodeError("bin is empty")));
    }

    #[test]
    fn bins_follow_one_another() {
        let mut last = 0;
        for bin in 0..u32::from(OCTAVES * BINS_PER_OCTAVE) {
            let (least, next) = (super::least(bin), super::least(bin + 1));
            assert!(least <= next && next - least <= 1 + least / 49, "{bin}: {least} {next}");
            if least < next {
                assert_eq!((u32::from(bin_of(least as u128)), u32::from(bin_of(next as u128 - 1))), (bin, bin));
                assert!(least > last, "{bin}");
                last = next - 1;
                assert!(is_near(Decimal(middle(bin)), least) && is_near(Decimal(middle(bin)), last), "{bin}: {least} {last}");
            }
        }
        assert_eq!(last, LARGEST);
    }

    #[test]
    fn quantiles_are_within_a_hundredth() {
        let uniform = || random(1).map(|number| i128::from(number >> 20));
        let streams: [(&str, Vec<i128>); 6] = [
            ("uniform", uniform().take(20_000).collect()),
            ("zipf", zipf(2, 100_000).map(|rank| i128::from(rank) * 1_000_000).take(20_000).collect()),
            ("few", random(3).map(|number| i128::from(number % 5) * 250_000_000).take(5_000).collect()),
            ("negative", uniform().map(|units| -units).take(5_000).collect()),
            ("around zero", random(4).map(|number| i128::from(number as i8)).take(5_000).collect()),
            ("any size", random(5).zip(random(6)).map(|(number, by)| i128::from(number as i64) << 2 >> (by % 66)).take(20_000).collect()),
        ];
        for (name, mut numbers) in streams {
            let all = of(&numbers);
            numbers.sort_unstable();
            for q in (0..=1_000).map(|q| Decimal(q * 1_000_000)) {
                let exact = numbers[(q.0 * (numbers.len() as i128 - 1) / 1_000_000_000) as usize];
                let told = all.quantile(q).expect("a quantile");
                assert!(is_near(told, exact), "{name}, {q}: {told:?} for {exact}");
            }
            assert_eq!((all.quantile(Decimal(-1)), all.quantile(Decimal(1_000_000_001))), (None, None));
        }
    }

    #[test]
    fn what_is_beyond_the_last_bin_falls_to_it() {
        for units in [LARGEST, LARGEST + 1, i128::MAX] {
            assert_eq!(of(&[units]), of(&[LARGEST]));
            assert_eq!(of(&[-units]), of(&[-LARGEST]));
        }
        assert_eq!(of(&[i128::MIN]), of(&[-LARGEST]));
        assert_eq!(Bins::of(Decimal(LARGEST)).0, BLOCKS - 1);
        assert_eq!(Bins::of(Decimal(-LARGEST)).0, 0);
    }

    #[test]
    fn what_is_written_is_small() {
        let mut all = Sketch::new(Kind::Quantiles);
        let (mut sum, mut most) = (0, 0);
        // From 1 to 100,000 with places behind the point, as many in each power.
        for number in random(7).take(100_000) {
            let units = 1_000_000_000_i128 * (1 << (number % 17)) + i128::from(number >> 34 << (number % 17));
            let (number, block) = Kind::Quantiles.block_of(Value::Number(Decimal(units))).expect("a place");
            assert_eq!(encoded(&block).len(), 3);
            assert_eq!(all.merge_block(number, block), Ok(true));
            let len = encoded(&all.blocks[&number]).len();
            (sum, most) = (sum + len, len.max(most));
        }
        assert!(sum <= 28 * 100_000 && most <= 34, "{sum} {most}");
        assert!(all.blocks().map(|(_, block)| encoded(block).len()).sum::<usize>() <= 1_300);
        assert_eq!(encoded(&Block::Quantiles(Bins([i64::MAX as u64; 16]))).len(), 162);
    }

    proptest! {
        #[test]
        fn any_number_comes_back_near(units in prop_oneof![-200..200_i128, -LARGEST..=LARGEST], shift in 0..67_u32) {
            let units = units >> shift;
            prop_assert!(is_near(of(&[units]).quantile(Decimal(0)).expect("a number"), units));
        }
        #[test]
        fn larger_numbers_fall_to_no_earlier_bin(units in 1..LARGEST as u128, more in 0..1_000_u128, shift in 0..67_u32) {
            prop_assert!(bin_of(units >> shift) <= bin_of((units >> shift) + more));
        }
    }
}
