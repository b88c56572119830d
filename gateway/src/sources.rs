//! Which source a request belongs to: by write key, by app id, or the default one (design §5.7).
//!
//! Owns: the lookup. Does not own: where keys stand in a request (gateway-core `keys`).
//! Invariant: only hashes of keys are held; a key that is named and unknown never falls through to the default source,
//! unless no source has keys at all.

use crate::bulkhead::Bulkhead;
use crate::config::{KeyHash, SourceConfig};
use forebay_gateway_core::RefusalReason;
use forebay_gateway_core::cors::Origins;
use forebay_gateway_core::keys::Keys;
use forebay_schemas::time::Micros;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;

pub struct Sources {
    all: Vec<Arc<Source>>,
    /// What any source takes: for preflights and for requests whose source is not known.
    origins: Origins,
    by_key: HashMap<KeyHash, (usize, Option<Micros>)>,
    by_app_id: HashMap<String, usize>,
    default: Option<usize>,
    /// Some source may not take all that the gateway can.
    bounded: bool,
}

pub struct Source {
    pub config: SourceConfig,
    pub origins: Origins,
    pub bulkhead: Bulkhead,
}

impl Sources {
    pub fn new(all: Vec<SourceConfig>) -> Sources {
        let mut by_key = HashMap::new();
        let mut by_app_id = HashMap::new();
        for (n, source) in all.iter().enumerate() {
            by_key.extend(source.write_keys.iter().map(|key| (key.hash(), (n, key.expires()))));
            by_app_id.extend(source.app_ids.iter().map(|id| (id.clone(), n)));
        }
        let default = all.iter().position(|source| source.default);
        let bounded = all.iter().any(|source| source.rate.is_some() || source.in_flight.is_some());
        let any = all.iter().any(|source| source.origins.is_empty());
        let listed = if any { Vec::new() } else { all.iter().flat_map(|source| source.origins.clone()).collect() };
        let source = |config: SourceConfig| {
            let bulkhead = Bulkhead::new(config.rate, config.in_flight);
            Arc::new(Source { origins: origins(&config.origins), bulkhead, config })
        };
        let all = all.into_iter().map(source).collect();
        Sources { all, origins: origins(&listed), by_key, by_app_id, default, bounded }
    }

    /// Whether it is worth a look, before a body is read, whose it is.
    pub fn bounded(&self) -> bool {
        self.bounded
    }

    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// The source of the first key that is known; without any key, of the first known app id, else the default one.
    pub fn find(&self, keys: &Keys, now: Micros) -> Result<&Arc<Source>, RefusalReason> {
        let default = || self.default.map(|n| &self.all[n]);
        if self.by_key.is_empty() || keys.write_keys.is_empty() {
            let by_app_id = keys.app_ids.iter().find_map(|id| self.by_app_id.get(id)).map(|n| &self.all[*n]);
            return by_app_id.or_else(default).ok_or(RefusalReason::MissingWriteKey);
        }
        for key in &keys.write_keys {
            match self.by_key.get(&KeyHash(Sha256::digest(key.as_bytes()).into())) {
                Some((n, until)) if until.is_none_or(|until| now < until) => return Ok(&self.all[*n]),
                Some(_) | None => {}
            }
        }
        Err(RefusalReason::UnknownWriteKey)
    }
}

fn origins(listed: &[String]) -> Origins {
    if listed.is_empty() { Origins::Any } else { Origins::Listed(listed.to_vec()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Expiry, WriteKey};

    fn hash(key: &str) -> KeyHash {
        KeyHash(Sha256::digest(key.as_bytes()).into())
    }

    #[test]
    fn key_then_app_id_then_default() {
        let named = |name: &str| SourceConfig { name: name.to_owned(), default: false, ..SourceConfig::dev() };
        let until = Expiry(Micros(1_000));
        let expiring = WriteKey::Expiring { key: hash("old"), expires: until };
        let shop = SourceConfig { write_keys: vec![WriteKey::Plain(hash("wk")), expiring], ..named("shop") };
        let app = SourceConfig { app_ids: vec!["web".to_owned()], ..named("app") };
        let open = Sources::new(vec![shop.clone(), app.clone(), SourceConfig { default: true, ..named("rest") }]);
        let closed = Sources::new(vec![shop, app]);
        let dev = Sources::new(vec![SourceConfig::dev()]);
        let find = |sources: &Sources, keys: &[&str], ids: &[&str], now: i64| {
            let own = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
            let keys = Keys { write_keys: own(keys), app_ids: own(ids) };
            sources.find(&keys, Micros(now)).map(|s| s.config.name.clone()).map_err(RefusalReason::name)
        };
        assert_eq!(find(&open, &["wk"], &["web"], 0), Ok("shop".into()));
        assert_eq!(find(&open, &["nope", "wk"], &[], 0), Ok("shop".into()));
        assert_eq!(find(&open, &["nope"], &["web"], 0), Err("unknown_write_key"));
        assert_eq!(find(&open, &["old"], &[], 999), Ok("shop".into()));
        assert_eq!(find(&open, &["old"], &[], 1_000), Err("unknown_write_key"));
        assert_eq!(find(&open, &[], &["x", "web"], 0), Ok("app".into()));
        assert_eq!(find(&open, &[], &[], 0), Ok("rest".into()));
        assert_eq!(find(&closed, &[], &["x"], 0), Err("missing_write_key"));
        assert_eq!(find(&dev, &["anything"], &["web"], 0), Ok("default".into()));
    }
}
