//! Patterns: regular expressions of schemas, in our dialect.
//!
//! Owns: which patterns mean the same in ECMA-262 and in `regex`; all others are left to `jsonschema`.

use regex::Regex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Compiled patterns by their text: a catalogue has a few, in hundreds of fields.
#[derive(Default)]
pub(in crate::admit::validate) struct Patterns(BTreeMap<String, Option<Arc<Regex>>>);

impl Patterns {
    pub(super) fn get(&mut self, text: &str) -> Option<Arc<Regex>> {
        self.0.entry(text.to_owned()).or_insert_with(|| pattern(text).map(Arc::new)).clone()
    }
}

/// A pattern as a regex, if both dialects read it alike: plain signs, classes, repeats and `\s`.
fn pattern(text: &str) -> Option<Regex> {
    const SPACE: &str = r"[\t-\r \u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}]";
    if text.contains("(?") || text.contains("&&") || text.contains("--") || text.contains("~~") || text.contains("[[") {
        return None;
    }
    let mut ours = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                's' => ours.push_str(SPACE),
                'd' => ours.push_str("[0-9]"),
                sign if sign.is_ascii_punctuation() => ours.extend(['\\', sign]),
                _ => return None,
            },
            // In ECMAScript it excludes four line ends, in ours one.
            '.' => return None,
            plain => ours.push(plain),
        }
    }
    Regex::new(&ours).ok()
}
