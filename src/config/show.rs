//! Effective values, one a line, with where each comes from. Secrets are hidden.

use super::RawConfig;
use super::layers::{Layers, Origin};
use toml::{Table, Value};

const HIDDEN: &str = "(hidden)";

#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    pub key: String,
    /// `None`: a secret, which nobody is shown.
    pub value: Option<Value>,
    pub origin: Origin,
}

impl Setting {
    /// As a TOML file has it.
    pub fn text(&self) -> String {
        self.value.as_ref().map_or_else(|| HIDDEN.to_owned(), Value::to_string)
    }
    pub fn to_json(&self) -> serde_json::Value {
        let value = self.value.as_ref().map_or_else(|| HIDDEN.into(), json);
        serde_json::json!({"key": self.key, "value": value, "origin": self.origin.to_string()})
    }
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Boolean(truth) => (*truth).into(),
        Value::Datetime(time) => time.to_string().into(),
        Value::Array(items) => items.iter().map(json).collect(),
        Value::Table(table) => table.iter().map(|(key, value)| (key.clone(), json(value))).collect::<serde_json::Map<_, _>>().into(),
    }
}

pub fn settings(config: &RawConfig, layers: &Layers) -> Vec<Setting> {
    let table = Table::try_from(config).expect("what was read can be written");
    let mut found = Vec::new();
    walk("", &Value::Table(table), &mut |key, value| {
        let value = (!is_secret(key)).then(|| value.clone());
        found.push(Setting { key: key.to_owned(), value, origin: layers.origin(key) });
    });
    found
}

fn walk(path: &str, value: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                walk(&if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, value, visit);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_table) => {
            for (n, value) in items.iter().enumerate() {
                walk(&format!("{path}[{n}]"), value, visit);
            }
        }
        Value::Array(_) | Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
            visit(path, value)
        }
    }
}

/// Secrets come by `…_file`; whatever else is called like one is not shown.
fn is_secret(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key);
    !last.ends_with("_file") && ["password", "secret", "token", "private"].iter().any(|word| last.contains(word))
}
