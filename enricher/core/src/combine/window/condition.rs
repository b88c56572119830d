//! A condition on one field of an event.
//!
//! Owns: the kinds of conditions and what they say of a value. Does not own: how they are written in a configuration.

use super::field::Scalar;
use super::number::Decimal;
use serde_json::{Value, json};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// The field is there, or is not.
    Exists(bool),
    /// It is one of these.
    AnyOf(Vec<Literal>),
    /// It is there and none of these.
    NoneOf(Vec<Literal>),
    /// It is a number for which all of these hold.
    Bounds(Vec<(Relation, Decimal)>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Literal {
    Text(String),
    Number(Decimal),
    Bool(bool),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    Below,
    AtMost,
    AtLeast,
    Above,
}

impl Condition {
    pub fn holds(&self, value: Option<&Scalar<'_>>) -> bool {
        match (self, value) {
            (Condition::Exists(wanted), value) => value.is_some() == *wanted,
            (_, None) => false,
            (Condition::AnyOf(literals), Some(value)) => literals.iter().any(|literal| literal.is(value)),
            (Condition::NoneOf(literals), Some(value)) => !literals.iter().any(|literal| literal.is(value)),
            (Condition::Bounds(bounds), Some(value)) => {
                value.number().is_some_and(|number| bounds.iter().all(|(relation, bound)| relation.holds(number, *bound)))
            }
        }
    }
}

impl Condition {
    /// The same condition is the same JSON, for good.
    pub fn to_json(&self) -> Value {
        let all = |literals: &[Literal]| literals.iter().map(Literal::to_json).collect::<Vec<_>>();
        match self {
            Condition::Exists(wanted) => json!({"exists": wanted}),
            Condition::AnyOf(literals) => json!({"is": all(literals)}),
            Condition::NoneOf(literals) => json!({"not": all(literals)}),
            Condition::Bounds(bounds) => {
                let one = |(relation, bound): &(Relation, Decimal)| (relation.name().to_owned(), json!(bound.to_string()));
                bounds.iter().map(one).collect::<serde_json::Map<_, _>>().into()
            }
        }
    }
}

impl Literal {
    fn to_json(&self) -> Value {
        match self {
            Literal::Text(text) => json!(text),
            Literal::Number(number) => json!({"number": number.to_string()}),
            Literal::Bool(truth) => json!(truth),
        }
    }

    fn is(&self, value: &Scalar<'_>) -> bool {
        match (self, value) {
            (Literal::Text(text), Scalar::Text(value)) => text == value,
            (Literal::Number(number), value @ Scalar::Number(_)) => value.number() == Some(*number),
            (Literal::Bool(truth), Scalar::Bool(value)) => truth == value,
            (Literal::Text(_) | Literal::Number(_) | Literal::Bool(_), _) => false,
        }
    }
}

impl Relation {
    pub const ALL: [Relation; 4] = [Relation::Below, Relation::AtMost, Relation::AtLeast, Relation::Above];
    /// As a declaration writes it.
    pub fn name(self) -> &'static str {
        match self {
            Relation::Below => "lt",
            Relation::AtMost => "le",
            Relation::AtLeast => "ge",
            Relation::Above => "gt",
        }
    }

    fn holds(self, number: Decimal, bound: Decimal) -> bool {
        match self {
            Relation::Below => number < bound,
            Relation::AtMost => number <= bound,
            Relation::AtLeast => number >= bound,
            Relation::Above => number > bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn conditions_say_what_they_say() {
        let number = |text: &str| Decimal::parse(text).expect("a number");
        let text = |text| Scalar::Text(Cow::Borrowed(text));
        let value = |text| Scalar::Number(Cow::Borrowed(text));
        let any = Condition::AnyOf(vec![Literal::Text("a".into()), Literal::Number(number("1")), Literal::Bool(true)]);
        let none = Condition::NoneOf(vec![Literal::Text("a".into())]);
        let between = Condition::Bounds(vec![(Relation::AtLeast, number("1")), (Relation::Below, number("2"))]);
        let inside = Condition::Bounds(vec![(Relation::Above, number("1")), (Relation::AtMost, number("2"))]);
        let (is_there, is_not) = (Condition::Exists(true), Condition::Exists(false));
        for (value, answers) in [
            (None, [false, false, false, false, false, true]),
            (Some(text("a")), [true, false, false, false, true, false]),
            (Some(text("1")), [false, true, false, false, true, false]),
            (Some(value("1.0")), [true, true, true, false, true, false]),
            (Some(value("1.5")), [false, true, true, true, true, false]),
            (Some(value("2e0")), [false, true, false, true, true, false]),
            (Some(Scalar::Bool(true)), [true, true, false, false, true, false]),
        ] {
            let found = [&any, &none, &between, &inside, &is_there, &is_not].map(|condition| condition.holds(value.as_ref()));
            assert_eq!(found, answers, "{value:?}");
        }
    }
}
