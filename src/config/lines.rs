//! A TOML text as values, and the line on which each key stands.

use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

pub struct Text {
    pub table: toml::Table,
    /// By dotted path, `source[1].name` for the members of arrays.
    pub lines: BTreeMap<String, usize>,
}

/// Not TOML: the line and what is wrong on it.
pub struct SyntaxError {
    pub line: usize,
    pub message: String,
}

pub fn read(text: &str) -> Result<Text, SyntaxError> {
    let line_at = |at: usize| text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1;
    let syntax = |e: toml::de::Error| SyntaxError { line: e.span().map_or(1, |span| line_at(span.start)), message: e.message().to_owned() };
    let parsed = DeTable::parse(text).map_err(syntax)?;
    let mut lines = BTreeMap::new();
    members(parsed.get_ref(), "", &line_at, &mut lines);
    Ok(Text { table: toml::from_str(text).map_err(syntax)?, lines })
}

fn members(table: &DeTable<'_>, above: &str, line_at: &dyn Fn(usize) -> usize, lines: &mut BTreeMap<String, usize>) {
    for (key, value) in table {
        let path = if above.is_empty() { key.get_ref().to_string() } else { format!("{above}.{}", key.get_ref()) };
        lines.insert(path.clone(), line_at(key.span().start));
        walk(value.get_ref(), &path, line_at, lines);
    }
}

fn walk(value: &DeValue<'_>, path: &str, line_at: &dyn Fn(usize) -> usize, lines: &mut BTreeMap<String, usize>) {
    if let Some(table) = value.as_table() {
        members(table, path, line_at, lines);
    }
    for (n, item) in value.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}[{n}]");
        lines.insert(path.clone(), line_at(item.span().start));
        walk(item.get_ref(), &path, line_at, lines);
    }
}
