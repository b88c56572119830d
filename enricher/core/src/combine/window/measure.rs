//! What is measured of a window's events: count, sum, smallest, largest, mean.
//!
//! Owns: measures, what is kept of the events to tell them, its bytes in state. Does not own: which field is read.
//! Invariants: merging is adding: events in any order and in any parts come to the same; what is kept is as small for
//! many events as for few. The bytes are persisted: a change needs a new format of state.

use super::number::Decimal;
use forebay_schemas::wire::avro::{self, DecodeError, Reader};

/// One value of a window's result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Measure {
    /// Of events, whatever they hold.
    Count,
    /// Of the numbers in a field. Events without one are left out.
    Sum,
    Min,
    Max,
    Mean,
}

impl Measure {
    /// By the name in a declaration.
    pub fn from_name(name: &str) -> Option<Measure> {
        Some(match name {
            "count" => Measure::Count,
            "sum" => Measure::Sum,
            "min" => Measure::Min,
            "max" => Measure::Max,
            "mean" => Measure::Mean,
            _ => return None,
        })
    }
}

/// What is kept of one field's numbers; of no field it counts events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    pub count: u64,
    sum: Decimal,
    bounds: Option<(Decimal, Decimal)>,
}

impl Kept {
    pub fn of_an_event() -> Kept {
        Kept { count: 1, ..Kept::default() }
    }
    pub fn of(number: Decimal) -> Kept {
        Kept { count: 1, sum: number, bounds: Some((number, number)) }
    }

    pub fn merge(&mut self, other: &Kept) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.plus(other.sum);
        self.bounds = match (self.bounds, other.bounds) {
            (Some((least, most)), Some((less, more))) => Some((least.min(less), most.max(more))),
            (one, other) => one.or(other),
        };
    }

    /// `None`: there is no smallest, largest or mean of nothing.
    pub fn tell(&self, measure: Measure) -> Option<Decimal> {
        match measure {
            Measure::Count => Some(Decimal::whole(self.count)),
            Measure::Sum => Some(self.sum),
            Measure::Min => self.bounds.map(|(least, _)| least),
            Measure::Max => self.bounds.map(|(_, most)| most),
            Measure::Mean => self.sum.over(self.count),
        }
    }

    /// Count; then, where numbers were kept, sum, least and most.
    pub fn encode(&self, out: &mut Vec<u8>) {
        avro::long(self.count as i64, out);
        avro::optional(self.bounds, |(least, most), out| [self.sum, least, most].iter().for_each(|number| wide(number.0, out)), out);
    }

    pub fn decode(r: &mut Reader<'_>) -> Result<Kept, DecodeError> {
        let count = r.long()? as u64;
        let numbers = r.optional(|r| Ok((Decimal(read_wide(r)?), Decimal(read_wide(r)?), Decimal(read_wide(r)?))))?;
        let (sum, bounds) = numbers.map_or((Decimal::default(), None), |(sum, least, most)| (sum, Some((least, most))));
        Ok(Kept { count, sum, bounds })
    }
}

/// What is kept for each of the values that a window declares.
pub fn encode(all: &[Kept]) -> Vec<u8> {
    let mut out = Vec::new();
    avro::array(all, Kept::encode, &mut out);
    out
}

pub fn decode(bytes: &[u8]) -> Result<Vec<Kept>, DecodeError> {
    let mut r = Reader::new(bytes);
    let all = r.array(Kept::decode)?;
    r.end()?;
    Ok(all)
}

/// As Avro writes a long, of twice its width.
fn wide(value: i128, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 127)) as u128;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn read_wide(r: &mut Reader<'_>) -> Result<i128, DecodeError> {
    let mut value: u128 = 0;
    for shift in (0..133).step_by(7) {
        let (&byte, rest) = r.rest.split_first().ok_or(DecodeError("number ends early"))?;
        r.rest = rest;
        value |= u128::from(byte & 0x7f).checked_shl(shift).ok_or(DecodeError("number too long"))?;
        if byte < 0x80 {
            return Ok((value >> 1) as i128 ^ -((value & 1) as i128));
        }
    }
    Err(DecodeError("number too long"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(numbers: &[i128]) -> Kept {
        numbers.iter().fold(Kept::default(), |mut all, number| {
            all.merge(&Kept::of(Decimal(*number)));
            all
        })
    }

    /// Persisted: these bytes never change.
    #[test]
    fn golden_bytes() {
        let hex = |kept: Kept| {
            let mut out = Vec::new();
            kept.encode(&mut out);
            out.iter().map(|b| format!("{b:02x}")).collect::<String>()
        };
        assert_eq!(hex(Kept::of_an_event()), "0200");
        assert_eq!(hex(kept(&[1_000_000_000, -500_000_000])), "04028094ebdc03ff93ebdc0380a8d6b907");
    }

    #[test]
    fn nothing_has_no_mean() {
        let none = Kept::default();
        let told = [Measure::Count, Measure::Sum, Measure::Min, Measure::Max, Measure::Mean].map(|measure| none.tell(measure));
        assert_eq!(told, [Some(Decimal(0)), Some(Decimal(0)), None, None, None]);
    }

    proptest! {
        #[test]
        fn parts_and_order_do_not_matter(mut numbers in prop::collection::vec(any::<i64>().prop_map(i128::from), 0..40), cut in 0..40_usize) {
            let whole = kept(&numbers);
            let (left, right) = numbers.split_at(cut.min(numbers.len()));
            let mut parts = kept(right);
            parts.merge(&kept(left));
            prop_assert_eq!(parts, whole);
            numbers.reverse();
            prop_assert_eq!(kept(&numbers), whole);
            prop_assert_eq!(whole.tell(Measure::Sum), Some(Decimal(numbers.iter().sum())));
            prop_assert_eq!(whole.tell(Measure::Max), numbers.iter().max().copied().map(Decimal));
            let mut bytes = Vec::new();
            whole.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Kept::decode(&mut reader), Ok(whole));
            prop_assert!(reader.rest.is_empty());
        }
        #[test]
        fn any_width_comes_back(value in any::<i128>()) {
            let mut bytes = Vec::new();
            wide(value, &mut bytes);
            prop_assert_eq!(read_wide(&mut Reader::new(&bytes)), Ok(value));
        }
        #[test]
        fn broken_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Kept::decode(&mut Reader::new(&bytes));
        }
    }
}
