//! The secrets that masking stands on: a ring of named keys, each valid from a moment on.
//!
//! Owns: the ring, its file format, which key a receiving time selects. Does not own: key derivation and tokens
//! (`admit::mask::token`), sealing keys (`seal`), reading files.
//! Invariants: a ring has at least one key; names are unique; no `Debug` or error shows a secret.

use crate::seal::BadPublicKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use forebay_schemas::time::Micros;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Everything that a pipeline needs to mask and to seal.
#[derive(Clone, Debug)]
pub struct Keys {
    pub mask: KeyRing,
    /// Source name → group name; a source that is not here is in the group `default`.
    pub groups: BTreeMap<String, String>,
    pub bad: BadPublicKey,
}

pub const DEFAULT_GROUP: &str = "default";

#[derive(Clone)]
pub(crate) struct MaskKey {
    pub(crate) name: String,
    pub(crate) from: Micros,
    pub(crate) secret: [u8; 32],
}

/// Masking keys in the order of their validity.
#[derive(Clone)]
pub struct KeyRing {
    keys: Vec<MaskKey>,
}

/// A key file that cannot be used; never quotes the file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("key file, line {line}: {what}")]
pub struct KeyError {
    pub line: usize,
    pub what: &'static str,
}

impl KeyRing {
    /// Reads a ring. One key a line: `<name> <valid from, RFC 3339> <32 bytes in base64>`; `#` begins a comment line.
    pub fn parse(text: &str) -> Result<KeyRing, KeyError> {
        let mut keys = Vec::new();
        let mut names = BTreeSet::new();
        for (n, line) in text.lines().enumerate() {
            let error = |what| KeyError { line: n + 1, what };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = MaskKey::parse(line).map_err(error)?;
            if !names.insert(key.name.clone()) {
                return Err(error("this name stands twice"));
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(KeyError { line: 1, what: "no key" });
        }
        keys.sort_by_key(|key| key.from);
        Ok(KeyRing { keys })
    }

    /// The text of a new file with one key, valid always. `secret` is the caller's fresh randomness.
    pub fn generate(name: &str, secret: [u8; 32]) -> String {
        format!(
            "# Masking keys: <name> <valid from> <secret>. Add a line to rotate; keep the old ones.\n{name} 1970-01-01T00:00:00Z {}\n",
            STANDARD.encode(secret)
        )
    }

    /// The names of all keys, in the order of their validity. No secret, so they may be shown.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.name.as_str())
    }

    pub(crate) fn keys(&self) -> &[MaskKey] {
        &self.keys
    }

    /// Which key masks an event received then: the newest that is valid, else the first.
    pub(crate) fn index_at(&self, received_at: Micros) -> usize {
        self.keys.partition_point(|key| key.from <= received_at).saturating_sub(1)
    }
}

impl MaskKey {
    fn parse(line: &str) -> Result<MaskKey, &'static str> {
        let mut words = line.split_whitespace();
        let (Some(name), Some(from), Some(secret), None) = (words.next(), words.next(), words.next(), words.next()) else {
            return Err("expected: name, valid-from time, secret");
        };
        // The name is a part of every token, in clear.
        if name.len() > 16 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            return Err("a name is at most 16 of a-z, A-Z, 0-9, - and _");
        }
        let from = Micros::parse_rfc3339(from).ok_or("the valid-from time is not RFC 3339")?;
        let secret = STANDARD.decode(secret).ok().and_then(|bytes| bytes.try_into().ok()).ok_or("the secret is not 32 bytes in base64")?;
        Ok(MaskKey { name: name.to_owned(), from, secret })
    }
}

impl fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.name, self.from)
    }
}
impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keys.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receiving_time_selects_the_key() {
        let old = KeyRing::generate("k1", [7; 32]);
        let ring = KeyRing::parse(&format!("k2 2026-06-01T00:00:00Z {}\n{old}", STANDARD.encode([9; 32]))).expect("two keys");
        let at = |time| ring.keys()[ring.index_at(Micros::parse_rfc3339(time).expect("a time"))].name.clone();
        assert_eq!(at("2026-05-31T23:59:59.999Z"), "k1");
        assert_eq!(at("2026-06-01T00:00:00Z"), "k2");
        assert_eq!(ring.index_at(Micros(i64::MIN)), 0);
        assert!(!format!("{ring:?}").contains(&STANDARD.encode([9; 32])));
    }

    #[test]
    fn files_that_cannot_be_used_name_the_line() {
        let secret = STANDARD.encode([7; 32]);
        for (text, line, what) in [
            (String::new(), 1, "no key"),
            ("# only a comment".to_owned(), 1, "no key"),
            (format!("\na.b 1970-01-01T00:00:00Z {secret}"), 2, "a name is"),
            (format!("a yesterday {secret}"), 1, "the valid-from"),
            ("a 1970-01-01T00:00:00Z c2hvcnQ=".to_owned(), 1, "the secret"),
            (format!("a 1970-01-01T00:00:00Z {secret}\na 1971-01-01T00:00:00Z {secret}"), 2, "this name"),
        ] {
            let error = KeyRing::parse(&text).expect_err(what);
            assert!(error.line == line && error.what.starts_with(what), "{error:?}");
        }
    }
}
