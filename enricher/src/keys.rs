//! The key files: made once, read at each start.
//!
//! `mask.key`: one masking key a line, `<name> <valid from, RFC 3339> <32 bytes in base64>`; add a line to rotate.
//! `bad_public.key`, `bad_private.key`: `forebay-bad-public-1|forebay-bad-private-1 <key id> <32 bytes in base64>`.
//! Owns: the files, their making and permissions. Does not own: their contents (core: `keys`, `seal`).
//! Invariants: a file that is there is never overwritten; files are 0600 in a folder of 0700; no error quotes a file.

use crate::config::KeysConfig;
use forebay_enricher_core::seal::{self, BadPrivateKey, BadPublicKey};
use forebay_enricher_core::{KeyRing, Keys};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The name of the first masking key; it is a part of every token.
const FIRST_MASK_KEY: &str = "k1";

#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("{key} is not set: name a key file, or run `forebay dev`, which makes one")]
    NotSet { key: &'static str },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{}: {what}", path.display())]
    Unusable { path: PathBuf, what: String },
    #[error("no randomness to make keys from: {0}")]
    Random(getrandom::Error),
}

/// The three files in `dir`, made where they are missing.
pub fn ensure(dir: &Path) -> Result<KeysConfig, KeysError> {
    let at = |error| KeysError::Io { path: dir.to_owned(), error };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at)?;
    let [mask, public, private] = ["mask.key", "bad_public.key", "bad_private.key"].map(|name| dir.join(name));
    if !mask.exists() {
        create(&mask, &KeyRing::generate(FIRST_MASK_KEY, random()?))?;
    }
    // A public key alone is a choice: its private half is kept elsewhere.
    if !public.exists() {
        if !private.exists() {
            create(&private, &seal::generate(&random()?).1)?;
        }
        create(&public, &private_key(&private)?.public_file())?;
    }
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(at)?;
    let there = |path: PathBuf| path.exists().then_some(path);
    Ok(KeysConfig { mask_file: there(mask), bad_public_file: there(public), bad_private_file: there(private) })
}

/// What a pipeline needs. `groups`: source → group, for sources that are not in the default group.
pub fn load(config: &KeysConfig, groups: BTreeMap<String, String>) -> Result<Keys, KeysError> {
    let mask = named(config.mask_file.as_deref(), "catalog.keys.mask_file")?;
    let public = named(config.bad_public_file.as_deref(), "catalog.keys.bad_public_file")?;
    warn_if_open(mask);
    Ok(Keys {
        mask: KeyRing::parse(&read(mask)?).map_err(|error| unusable(mask, error))?,
        groups,
        bad: BadPublicKey::parse(&read(public)?).map_err(|error| unusable(public, error))?,
    })
}

/// The key that opens rejects, for the commands that show them.
pub fn private_key(path: &Path) -> Result<BadPrivateKey, KeysError> {
    warn_if_open(path);
    BadPrivateKey::parse(&read(path)?).map_err(|error| unusable(path, error))
}

fn named<'a>(path: Option<&'a Path>, key: &'static str) -> Result<&'a Path, KeysError> {
    path.ok_or(KeysError::NotSet { key })
}

fn unusable(path: &Path, error: impl std::fmt::Display) -> KeysError {
    KeysError::Unusable { path: path.to_owned(), what: error.to_string() }
}

fn read(path: &Path) -> Result<String, KeysError> {
    fs::read_to_string(path).map_err(|error| KeysError::Io { path: path.to_owned(), error })
}

fn warn_if_open(path: &Path) {
    if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0) {
        tracing::warn!(path = %path.display(), "this key file can be read by other users; chmod 600 it");
    }
}

fn random() -> Result<[u8; 32], KeysError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(KeysError::Random)?;
    Ok(bytes)
}

/// Whole or not at all, whenever the process ends: written beside, synced, then linked under its name.
fn create(path: &Path, text: &str) -> Result<(), KeysError> {
    let beside = path.with_extension("key.new");
    let made = || -> io::Result<()> {
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) | Ok(()) => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::hard_link(&beside, path)?;
        fs::remove_file(&beside)
    };
    made().map_err(|error| KeysError::Io { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_once_and_never_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let keys = dir.path().join("keys");
        let config = ensure(&keys).expect("made");
        let texts = |config: &KeysConfig| {
            [&config.mask_file, &config.bad_public_file, &config.bad_private_file]
                .map(|path| path.as_deref().map(|path| read(path).expect("there")))
        };
        let first = texts(&config);
        assert_eq!(texts(&ensure(&keys).expect("there")), first);
        for path in [&config.mask_file, &config.bad_public_file, &config.bad_private_file].into_iter().flatten() {
            assert_eq!(fs::metadata(path).expect("there").permissions().mode() & 0o777, 0o600);
        }
        let loaded = load(&config, BTreeMap::new()).expect("usable");
        assert_eq!(loaded.bad.id(), private_key(config.bad_private_file.as_deref().expect("made")).expect("usable").id());
        fs::remove_file(keys.join("bad_public.key")).expect("there");
        assert_eq!(texts(&ensure(&keys).expect("made again")), first, "the public key follows from the private one");
        fs::remove_file(keys.join("bad_private.key")).expect("there");
        assert_eq!(ensure(&keys).expect("enough").bad_private_file, None, "a private key kept elsewhere is not replaced");
    }

    #[test]
    fn what_cannot_be_used_is_named_and_not_quoted() {
        let dir = tempfile::tempdir().expect("a folder");
        let config = ensure(dir.path()).expect("made");
        fs::write(dir.path().join("mask.key"), "k1 1970-01-01T00:00:00Z c2VjcmV0\n").expect("written");
        let error = load(&config, BTreeMap::new()).expect_err("too short").to_string();
        assert!(error.contains("mask.key") && error.contains("line 1") && !error.contains("c2Vj"), "{error}");
        let error = load(&KeysConfig::default(), BTreeMap::new()).expect_err("nothing named").to_string();
        assert!(error.contains("catalog.keys.mask_file"), "{error}");
    }
}
