//! `[[window]]` as it is written, and the declaration that it means.
//!
//! Owns: the keys, how times and conditions are written, what goes with which kind. Does not own: what a declaration means
//! (the core), the catalogue.

use super::micros;
use forebay_enricher_core::combine::window::condition::{Condition, Literal, Relation};
use forebay_enricher_core::combine::window::declare::{Declaration, Kind, WindowError};
use forebay_enricher_core::combine::window::number::Decimal;
use forebay_schemas::quantity::Span;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WindowConfig {
    /// Names it in its results and in state, for good.
    pub uid: String,
    pub kind: WindowKind,
    /// How long a tumbling or sliding window is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Span>,
    /// How far a sliding window moves; it divides the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slide: Option<Span>,
    /// A session ends this long after its last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Span>,
    /// By whose clocks windows of hours and days begin. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Fields of the event by path; each combination of their values has windows of its own. None: all events share them.
    #[serde(default)]
    pub key: Vec<String>,
    /// Conditions by path; all of them must hold.
    #[serde(default, rename = "where")]
    pub conditions: BTreeMap<String, ConditionConfig>,
    /// Values by name: `count`, `sum(properties.price)` … Default: `count`.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// How long after its end a window still takes events, in log time.
    #[serde(default = "at_once")]
    pub lateness: Span,
    /// When results are told.
    #[serde(default)]
    pub emit: Emit,
}

/// `"final"`, or `{ update = "10s" }`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Emit {
    /// When a window ends, and again when something changes within its lateness.
    #[default]
    Final,
    /// This often before that too, if something is new.
    Update(Span),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowKind {
    Tumbling,
    Sliding,
    Session,
}

/// A value, a list of values, or a table of `lt`, `le`, `ge`, `gt`, `not`, `exists`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct ConditionConfig(Value);

impl WindowConfig {
    pub fn declaration(&self) -> Result<Declaration, WindowError> {
        let conditions = self.conditions.iter().map(|(path, condition)| {
            let condition = condition.read().map_err(|what| WindowError { key: "where", what: format!("{path}: {what}") })?;
            Ok((path.clone(), condition))
        });
        Ok(Declaration {
            uid: self.uid.clone(),
            kind: self.kind()?,
            key: self.key.clone(),
            conditions: conditions.collect::<Result<_, WindowError>>()?,
            values: self.values.clone(),
            lateness_micros: micros(self.lateness.0),
            update_micros: match self.emit {
                Emit::Final => None,
                Emit::Update(every) => Some(micros(every.0)),
            },
        })
    }

    fn kind(&self) -> Result<Kind, WindowError> {
        let needed = |key: &'static str, span: Option<Span>| match span {
            Some(span) => Ok(micros(span.0)),
            None => fail(key, "is missing: this kind of window has one"),
        };
        let given =
            [("size", self.size.is_some()), ("slide", self.slide.is_some()), ("gap", self.gap.is_some()), ("zone", self.zone.is_some())];
        let (kind, takes): (Kind, &[&str]) = match self.kind {
            WindowKind::Tumbling => {
                (Kind::Tumbling { size_micros: needed("size", self.size)?, zone: self.zone.clone() }, &["size", "zone"])
            }
            WindowKind::Sliding => {
                let (size_micros, slide_micros) = (needed("size", self.size)?, needed("slide", self.slide)?);
                (Kind::Sliding { size_micros, slide_micros, zone: self.zone.clone() }, &["size", "slide", "zone"])
            }
            WindowKind::Session => (Kind::Session { gap_micros: needed("gap", self.gap)? }, &["gap"]),
        };
        match given.iter().find(|(key, given)| *given && !takes.contains(key)) {
            Some((key, _)) => fail(key, "does not go with this kind of window: remove it"),
            None => Ok(kind),
        }
    }
}

impl ConditionConfig {
    fn read(&self) -> Result<Condition, String> {
        match &self.0 {
            Value::Array(values) => Ok(Condition::AnyOf(literals(values)?)),
            Value::Object(members) => {
                let members: Vec<_> = members.iter().collect();
                match members.as_slice() {
                    [(name, Value::Bool(wanted))] if *name == "exists" => Ok(Condition::Exists(*wanted)),
                    [(name, Value::Array(values))] if *name == "not" => Ok(Condition::NoneOf(literals(values)?)),
                    [(name, value)] if *name == "not" => Ok(Condition::NoneOf(vec![literal(value)?])),
                    [] => Err(expected()),
                    _ => {
                        let mut bounds = members.into_iter().map(|(name, value)| bound(name, value)).collect::<Result<Vec<_>, _>>()?;
                        bounds.sort_by_key(|(relation, _)| relation.name());
                        Ok(Condition::Bounds(bounds))
                    }
                }
            }
            value => Ok(Condition::AnyOf(vec![literal(value)?])),
        }
    }
}

