//! What is measured of a window's events: count, sum, smallest, largest, mean; and, by sketches, distinct, most frequent values and
//! quantiles.
//!
//! Owns: measures, what is kept of the events to tell them, its bytes in state. Does not own: which field is read.
//! Invariants: merging is adding: events in any order and in any parts come to the same; what is kept is as small for
//! many events as for few. The bytes are persisted: a change needs a new format of state.

use super::number::Decimal;
use super::sketch::{Kind, Sketch};
use forebay_schemas::json;
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
    /// How many different values a field has, about.
    Distinct,
    /// The most frequent values of a field, about, so many.
    Top(usize),
    /// Of the numbers in a field, about: so large a part is at or below it.
    Quantile(Decimal),
}

impl Measure {
    /// What it needs of a field's values.
    pub fn sketch(self) -> Option<Kind> {
        match self {
            Measure::Distinct => Some(Kind::Distinct),
            Measure::Top(_) => Some(Kind::Top),
            Measure::Quantile(_) => Some(Kind::Quantiles),
            Measure::Count | Measure::Sum | Measure::Min | Measure::Max | Measure::Mean => None,
        }
    }
}

/// What is kept of one field's numbers; of no field it counts events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Numbers {
    pub count: u64,
    sum: Decimal,
    bounds: Option<(Decimal, Decimal)>,
}

impl Numbers {
    pub fn of_an_event() -> Numbers {
        Numbers { count: 1, ..Numbers::default() }
    }
    pub fn of(number: Decimal) -> Numbers {
        Numbers { count: 1, sum: number, bounds: Some((number, number)) }
    }

    pub fn merge(&mut self, other: &Numbers) {
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
            Measure::Distinct | Measure::Top(_) | Measure::Quantile(_) => None,
        }
    }

    /// Count; then, where numbers were kept, sum, least and most.
    pub fn encode(&self, out: &mut Vec<u8>) {
        avro::long(self.count as i64, out);
        avro::optional(self.bounds, |(least, most), out| [self.sum, least, most].iter().for_each(|number| wide(number.0, out)), out);
    }

    pub fn decode(r: &mut Reader<'_>) -> Result<Numbers, DecodeError> {
        let count = r.long()? as u64;
        let numbers = r.optional(|r| Ok((Decimal(read_wide(r)?), Decimal(read_wide(r)?), Decimal(read_wide(r)?))))?;
        let (sum, bounds) = numbers.map_or((Decimal::default(), None), |(sum, least, most)| (sum, Some((least, most))));
        Ok(Numbers { count, sum, bounds })
    }
}

/// What is kept of a window's events for one or more of its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kept {
    Numbers(Numbers),
    Sketch(Sketch),
}

/// One part is of another kind than the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unlike;

impl Kept {
    pub fn merge(&mut self, other: &Kept) -> Result<(), Unlike> {
        match (self, other) {
            (Kept::Numbers(all), Kept::Numbers(more)) => {
                all.merge(more);
                Ok(())
            }
            (Kept::Sketch(all), Kept::Sketch(more)) => all.merge(more).map_err(|_| Unlike),
            (Kept::Numbers(_) | Kept::Sketch(_), _) => Err(Unlike),
        }
    }

    /// The same of no events.
    pub fn nothing(&self) -> Kept {
        match self {
            Kept::Numbers(_) => Kept::Numbers(Numbers::default()),
            Kept::Sketch(sketch) => Kept::Sketch(Sketch::new(sketch.kind())),
        }
    }

    pub fn numbers(&self) -> Option<Numbers> {
        match self {
            Kept::Numbers(numbers) => Some(*numbers),
            Kept::Sketch(_) => None,
        }
    }

    /// JSON text of what it comes to; `null` where there is nothing to measure.
    pub fn write(&self, measure: Measure, out: &mut String) {
        let number = match (self, measure) {
            (Kept::Numbers(numbers), measure) => numbers.tell(measure),
            (Kept::Sketch(sketch), Measure::Distinct) => Some(Decimal::whole(sketch.distinct())),
            (Kept::Sketch(sketch), Measure::Quantile(q)) => sketch.quantile(q),
            (Kept::Sketch(sketch), Measure::Top(k)) => return write_top(sketch, k, out),
            (Kept::Sketch(_), Measure::Count | Measure::Sum | Measure::Min | Measure::Max | Measure::Mean) => None,
        };
        match number {
            Some(number) => out.push_str(&number.to_string()),
            None => out.push_str("null"),
        }
    }
}

/// `count` is certain; the true number is at most `error` above it.
fn write_top(sketch: &Sketch, k: usize, out: &mut String) {
    out.push('[');
    for (n, frequent) in sketch.top(k).into_iter().enumerate() {
        out.push_str(if n > 0 { ",{\"value\":" } else { "{\"value\":" });
        json::write_string(&frequent.text, out);
        out.push_str(&format!(",\"count\":{},\"error\":{}}}", frequent.count, frequent.error));
    }
    out.push(']');
}

/// As it goes from one task to another.
pub fn encode(all: &[Kept]) -> Vec<u8> {
    let mut out = Vec::new();
    avro::array(
        all,
        |kept, out| match kept {
            Kept::Numbers(numbers) => {
                out.push(0);
                numbers.encode(out);
            }
            Kept::Sketch(sketch) => {
                out.push(tag(sketch.kind()));
                sketch.encode(out);
            }
        },
        &mut out,
    );
    out
}

pub fn decode(bytes: &[u8]) -> Result<Vec<Kept>, DecodeError> {
    let mut r = Reader::new(bytes);
    let all = r.array(|r| {
        let (&first, rest) = r.rest.split_first().ok_or(DecodeError("kept ends early"))?;
        r.rest = rest;
        if first == 0 {
            return Numbers::decode(r).map(Kept::Numbers);
        }
        let kind = KINDS.into_iter().find(|kind| tag(*kind) == first).ok_or(DecodeError("no such sketch"))?;
        Sketch::decode(kind, r).map(Kept::Sketch)
    })?;
    r.end()?;
    Ok(all)
}

const KINDS: [Kind; 3] = [Kind::Distinct, Kind::Top, Kind::Quantiles];

/// On the wire.
fn tag(kind: Kind) -> u8 {
    match kind {
        Kind::Distinct => 1,
        Kind::Top => 2,
        Kind::Quantiles => 3,
    }
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

    fn kept(numbers: &[i128]) -> Numbers {
        numbers.iter().fold(Numbers::default(), |mut all, number| {
            all.merge(&Numbers::of(Decimal(*number)));
            all
        })
    }

    /// Persisted: these bytes never change.
    #[test]
    fn golden_bytes() {
        let hex = |kept: Numbers| {
            let mut out = Vec::new();
            kept.encode(&mut out);
            out.iter().map(|b| format!("{b:02x}")).collect::<String>()
        };
        assert_eq!(hex(Numbers::of_an_event()), "0200");
        assert_eq!(hex(kept(&[1_000_000_000, -500_000_000])), "04028094ebdc03ff93ebdc0380a8d6b907");
    }

    #[test]
    fn nothing_has_no_mean() {
        let none = Numbers::default();
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
            prop_assert_eq!(Numbers::decode(&mut reader), Ok(whole));
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
            let _ = Numbers::decode(&mut Reader::new(&bytes));
        }
    }
}
