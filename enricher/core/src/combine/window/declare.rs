//! A window as it is declared, checked against the catalogue and made ready for events.
//!
//! Owns: what a declaration may say, which events a window takes, under which key, what of them is kept and how it is told.
//! Does not own: how a declaration is written (the configuration), time and state (`panes`, `sessions`).
//! Invariant: a window that was made asks only for fields that may pass; the same declaration is the same fingerprint.

use super::Told;
use super::aggregate::Aggregate;
use super::condition::{Condition, Literal};
use super::field::{Field, FieldError, View};
use super::grid::{Grid, GridError, Moved};
use super::measure::{Kept, Measure, Numbers};
use super::pane::Columns;
use super::panes::Panes;
use super::sessions::Sessions;
use super::sketch::{self, Sketch};
use super::zone::Zone;
use forebay_schemas::catalog::Catalog;
use forebay_schemas::json;
use forebay_schemas::limit;
use forebay_schemas::time::Micros;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Raised when a window that is declared alike means something else.
const MEANING: u32 = 1;
const EVENT_TYPE: &str = "event_type";
/// Whose events stand in one partition.
const IDENTITIES: [&str; 2] = ["anonymous_id", "user_id"];

/// A window as somebody wants it. Times are microseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Declaration {
    /// Names the window in its results and in state.
    pub uid: String,
    pub kind: Kind,
    /// Paths of the key's fields.
    pub key: Vec<String>,
    /// By path; all of them must hold.
    pub conditions: BTreeMap<String, Condition>,
    /// By name in the result: `count`, `sum(properties.price)` …
    pub values: BTreeMap<String, String>,
    pub lateness_micros: i64,
    /// How often a window with something new in it is told before it ends; `None`: when it ends.
    pub update_micros: Option<i64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    Tumbling { size_micros: i64, zone: Option<String> },
    Sliding { size_micros: i64, slide_micros: i64, zone: Option<String> },
    Session { gap_micros: i64 },
}

/// A declaration that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key}: {what}")]
pub struct WindowError {
    /// Of the declaration.
    pub key: &'static str,
    pub what: String,
}

#[derive(Clone, Debug)]
pub struct Window {
    pub uid: String,
    /// The declaration as JSON text; another meaning is another text. Persisted.
    pub meaning: String,
    pub operator: Operator,
    /// Of the meaning and, where a zone bounds the window, of the version of its rules; each of windows that begin before a time.
    fingerprints: Vec<(Micros, String)>,
    /// In the order of their paths.
    key: Vec<Field>,
    /// Those on the event's type come first.
    conditions: Vec<(Field, Condition)>,
    columns: Vec<Column>,
    /// Name, measure, its column.
    values: Vec<(String, Measure, usize)>,
}

#[derive(Clone, Debug)]
pub enum Operator {
    /// Its keys span partitions: a task places its events, the key's owner adds them.
    Panes(Panes),
    /// Its keys do not.
    Sessions(Sessions),
}

/// What is kept of an event, for one or more of the values.
#[derive(Clone, Debug)]
enum Column {
    Events,
    /// Of events that have the field.
    Present(Field),
    Numbers(Field),
    Sketch(sketch::Kind, Field),
}

/// What a window takes of an event.
#[derive(Clone, PartialEq, Debug)]
pub struct Taken {
    /// JSON text of an object.
    pub key: String,
    pub kept: Vec<Kept>,
}

/// Windows that stand beside each other. The error says which of `declared` cannot be one.
pub fn windows(declared: &[Declaration], catalog: &Catalog) -> Result<Vec<Window>, (usize, WindowError)> {
    let windows = declared.iter().enumerate().map(|(n, declaration)| Window::new(declaration, catalog).map_err(|error| (n, error)));
    let windows: Vec<Window> = windows.collect::<Result<_, _>>()?;
    for (n, window) in windows.iter().enumerate() {
        if windows[..n].iter().any(|other| other.uid == window.uid) {
            return Err((n, WindowError { key: "uid", what: format!("another window is named {} already", window.uid) }));
        }
    }
    Ok(windows)
}

