//! The layers of the configuration, laid over each other, and where each value came from.

use super::{COMMENTED_DEFAULT, ConfigError, DEFAULT_DATA, defaults, lines};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

const PREFIX: &str = "FOREBAY__";

/// What a configuration is made of.
#[derive(Clone, Default, Debug)]
pub struct Inputs {
    pub file: Option<PathBuf>,
    /// Variables of the environment; others than `FOREBAY__…` are ignored.
    pub env: Vec<(String, String)>,
    /// Flag, the key it sets, its value.
    pub flags: Vec<(&'static str, &'static str, String)>,
    /// The file was written for another place of this folder: paths below the old one are read as below this one.
    pub moved_to: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    Default,
    File { name: String, line: usize },
    Env(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { name, line } => write!(f, "{name}, line {line}"),
            Origin::Env(name) => f.write_str(name),
            Origin::Flag(name) => f.write_str(name),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Layers {
    table: Table,
    origins: BTreeMap<String, Origin>,
    /// The file's name, when there is one.
    file: Option<String>,
    /// Variables whose text was read as a TOML value and may have been meant as text.
    guessed: BTreeMap<String, (Vec<String>, String)>,
}

impl Inputs {
    /// The process's environment.
    pub fn with_env(mut self) -> Inputs {
        self.env = std::env::vars().collect();
        self
    }
}

impl Layers {
    pub fn read(inputs: &Inputs) -> Result<Layers, ConfigError> {
        let mut layers = Layers { table: Table::new(), origins: BTreeMap::new(), file: None, guessed: BTreeMap::new() };
        if let Some(file) = &inputs.file {
            layers.file(file, inputs.moved_to.as_deref())?;
        }
        let mut env: Vec<_> = inputs.env.iter().filter_map(|(name, value)| Some((name, name.strip_prefix(PREFIX)?, value))).collect();
        // Items of a list in the order of their numbers.
        env.sort_by_key(|(_, key, _)| key.split("__").map(|k| k.parse::<usize>().map_or((1, 0, k), |n| (0, n, ""))).collect::<Vec<_>>());
        for (name, key, value) in env {
            layers.variable(name, key, value)?;
        }
        for (flag, key, value) in &inputs.flags {
            let keys: Vec<&str> = key.split('.').collect();
            set(&mut layers.table, &keys, Value::String(value.clone())).map_err(|message| error(*flag, key, message))?;
            layers.origins.insert((*key).to_owned(), Origin::Flag(flag));
        }
        let data = match layers.table.get("data") {
            None => DEFAULT_DATA,
            Some(data) => data.as_str().ok_or_else(|| layers.error_at("data", "expected the path of a folder"))?,
        };
        let data = std::path::absolute(data).map_err(|e| layers.error_at("data", &e.to_string()))?;
        let mut table = defaults(&data, &layers.table);
        layers.table.remove("data");
        merge(&mut table, std::mem::take(&mut layers.table));
        layers.table = table;
        Ok(layers)
    }

    fn file(&mut self, file: &Path, moved_to: Option<&Path>) -> Result<(), ConfigError> {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|e| error(&name, "", format!("cannot be read: {e}")))?;
        let text = lines::read(&text).map_err(|e| error(format!("{name}, line {}", e.line), "", e.message))?;
        self.table = text.table;
        self.file = Some(name.clone());
        self.origins = text.lines.into_iter().map(|(path, line)| (path, Origin::File { name: name.clone(), line })).collect();
        if let (Some(to), Some(Value::String(from))) = (moved_to, self.table.get("data").cloned()) {
            let mut value = Value::Table(std::mem::take(&mut self.table));
            rebase(&mut value, Path::new(&from), to);
            self.table = value.try_into().expect("it was a table");
        }
        Ok(())
    }

    fn variable(&mut self, name: &str, key: &str, text: &str) -> Result<(), ConfigError> {
        let keys: Vec<String> = key.split("__").map(str::to_lowercase).collect();
        let path = keys.iter().fold(String::new(), |path, key| match key.parse::<usize>() {
            Ok(n) => format!("{path}[{n}]"),
            Err(_) if path.is_empty() => key.clone(),
            Err(_) => format!("{path}.{key}"),
        });
        let value = toml::from_str::<Table>(&format!("v = {text}")).ok().and_then(|mut t| t.remove("v")).filter(|v| !v.is_str());
        if value.is_some() {
            self.guessed.insert(path.clone(), (keys.clone(), text.to_owned()));
        }
        let borrowed: Vec<&str> = keys.iter().map(String::as_str).collect();
        set(&mut self.table, &borrowed, value.unwrap_or_else(|| Value::String(unquoted(text))))
            .map_err(|message| error(name, &path, message))?;
        self.origins.insert(path, Origin::Env(name.to_owned()));
        Ok(())
    }

    /// Reads everything as `T`; an error names where its key was written.
    pub fn deserialize<T: DeserializeOwned>(&mut self) -> Result<T, ConfigError> {
        loop {
            let failed = match serde_path_to_error::deserialize(Value::Table(self.table.clone())) {
                Ok(read) => return Ok(read),
                Err(failed) => failed,
            };
            let path = failed.path().to_string();
            // `FOREBAY__GATEWAY__NAME=123` is a name after all.
            if let Some((keys, text)) = self.guessed.remove(&path) {
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                set(&mut self.table, &keys, Value::String(text)).expect("it was set before");
                continue;
            }
            return Err(self.error_at(&path, &explain(&path, failed.inner().message())));
        }
    }

    /// Where the value of `path` was written.
    pub fn origin(&self, path: &str) -> Origin {
        self.origins.get(path).cloned().unwrap_or(Origin::Default)
    }

    /// Where `path` or, if it was not written itself, something in it or the nearest section around it was.
    fn nearest(&self, path: &str) -> Origin {
        let within = |key: &str| key.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '[']));
        if let (false, Some((_, origin))) = (self.origins.contains_key(path), self.origins.iter().find(|(key, _)| within(key))) {
            return origin.clone();
        }
        let mut path = path;
        loop {
            match (self.origins.get(path), path.rfind(['.', '['])) {
                (Some(origin), _) => return origin.clone(),
                (None, Some(at)) => path = &path[..at],
                (None, None) => return Origin::Default,
            }
        }
    }

    pub fn error_at(&self, path: &str, message: &str) -> ConfigError {
        let place = match (self.nearest(path), &self.file) {
            (Origin::Default, Some(file)) => file.clone(),
            (origin, _) => origin.to_string(),
        };
        error(place, path, message)
    }
}

