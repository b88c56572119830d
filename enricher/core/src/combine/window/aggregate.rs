//! A value of a window's result as it is declared: `count`, `count(user_id)`, `sum(properties.price)` …

use super::measure::Measure;
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
        let measure = Measure::from_name(name).ok_or_else(|| expected(text))?;
        match (measure, argument) {
            (Measure::Count, argument) => Ok(Aggregate { measure, path: argument.map(str::to_owned) }),
            (_, Some(path)) => Ok(Aggregate { measure, path: Some(path.to_owned()) }),
            (_, None) => Err(format!("{name} needs a field, like {name}(properties.price)")),
        }
    }
}

fn expected(text: &str) -> String {
    format!("{text:?} is no value: use count, count(FIELD), sum(FIELD), min(FIELD), max(FIELD) or mean(FIELD)")
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
        ] {
            assert_eq!(text.parse::<Aggregate>(), read, "{text}");
        }
        assert_eq!("sum".parse::<Aggregate>(), Err("sum needs a field, like sum(properties.price)".to_owned()));
        for text in ["", "median(x)", "sum(x", "SUM(x)"] {
            assert!(text.parse::<Aggregate>().expect_err("no value").contains("is no value: use count"), "{text}");
        }
    }
}