impl Window {
    pub fn new(declaration: &Declaration, catalog: &Catalog) -> Result<Window, WindowError> {
        let Declaration { uid, kind, key, conditions, values, lateness_micros, update_micros } = declaration;
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if uid.is_empty() || uid.len() > limit::WINDOW_UID_BYTES || !uid.chars().all(named) {
            return fail("uid", "expected 1 to 64 letters, digits, hyphens, underscores and dots");
        }
        let types = types(conditions, catalog)?;
        let field = |at: &'static str, path: &str| Field::new(path, &types, catalog).map_err(|error| of_field(at, &error));
        let mut all: Vec<Field> = key.iter().map(|path| field("key", path)).collect::<Result<_, _>>()?;
        all.sort_by(|one, other| one.path.cmp(&other.path));
        if all.windows(2).any(|two| two[0].path == two[1].path) {
            return fail("key", "names a field twice");
        }
        if all.len() > limit::WINDOW_KEY_FIELDS {
            return fail("key", &format!("has at most {} fields", limit::WINDOW_KEY_FIELDS));
        }
        let mut checks = Vec::new();
        for (path, condition) in conditions {
            checks.push((field("where", path)?, condition.clone()));
        }
        checks.sort_by_key(|(field, _)| field.path != EVENT_TYPE);
        let (columns, values) = columns(values, &field)?;
        let kinds: Columns = columns.iter().map(Column::sketch).collect();
        let operator = operator(kind, *lateness_micros, *update_micros, key, kinds)?;
        let meaning = declaration.meaning();
        let fingerprints = fingerprints(&meaning, &operator);
        Ok(Window { uid: uid.clone(), meaning, operator, fingerprints, key: all, conditions: checks, columns, values })
    }

    /// The zone whose clocks bound it.
    pub fn zone(&self) -> Option<&Zone> {
        match &self.operator {
            Operator::Panes(panes) => panes.grid.zone(),
            Operator::Sessions(_) => None,
        }
    }

    /// This one in the place of one that went by the rules of `known`: see `Panes::succeed`.
    pub fn succeed(&self, known: &Zone, since: Option<Micros>, watermark: Micros, now: Micros) -> Result<Window, Moved> {
        let operator = match &self.operator {
            Operator::Panes(panes) => Operator::Panes(panes.succeed(known, since, watermark, now)?),
            Operator::Sessions(_) => return Ok(self.clone()),
        };
        Ok(Window { fingerprints: fingerprints(&self.meaning, &operator), operator, ..self.clone() })
    }

    /// Of a window that begins at `start`.
    pub fn fingerprint(&self, start: Micros) -> &str {
        let n = self.fingerprints.partition_point(|(until, _)| *until <= start).min(self.fingerprints.len() - 1);
        &self.fingerprints[n].1
    }

    /// What it takes of the event, if it takes it.
    pub fn take(&self, event: &View<'_>) -> Option<Taken> {
        if !self.conditions.iter().all(|(field, condition)| condition.holds(field.read(event).as_ref())) {
            return None;
        }
        if let Operator::Sessions(_) = self.operator
            && !IDENTITIES.iter().any(|identity| self.has(identity, event))
        {
            return None;
        }
        let mut key = String::from("{");
        for (n, field) in self.key.iter().enumerate() {
            if n > 0 {
                key.push(',');
            }
            json::write_string(&field.path, &mut key);
            key.push(':');
            match field.read(event) {
                Some(value) => value.write(&mut key),
                None => key.push_str("null"),
            }
        }
        key.push('}');
        let kept = self.columns.iter().map(|column| column.kept(event)).collect();
        Some(Taken { key, kept })
    }

    fn has(&self, path: &str, event: &View<'_>) -> bool {
        self.key.iter().any(|field| field.path == path && field.read(event).is_some())
    }

    /// The values of a result: JSON text of an object.
    pub fn values(&self, told: &Told) -> String {
        let mut out = String::from("{");
        for (n, (name, measure, column)) in self.values.iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            json::write_string(name, &mut out);
            out.push(':');
            match told.kept.get(*column) {
                Some(kept) => kept.write(*measure, &mut out),
                None => out.push_str("null"),
            }
        }
        out.push('}');
        out
    }

    /// How many numbers are kept of its events.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }
}