fn error(place: impl Into<String>, key: &str, message: impl Into<String>) -> ConfigError {
    ConfigError { place: place.into(), key: key.to_owned(), message: message.into() }
}

/// `"text"` in a variable means text.
fn unquoted(text: &str) -> String {
    toml::from_str::<Table>(&format!("v = {text}")).ok().and_then(|t| t["v"].as_str().map(str::to_owned)).unwrap_or_else(|| text.to_owned())
}

/// What `key` is put into: a list when it is a number.
fn holder(key: &str) -> Value {
    if key.parse::<usize>().is_ok() { Value::Array(Vec::new()) } else { Value::Table(Table::new()) }
}

/// An item that is there, or the next one, which is to hold `next`.
fn item<'a>(items: &'a mut Vec<Value>, n: usize, next: &str) -> Result<&'a mut Value, String> {
    if n == items.len() {
        items.push(holder(next));
    }
    items.get_mut(n).ok_or_else(|| format!("there is no item {n}"))
}

/// Sets a key, making tables and lists on the way. A number names an item of a list, or the next one.
pub fn set(table: &mut Table, keys: &[&str], value: Value) -> Result<(), String> {
    let (last, above) = keys.split_last().ok_or("no key")?;
    if above.is_empty() {
        table.insert((*last).to_owned(), value);
        return Ok(());
    }
    let mut at = table.entry(above[0]).or_insert_with(|| holder(keys[1]));
    for (key, next) in above[1..].iter().zip(&keys[2..]) {
        at = match (at, key.parse::<usize>()) {
            (Value::Array(items), Ok(n)) => item(items, n, next)?,
            (Value::Table(table), _) => table.entry(*key).or_insert_with(|| holder(next)),
            _ => return Err("a key in something that is no section".to_owned()),
        };
    }
    match (at, last.parse::<usize>()) {
        (Value::Array(items), Ok(n)) => *item(items, n, "")? = value,
        (Value::Table(table), _) => {
            table.insert((*last).to_owned(), value);
        }
        _ => return Err("a key in something that is no section".to_owned()),
    }
    Ok(())
}

fn merge(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

fn rebase(value: &mut Value, from: &Path, to: &Path) {
    match value {
        Value::String(text) => {
            if let Ok(rest) = Path::new(text.as_str()).strip_prefix(from) {
                *text = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) }.display().to_string();
            }
        }
        Value::Table(table) => table.iter_mut().for_each(|(_, value)| rebase(value, from, to)),
        Value::Array(items) => items.iter_mut().for_each(|value| rebase(value, from, to)),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

/// serde's words for a person who wrote a file; an unknown key gets a suggestion.
fn explain(path: &str, message: &str) -> String {
    if !message.starts_with("unknown field") {
        return message.to_owned();
    }
    let key = path.rsplit('.').next().unwrap_or(path);
    let known: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
    let nearest = known.iter().map(|known| (distance(key, known), known)).min();
    match nearest {
        Some((distance, nearest)) if distance <= (nearest.len() / 3).max(1) => format!("unknown key; did you mean `{nearest}`?"),
        Some(_) => {
            let elsewhere = keys_called(key).map_or_else(String::new, |found| format!(" here; there is {found}"));
            format!("unknown key{elsewhere}; known are {}", known.join(", "))
        }
        None => "unknown key".to_owned(),
    }
}

/// Keys of this name in other sections. The commented default has every key.
fn keys_called(name: &str) -> Option<String> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in COMMENTED_DEFAULT.lines() {
        let line = line.trim_start_matches("# ");
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = header.trim_start_matches('[').to_owned();
        } else if let Some((key, _)) = line.split_once(" = ").filter(|(key, _)| !key.contains(' ') && key.rsplit('.').next() == Some(name))
        {
            found.push(if section.is_empty() { format!("`{key}`") } else { format!("`{section}.{key}`") });
        }
    }
    (1..=2).contains(&found.len()).then(|| found.join(" and "))
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
