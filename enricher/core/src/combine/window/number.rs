//! Numbers that add up to the same sum in any order: decimals of nine places.
//!
//! Owns: reading a JSON number's text, writing one. Does not own: what is added (`measure`).
//! Invariant: no binary fractions, so a sum is exact and does not tell in which order, or in how many parts, it was made.

/// Places behind the point; what is behind them is rounded, half to even.
const PLACES: i32 = 9;
const ONE: i128 = 1_000_000_000;
/// Numbers of this size or more are no numbers here. A sum of 10¹⁸ of the largest still has room.
const LIMIT: i128 = 100_000_000_000 * ONE;

/// In units of 10⁻⁹.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Decimal(pub i128);

impl Decimal {
    /// From a number as JSON writes it; `None` for other text, and from 10¹¹ on.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (sign, unsigned) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = || whole.bytes().chain(fraction.bytes()).map(|byte| i128::from(byte - b'0'));
        // How many of the digits stand before the end of the last place.
        let kept = i64::try_from(whole.len()).ok()? + i64::from(exponent) + i64::from(PLACES);
        let (mut units, mut place) = (0, 0);
        for digit in digits() {
            if place >= kept {
                break;
            }
            units = units * 10 + digit;
            place += 1;
            if units >= LIMIT {
                return None;
            }
        }
        if units != 0 {
            for _ in place..kept {
                units *= 10;
                if units >= LIMIT {
                    return None;
                }
            }
        }
        let mut rest = digits().skip(usize::try_from(kept.max(0)).unwrap_or(usize::MAX));
        // Below zero places the first digit that is left stands further behind than the next place.
        let next = if kept < 0 { 0 } else { rest.next().unwrap_or(0) };
        let up = match next {
            5 => rest.any(|digit| digit != 0) || units % 2 == 1,
            other => other > 5,
        };
        Some(Decimal(sign * (units + i128::from(up))))
    }

    pub fn whole(count: u64) -> Decimal {
        Decimal(i128::from(count) * ONE)
    }

    /// Sums have room for more events than there will be; beyond, the last one stands.
    pub fn plus(self, other: Decimal) -> Decimal {
        Decimal(self.0.saturating_add(other.0))
    }

    /// Rounded, half to even; `None` of nothing.
    pub fn over(self, count: u64) -> Option<Decimal> {
        let count = i128::from(count);
        let (whole, rest) = (self.0.checked_div_euclid(count)?, self.0.checked_rem_euclid(count)?);
        let up = match (rest * 2).cmp(&count) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => whole % 2 != 0,
            std::cmp::Ordering::Greater => true,
        };
        Some(Decimal(whole + i128::from(up)))
    }
}

/// As JSON writes a number, without an exponent or zeros at its end.
impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let units = self.0.unsigned_abs();
        let (whole, fraction) = (units / ONE.unsigned_abs(), units % ONE.unsigned_abs());
        write!(f, "{sign}{whole}")?;
        if fraction == 0 {
            return Ok(());
        }
        write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for (text, shown) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("19.99", "19.99"),
            ("-19.990", "-19.99"),
            ("1e3", "1000"),
            ("1.5E+3", "1500"),
            ("12345e-3", "12.345"),
            ("0.000000001", "0.000000001"),
            ("1e-9", "0.000000001"),
            ("1e-10", "0"),
            ("9e-10", "0.000000001"),
            ("1e-400", "0"),
            ("0e400", "0"),
            ("0.0000000005", "0"),
            ("0.0000000015", "0.000000002"),
            ("0.00000000050000000001", "0.000000001"),
            ("99999999999.999999999", "99999999999.999999999"),
            ("00000000000000000000000000000000000000000000000001", "1"),
        ] {
            assert_eq!(Decimal::parse(text).map(|number| number.to_string()).as_deref(), Some(shown), "{text}");
        }
        for text in
            ["", "-", "x", "1x", ".5", "+1", "--1", "1e", "1e5000000000", "NaN", "Infinity", "0x10", "100000000000", "1e11", "-1e400", "١"]
        {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_mean_is_rounded_once() {
        let mean = |units: i128, count: u64| Decimal(units).over(count).map(|mean| mean.0);
        assert_eq!(
            [mean(10, 4), mean(14, 4), mean(-10, 4), mean(-14, 4), mean(11, 4), mean(0, 3)].map(Option::unwrap),
            [2, 4, -2, -4, 3, 0]
        );
        assert_eq!(mean(1, 0), None);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_what_it_was(units in -LIMIT + 1..LIMIT) {
            prop_assert_eq!(Decimal::parse(&Decimal(units).to_string()), Some(Decimal(units)));
        }
        #[test]
        fn doubles_come_close(number in -1e10_f64..1e10) {
            let read = Decimal::parse(&format!("{number:e}")).expect("a number").0;
            prop_assert!((read as f64 / 1e9 - number).abs() <= 1e-9 + number.abs() * 1e-15, "{}", read);
        }
        #[test]
        fn no_text_is_trouble(text in "[-+.0-9eE]{0,40}") {
            if let Some(number) = Decimal::parse(&text) {
                prop_assert!(number.0.abs() < LIMIT + 1);
            }
        }
    }
}