impl Column {
    fn kept(&self, event: &View<'_>) -> Kept {
        match self {
            Column::Events => Kept::Numbers(Numbers::of_an_event()),
            Column::Present(field) => Kept::Numbers(field.read(event).map_or_else(Numbers::default, |_| Numbers::of_an_event())),
            Column::Numbers(field) => {
                Kept::Numbers(field.read(event).and_then(|value| value.number()).map_or_else(Numbers::default, Numbers::of))
            }
            Column::Sketch(kind, field) => {
                let mut sketch = Sketch::new(*kind);
                if let Some(value) = field.read(event) {
                    match (kind, value.number()) {
                        (sketch::Kind::Quantiles, Some(number)) => sketch.add(sketch::Value::Number(number)),
                        // A text in it fits: longer ones are hashes.
                        (sketch::Kind::Distinct | sketch::Kind::Top, _) => sketch.add(sketch::Value::Text(&value.text())),
                        (sketch::Kind::Quantiles, None) => false,
                    };
                }
                Kept::Sketch(sketch)
            }
        }
    }
}

fn fail<T>(key: &'static str, what: &str) -> Result<T, WindowError> {
    Err(WindowError { key, what: what.to_owned() })
}

fn of_field(key: &'static str, error: &FieldError) -> WindowError {
    WindowError { key, what: error.to_string() }
}

fn hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// By the versions of the zone's rules.
fn fingerprints(meaning: &str, operator: &Operator) -> Vec<(Micros, String)> {
    match operator {
        Operator::Panes(Panes { grid: Grid::Civil(civil), .. }) => {
            civil.zone.versions().map(|(until, version)| (until, hash(&[meaning, version]))).collect()
        }
        Operator::Panes(_) | Operator::Sessions(_) => vec![(Micros(i64::MAX), hash(&[meaning, ""]))],
    }
}

/// The event types that the conditions name; none: all.
fn types<'d>(conditions: &'d BTreeMap<String, Condition>, catalog: &Catalog) -> Result<Vec<&'d str>, WindowError> {
    let Some(Condition::AnyOf(literals)) = conditions.get(EVENT_TYPE) else { return Ok(Vec::new()) };
    let of = |literal: &'d Literal| match literal {
        Literal::Text(name) if catalog.get(name).is_some() => Ok(name.as_str()),
        Literal::Text(name) => fail("where", &format!("the catalogue has no event type {name}")),
        Literal::Number(_) | Literal::Bool(_) => fail("where", "event_type is a text"),
    };
    literals.iter().map(of).collect()
}

impl Declaration {
    fn meaning(&self) -> String {
        let Declaration { uid: _, kind, key, conditions, values, lateness_micros, update_micros } = self;
        let mut key = key.clone();
        key.sort();
        let conditions: BTreeMap<&String, Value> = conditions.iter().map(|(path, condition)| (path, condition.to_json())).collect();
        let mut meaning = json!({"version": MEANING, "key": key, "where": conditions, "values": values, "lateness": lateness_micros});
        if let Some(every) = update_micros {
            meaning["update"] = json!(every);
        }
        match kind {
            Kind::Tumbling { size_micros, zone } => {
                meaning["tumbling"] = json!({"size": size_micros, "zone": zone});
            }
            Kind::Sliding { size_micros, slide_micros, zone } => {
                meaning["sliding"] = json!({"size": size_micros, "slide": slide_micros, "zone": zone});
            }
            Kind::Session { gap_micros } => meaning["session"] = json!({"gap": gap_micros}),
        }
        // Members in the order of their names.
        let members: BTreeMap<String, Value> = serde_json::from_value(meaning).unwrap_or_default();
        serde_json::to_string(&members).unwrap_or_default()
    }
}

