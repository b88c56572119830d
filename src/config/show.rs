//! Effective values, one a line, with where each comes from. Secrets are hidden.

use super::RawConfig;
use super::layers::{Layers, Origin};
use toml::{Table, Value};

#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    pub key: String,
    /// As TOML writes it.
    pub value: String,
    pub origin: Origin,
}

pub fn settings(config: &RawConfig, layers: &Layers) -> Vec<Setting> {
    let table = Table::try_from(config).expect("what was read can be written");
    let mut found = Vec::new();
    walk("", &Value::Table(table), &mut |key, value| {
        let value = if is_secret(key) { "(hidden)".to_owned() } else { value.to_string() };
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
