//! What a start demands of a configuration beyond what each command checks: of `dev`, or of one part alone.
//!
//! Owns: files that must be there, doors that must not stand open, which form of the log. Does not own: the sections' own rules.
//! Invariant: nothing is made, bound or locked here; of a role only what that role reads is asked for.

use super::{Config, ConfigError};
use crate::admin::Tokens;
use crate::node::Part;
use forebay_schemas::limit;
use forebay_stores::config::LogKind;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// `[admin]`: who may ask a role.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// A file with the token of all roles. Unset: FOREBAY_TOKEN of the process, or `/api` is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A file with a token that is shown masked records alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view_token_file: Option<PathBuf>,
}

impl Config {
    /// Where the process that runs `part` is asked; `dev` is asked where its gateway is.
    pub fn admin(&self, part: Part) -> SocketAddr {
        let (_, admin) = self.admin_key(part);
        admin.expect("the defaults name an admin listener")
    }

    fn admin_key(&self, part: Part) -> (&'static str, Option<SocketAddr>) {
        match part {
            Part::Gateway => ("gateway.admin", self.gateway.admin),
            Part::Enricher => ("enricher.admin", self.enricher.admin),
            Part::Table => ("sink.table.admin", self.table.admin),
        }
    }

    pub fn check_dev(&self) -> Result<(), ConfigError> {
        if self.log.kind != LogKind::Embedded {
            let message = "`forebay dev` runs on the embedded log: `forebay gateway`, `enricher` and `sink table` run on Kafka";
            return Err(self.layers.error_at("log.kind", message));
        }
        self.check_table()?;
        self.check_judging()
    }

    /// The tokens of the process, when everything that `part` reads is there.
    pub fn check_role(&self, part: Part) -> Result<Tokens, ConfigError> {
        if self.log.kind == LogKind::Embedded {
            let message = "the embedded log belongs to one process: `forebay dev` runs all parts in it; a part in a process of its own needs \"kafka\"";
            return Err(self.layers.error_at("log.kind", message));
        }
        for (key, file) in self.log.files() {
            self.must_be_there(key, file)?;
        }
        match part {
            Part::Gateway => {}
            Part::Enricher => self.check_judging()?,
            Part::Table => self.check_table()?,
        }
        let tokens = self.tokens()?;
        let (key, admin) = self.admin_key(part);
        // Health and metrics need no token, but whoever opens this door to others says who may ask the rest.
        if admin.is_some_and(|admin| !admin.ip().is_loopback()) && tokens.all.is_none() && tokens.view.is_none() {
            return Err(self.layers.error_at(key, "reachable from other machines, but there is no token: set admin.token_file"));
        }
        Ok(tokens)
    }

    /// What the enricher reads.
    fn check_judging(&self) -> Result<(), ConfigError> {
        if let Some(dir) = self.catalog.dir.as_deref().filter(|dir| !dir.is_dir()) {
            return self.missing("catalog.dir", dir);
        }
        let keys = &self.catalog.keys;
        for (key, file) in [("catalog.keys.mask_file", &keys.mask_file), ("catalog.keys.bad_public_file", &keys.bad_public_file)] {
            let Some(file) = file else {
                return Err(self.layers.error_at(key, "not set: name a key file; `forebay keys make DIR` makes a set"));
            };
            // `dev` makes those in its own folder.
            if self.log.kind != LogKind::Embedded || file.parent() != Some(&self.keys_dir()) {
                self.must_be_there(key, file)?;
            }
        }
        Ok(())
    }

    /// What the table sink reads.
    fn check_table(&self) -> Result<(), ConfigError> {
        self.table.files().into_iter().try_for_each(|(key, file)| self.must_be_there(key, file))
    }

    fn must_be_there(&self, key: &str, file: &Path) -> Result<(), ConfigError> {
        if file.is_file() { Ok(()) } else { self.missing(key, file) }
    }
    fn missing(&self, key: &str, path: &Path) -> Result<(), ConfigError> {
        Err(self.layers.error_at(key, &format!("there is no {}", path.display())))
    }

    fn tokens(&self) -> Result<Tokens, ConfigError> {
        let read = |key: &str, file: &Option<PathBuf>| {
            let Some(file) = file else { return Ok(None) };
            let text = std::fs::read_to_string(file).map_err(|e| self.layers.error_at(key, &format!("{}: {e}", file.display())))?;
            let token = text.trim();
            if token.len() < limit::TOKEN_CHARS_MIN || !token.bytes().all(|b| b.is_ascii_graphic()) {
                let message = format!("{} holds no token: {} or more characters without spaces", file.display(), limit::TOKEN_CHARS_MIN);
                return Err(self.layers.error_at(key, &message));
            }
            Ok(Some(token.to_owned()))
        };
        let all = read("admin.token_file", &self.admin.token_file)?;
        let of_process = || std::env::var("FOREBAY_TOKEN").ok().filter(|token| !token.is_empty());
        Ok(Tokens { all: all.or_else(of_process), view: read("admin.view_token_file", &self.admin.view_token_file)? })
    }
}
