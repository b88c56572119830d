//! Sizes and spans as people write them in the configuration: `64MiB`, `60s`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The text is no quantity of this kind.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct QuantityError(String);

/// Bytes: a whole number with `B`, `KiB`, `MiB`, `GiB` or `TiB`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Size(pub u64);

/// A span of time: a whole number with `ms`, `s`, `m`, `h` or `d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Span(pub Duration);

const SIZES: [(&str, u64); 5] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const SPANS_MS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

fn parse(text: &str, units: &[(&str, u64)], example: &str) -> Result<u64, QuantityError> {
    let error = || QuantityError(format!("expected a quantity like {example}"));
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(error)?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(error)?;
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(*factor)).ok_or_else(error)
}

fn write(value: u64, units: &[(&str, u64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (name, factor) =
        units.iter().find(|(_, factor)| value != 0 && value.is_multiple_of(*factor)).copied().unwrap_or(units[units.len() - 1]);
    write!(f, "{}{name}", value / factor)
}

impl FromStr for Size {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Size, QuantityError> {
        parse(text, &SIZES, "\"64MiB\"").map(Size)
    }
}
impl FromStr for Span {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Span, QuantityError> {
        parse(text, &SPANS_MS, "\"60s\"").map(|ms| Span(Duration::from_millis(ms)))
    }
}
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, &SIZES, f)
    }
}
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX), &SPANS_MS, f)
    }
}

macro_rules! as_text {
    ($kind:ty) => {
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}
as_text!(Size);
as_text!(Span);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_and_written_as_people_write_them() {
        for (text, bytes) in [("0B", 0), ("1KiB", 1024), ("64MiB", 64 << 20), ("3TiB", 3 << 40)] {
            assert_eq!(text.parse(), Ok(Size(bytes)));
            assert_eq!(Size(bytes).to_string(), text);
        }
        for (text, ms) in [("200ms", 200), ("60s", 60_000), ("90m", 5_400_000), ("2d", 172_800_000)] {
            assert_eq!(text.parse(), Ok(Span(Duration::from_millis(ms))));
        }
        assert_eq!(Span(Duration::from_secs(60)).to_string(), "1m");
        for bad in ["", "5", "MiB", "1.5GiB", "-1s", "99999999999TiB", "1 parsec"] {
            assert!(bad.parse::<Size>().is_err() && bad.parse::<Span>().is_err(), "{bad}");
        }
    }
}