fn bound(name: &str, value: &Value) -> Result<(Relation, Decimal), String> {
    let relation = Relation::ALL.into_iter().find(|relation| relation.name() == name).ok_or_else(expected)?;
    match literal(value)? {
        Literal::Number(number) => Ok((relation, number)),
        Literal::Text(_) | Literal::Bool(_) => Err(format!("{name} compares numbers")),
    }
}

fn literals(values: &[Value]) -> Result<Vec<Literal>, String> {
    if values.is_empty() {
        return Err("an empty list: nothing could be one of it".to_owned());
    }
    values.iter().map(literal).collect()
}

fn literal(value: &Value) -> Result<Literal, String> {
    match value {
        Value::String(text) => Ok(Literal::Text(text.clone())),
        Value::Bool(truth) => Ok(Literal::Bool(*truth)),
        Value::Number(number) => Decimal::parse(&number.to_string()).map(Literal::Number).ok_or_else(|| format!("{number} is too large")),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(expected()),
    }
}

fn expected() -> String {
    "expected a value, a list of values, { not = … }, { exists = true } or bounds like { ge = 10, lt = 20 }".to_owned()
}

fn fail<T>(key: &'static str, what: &str) -> Result<T, WindowError> {
    Err(WindowError { key, what: what.to_owned() })
}

fn at_once() -> Span {
    Span(std::time::Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Declaration, String> {
        let config: WindowConfig = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let written = serde_json::to_value(&config).expect("serialises");
        assert_eq!(serde_json::from_value::<WindowConfig>(written).expect("reads again"), config);
        config.declaration().map_err(|error| error.to_string())
    }

    #[test]
    fn a_window_is_declared() {
        let declaration = read(json!({
            "uid": "w", "kind": "sliding", "size": "1h", "slide": "5m", "zone": "UTC", "key": ["page.path"], "lateness": "10m",
            "where": {"a": "x", "b": ["x", 2, true], "c": {"not": "x"}, "d": {"not": ["x"]}, "e": {"exists": false}, "f": {"ge": 1.5, "lt": 2}},
            "values": {"n": "count"},
        }))
        .expect("a window");
        let number = |text: &str| Decimal::parse(text).expect("a number");
        let text = || Literal::Text("x".into());
        assert_eq!(declaration.kind, Kind::Sliding { size_micros: 3_600_000_000, slide_micros: 300_000_000, zone: Some("UTC".into()) });
        assert_eq!(declaration.lateness_micros, 600_000_000);
        let conditions: Vec<Condition> = declaration.conditions.into_values().collect();
        assert_eq!(
            conditions,
            [
                Condition::AnyOf(vec![text()]),
                Condition::AnyOf(vec![text(), Literal::Number(number("2")), Literal::Bool(true)]),
                Condition::NoneOf(vec![text()]),
                Condition::NoneOf(vec![text()]),
                Condition::Exists(false),
                Condition::Bounds(vec![(Relation::AtLeast, number("1.5")), (Relation::Below, number("2"))]),
            ]
        );
        let session =
            read(json!({"uid": "s", "kind": "session", "gap": "30m", "key": ["user_id"], "emit": {"update": "10s"}})).expect("a window");
        assert_eq!(session.update_micros, Some(10_000_000));
        assert_eq!((session.kind, session.lateness_micros), (Kind::Session { gap_micros: 1_800_000_000 }, 0));
    }

    #[test]
    fn what_does_not_go_together_is_said_with_its_key() {
        let with = |name: &str, value: Value| {
            let mut window = json!({"uid": "w", "kind": "tumbling", "size": "1m"});
            window[name] = value;
            read(window).expect_err("refused")
        };
        for (error, part) in [
            (with("kind", json!("hopping")), "unknown variant `hopping`"),
            (with("size", json!("1")), "quantity"),
            (with("slides", json!("1m")), "unknown field `slides`"),
            (with("kind", json!("sliding")), "slide: is missing"),
            (with("kind", json!("session")), "gap: is missing"),
            (with("emit", json!("often")), "unknown variant `often`"),
            (with("gap", json!("1m")), "gap: does not go with this kind"),
            (with("slide", json!("1m")), "slide: does not go with this kind"),
            (with("where", json!({"a": []})), "where: a: an empty list"),
            (with("where", json!({"a": {}})), "where: a: expected a value"),
            (with("where", json!({"a": {"like": "x"}})), "where: a: expected a value"),
            (with("where", json!({"a": {"ge": "x"}})), "where: a: ge compares numbers"),
            (with("where", json!({"a": {"ge": 1e30}})), "where: a: 1e+30 is too large"),
            (with("where", json!({"a": {"exists": true, "ge": 1}})), "where: a: expected a value"),
        ] {
            assert!(error.contains(part), "{error} instead of {part}");
        }
        assert!(read(json!({"kind": "tumbling", "size": "1m"})).expect_err("refused").contains("missing field `uid`"));
    }
}