fn operator(
    kind: &Kind,
    lateness_micros: i64,
    update_micros: Option<i64>,
    key: &[String],
    columns: Columns,
) -> Result<Operator, WindowError> {
    let within = |key: &'static str, micros: i64, least: i64| match micros {
        micros if micros < least => fail(key, "is too short: at least 1s"),
        micros if micros > limit::WINDOW_MICROS => fail(key, "is too long: at most 400d"),
        micros => Ok(micros),
    };
    within("lateness", lateness_micros, 0)?;
    update_micros.map(|every| within("emit", every, limit::WINDOW_MICROS_MIN)).transpose()?;
    let grid = |key: &'static str, micros: i64, zone: &Option<String>| {
        let micros = within(key, micros, limit::WINDOW_MICROS_MIN)?;
        Grid::new(micros, zone.as_deref()).map_err(|error| {
            let key = if matches!(error, GridError::Zone(_)) { "zone" } else { key };
            WindowError { key, what: error.to_string() }
        })
    };
    match kind {
        Kind::Tumbling { size_micros, zone } => {
            Ok(Operator::Panes(Panes { grid: grid("size", *size_micros, zone)?, panes: 1, lateness_micros, update_micros, columns }))
        }
        Kind::Sliding { size_micros, slide_micros, zone } => {
            let size = within("size", *size_micros, limit::WINDOW_MICROS_MIN)?;
            let grid = grid("slide", *slide_micros, zone)?;
            let panes = usize::try_from(size / slide_micros).unwrap_or(usize::MAX);
            if size % slide_micros != 0 || panes > limit::WINDOW_PANES {
                return fail("slide", &format!("divides size, into at most {} parts", limit::WINDOW_PANES));
            }
            Ok(Operator::Panes(Panes { grid, panes, lateness_micros, update_micros, columns }))
        }
        Kind::Session { gap_micros } => {
            let gap_micros = within("gap", *gap_micros, limit::WINDOW_MICROS_MIN)?;
            if !key.iter().any(|path| IDENTITIES.contains(&path.as_str())) {
                return fail("key", "a session is somebody's: name anonymous_id or user_id among the key's fields");
            }
            Ok(Operator::Sessions(Sessions { gap_micros, lateness_micros, update_micros, columns }))
        }
    }
}

/// What is kept, and what is told of it.
type Kepts = (Vec<Column>, Vec<(String, Measure, usize)>);

fn columns(
    declared: &BTreeMap<String, String>,
    field: &dyn Fn(&'static str, &str) -> Result<Field, WindowError>,
) -> Result<Kepts, WindowError> {
    if declared.len() > limit::WINDOW_VALUES {
        return fail("values", &format!("has at most {} values", limit::WINDOW_VALUES));
    }
    let of_events = BTreeMap::from([("count".to_owned(), "count".to_owned())]);
    let declared = if declared.is_empty() { &of_events } else { declared };
    let (mut columns, mut values) = (Vec::<Column>::new(), Vec::new());
    for (name, text) in declared {
        let Aggregate { measure, path } = text.parse().map_err(|what| WindowError { key: "values", what: format!("{name}: {what}") })?;
        let column = match path {
            None => Column::Events,
            Some(path) => {
                let field = field("values", &path)?;
                match measure {
                    Measure::Count => Column::Present(field),
                    Measure::Distinct => Column::Sketch(sketch::Kind::Distinct, field),
                    Measure::Top(_) => Column::Sketch(sketch::Kind::Top, field),
                    Measure::Quantile(_) if field.can_be_a_number() => Column::Sketch(sketch::Kind::Quantiles, field),
                    Measure::Sum | Measure::Min | Measure::Max | Measure::Mean if field.can_be_a_number() => Column::Numbers(field),
                    Measure::Sum | Measure::Min | Measure::Max | Measure::Mean | Measure::Quantile(_) => {
                        return fail("values", &format!("{name}: {path} passes as a token, never as a number"));
                    }
                }
            }
        };
        let place = columns.iter().position(|known| known.is(&column)).unwrap_or_else(|| {
            columns.push(column);
            columns.len() - 1
        });
        values.push((name.clone(), measure, place));
    }
    Ok((columns, values))
}

impl Column {
    fn sketch(&self) -> Option<sketch::Kind> {
        match self {
            Column::Sketch(kind, _) => Some(*kind),
            Column::Events | Column::Present(_) | Column::Numbers(_) => None,
        }
    }

    fn is(&self, other: &Column) -> bool {
        match (self, other) {
            (Column::Events, Column::Events) => true,
            (Column::Present(one), Column::Present(other)) | (Column::Numbers(one), Column::Numbers(other)) => one.path == other.path,
            (Column::Sketch(one, of), Column::Sketch(other, also_of)) => one == other && of.path == also_of.path,
            (Column::Events | Column::Present(_) | Column::Numbers(_) | Column::Sketch(..), _) => false,
        }
    }
}

#[cfg(test)]
mod tests;
