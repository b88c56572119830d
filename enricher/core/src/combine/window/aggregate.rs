//! A value of a window's result as it is declared: `count`, `sum(properties.price)`, `top(10, page.path)` …

use super::measure::Measure;
use super::number::Decimal;
use forebay_schemas::limit;
use std::str::FromStr;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Aggregate {
    pub measure: Measure,
    /// Of the field; `None`: of events.
    pub path: Option<String>,
}

impl FromStr for Aggregate {
    type Err = String;

    fn from_str(text: &str) -> Result<Aggregate, String> {
        let (name, argument) = match text.trim().split_once('(') {
            Some((name, rest)) => {
                let inner = rest.strip_suffix(')').ok_or_else(|| expected(text))?.trim();
                (name.trim_end(), Some(inner).filter(|inner| !inner.is_empty()))
            }
            None => (text.trim(), None),
        };
        let (parameter, argument) = match argument.and_then(|argument| argument.split_once(',')) {
            Some((parameter, path)) => (Some(parameter.trim()), Some(path.trim())),
            None => (None, argument),
        };
        let measure = match (name, parameter) {
            ("count", None) => return Ok(Aggregate { measure: Measure::Count, path: argument.map(str::to_owned) }),
            ("sum", None) => Measure::Sum,
            ("min", None) => Measure::Min,
            ("max", None) => Measure::Max,
            ("mean", None) => Measure::Mean,
            ("distinct", None) => Measure::Distinct,
            ("top", Some(k)) => Measure::Top(k.parse().ok().filter(|k| (1..=limit::SKETCH_TOP).contains(k)).ok_or_else(top)?),
            ("top", None) => return Err(top()),
            ("quantile", Some(q)) => {
                let q = Decimal::parse(q).filter(|q| (Decimal::whole(0)..=Decimal::whole(1)).contains(q));
                Measure::Quantile(q.ok_or_else(quantile)?)
            }
            ("quantile", None) => return Err(quantile()),
            _ => return Err(expected(text)),
        };
        match argument {
            Some(path) => Ok(Aggregate { measure, path: Some(path.to_owned()) }),
            None => Err(format!("{name} needs a field, like {name}(properties.price)")),
        }
    }
}

fn expected(text: &str) -> String {
    format!(
        "{text:?} is no value: use count, count(FIELD), sum(FIELD), min(FIELD), max(FIELD), mean(FIELD), distinct(FIELD), top(K, FIELD) or \
         quantile(Q, FIELD)"
    )
}

fn top() -> String {
    format!("top needs how many and a field, at most {}, like top(10, page.path)", limit::SKETCH_TOP)
}

fn quantile() -> String {
    "quantile needs a part of 0 to 1 and a field, like quantile(0.95, properties.price)".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_declared() {
        let value = |measure, path: Option<&str>| Ok(Aggregate { measure, path: path.map(str::to_owned) });
        for (text, read) in [
            ("count", value(Measure::Count, None)),
            (" count() ", value(Measure::Count, None)),
            ("count(user_id)", value(Measure::Count, Some("user_id"))),
            ("sum( properties.price )", value(Measure::Sum, Some("properties.price"))),
            ("min (seq)", value(Measure::Min, Some("seq"))),
            ("max(seq)", value(Measure::Max, Some("seq"))),
            ("mean(seq)", value(Measure::Mean, Some("seq"))),
            ("distinct(user_id)", value(Measure::Distinct, Some("user_id"))),
            ("top( 3 , page.path)", value(Measure::Top(3), Some("page.path"))),
            ("quantile(0.5, seq)", value(Measure::Quantile(Decimal(500_000_000)), Some("seq"))),
        ] {
            assert_eq!(text.parse::<Aggregate>(), read, "{text}");
        }
        assert_eq!("sum".parse::<Aggregate>(), Err("sum needs a field, like sum(properties.price)".to_owned()));
        for text in ["top(user_id)", "top(0, user_id)", "top(101, user_id)", "top(x, user_id)"] {
            assert!(text.parse::<Aggregate>().expect_err("no value").starts_with("top needs how many"), "{text}");
        }
        for text in ["quantile(seq)", "quantile(1.5, seq)", "quantile(-0.1, seq)"] {
            assert!(text.parse::<Aggregate>().expect_err("no value").starts_with("quantile needs a part"), "{text}");
        }
        for text in ["", "median(x)", "sum(x", "SUM(x)", "sum(1, x)"] {
            assert!(text.parse::<Aggregate>().expect_err("no value").contains("is no value: use count"), "{text}");
        }
    }
}
