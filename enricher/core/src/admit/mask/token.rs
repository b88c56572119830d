//! Tokens: keyed stand-ins for values, equal for equal values of one group and domain.
//!
//! Owns: the derivation of keys and the text of tokens, hashes and unknown names. Does not own: the ring (`keys`).
//! Invariants: no unkeyed hash of a value leaves; a key serves one use, group and domain (HKDF-SHA-256 with all three
//! in its info), so that tokens of two domains cannot be compared. Golden values: `schemas/vectors/tokens.json`.

use crate::admit::shape;
use crate::keys::{DEFAULT_GROUP, Keys};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use forebay_schemas::limit;
use forebay_schemas::time::Micros;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

type Keyed = Hmac<Sha256>;

const SALT: &[u8] = b"forebay mask";
/// Bytes of the digest that a token and a hash show, and an unknown name.
const TOKEN_BYTES: usize = 16;
const NAME_BYTES: usize = 4;

/// What a key is for.
#[derive(Clone, Copy)]
enum Use {
    Token,
    Hash,
    Name,
}

/// The derived keys of all rings, groups and domains.
pub(crate) struct Tokens {
    /// In the order of the ring.
    keys: Vec<Derived>,
    /// Source → number of its group.
    groups: BTreeMap<String, usize>,
    domains: usize,
    mask: crate::keys::KeyRing,
}

struct Derived {
    name: String,
    /// By group, then domain.
    token: Vec<Keyed>,
    hash: Vec<Keyed>,
    names: Keyed,
    /// Unknown names as they are told: the same few stand in event after event.
    known: Mutex<HashMap<String, Arc<str>>>,
}

/// The keys for one event: by its receiving time and its source.
#[derive(Clone, Copy)]
pub(crate) struct ForEvent<'a> {
    keys: &'a Derived,
    /// Where the group's domains begin.
    first: usize,
}

impl Tokens {
    pub fn new(keys: &Keys, domains: &[&str]) -> Tokens {
        let mut names: Vec<&str> = vec![DEFAULT_GROUP];
        let mut groups = BTreeMap::new();
        for (source, group) in &keys.groups {
            let number = names.iter().position(|name| name == group).unwrap_or_else(|| {
                names.push(group);
                names.len() - 1
            });
            groups.insert(source.clone(), number);
        }
        let derived = keys.mask.keys().iter().map(|key| {
            let all = |purpose| {
                let pairs = names.iter().flat_map(|group| domains.iter().map(move |domain| (group, domain)));
                pairs.map(|(group, domain)| derive(&key.secret, purpose, group, domain)).collect()
            };
            Derived {
                name: key.name.clone(),
                token: all(Use::Token),
                hash: all(Use::Hash),
                names: derive(&key.secret, Use::Name, "", ""),
                known: Mutex::default(),
            }
        });
        Tokens { keys: derived.collect(), groups, domains: domains.len(), mask: keys.mask.clone() }
    }

    pub fn of(&self, source: &str, received_at: Micros) -> ForEvent<'_> {
        let group = self.groups.get(source).copied().unwrap_or(0);
        ForEvent { keys: &self.keys[self.mask.index_at(received_at)], first: group * self.domains }
    }
}

impl ForEvent<'_> {
    /// `<key name>.<base64url of 16 bytes>`
    pub fn token(&self, domain: usize, value: &str) -> String {
        let digest = digest(&self.keys.token[self.first + domain], value);
        let mut text = String::with_capacity(self.keys.name.len() + 23);
        text.push_str(&self.keys.name);
        text.push('.');
        URL_SAFE_NO_PAD.encode_string(&digest[..TOKEN_BYTES], &mut text);
        text
    }
    /// 32 hex digits
    pub fn hash(&self, domain: usize, value: &str) -> String {
        hex(&digest(&self.keys.hash[self.first + domain], value)[..TOKEN_BYTES])
    }
    /// `{shape#8 hex digits}` of a name that nobody knows.
    pub fn name(&self, name: &str) -> Arc<str> {
        let mut known = self.keys.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = known.get(name) {
            return told.clone();
        }
        let told: Arc<str> = format!("{{{}#{}}}", shape::of(name), hex(&digest(&self.keys.names, name)[..NAME_BYTES])).into();
        if known.len() >= limit::UNKNOWN_NAMES {
            known.clear();
        }
        if name.len() <= limit::FOREIGN_NAME_BYTES {
            known.insert(name.to_owned(), told.clone());
        }
        told
    }
}

/// The key for one use: HKDF-SHA-256 of the secret; the info holds use, group and domain, each behind its length.
fn derive(secret: &[u8; 32], purpose: Use, group: &str, domain: &str) -> Keyed {
    let purpose = match purpose {
        Use::Token => "token v1",
        Use::Hash => "hash v1",
        Use::Name => "name v1",
    };
    let mut info = Vec::new();
    for part in [purpose, group, domain] {
        info.extend_from_slice(&(part.len() as u32).to_be_bytes());
        info.extend_from_slice(part.as_bytes());
    }
    let mut key = [0; 32];
    Hkdf::<Sha256>::new(Some(SALT), secret).expand(&info, &mut key).expect("32 bytes are within HKDF's bound");
    Keyed::new_from_slice(&key).expect("HMAC takes keys of any length")
}

/// White space around a value is nobody's.
fn digest(key: &Keyed, value: &str) -> [u8; 32] {
    let mut mac = key.clone();
    mac.update(value.trim().as_bytes());
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).expect("a nibble is a hex digit");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests;
