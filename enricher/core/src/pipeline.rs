//! The contents page: how a harvested event is admitted.
//!
//! Owns: what is built once (schemas' plans, token keys) and the order of the stages. Does not own: the stages.
//! Invariants: `admit` is a function of its arguments alone; a `Reject` holds no value, id or unknown name.

use crate::admit::decode::{self, Decoder};
use crate::admit::mask::{Masked, Masker, Unclassified};
use crate::admit::plan::{ContextPlan, Domains};
use crate::admit::sanitize;
use crate::admit::validate::Validator;
use crate::combine::window::declare::{self, Declaration, Window, WindowError};
use crate::keys::Keys;
use crate::options::Options;
use crate::seal::BadPublicKey;
use forebay_schemas::catalog::Catalog;
use forebay_schemas::limit;
use forebay_schemas::reason::Reason;
use forebay_schemas::stage::Stage;
use forebay_schemas::wire::harvested::Harvested;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Raised with every change of what the stages do to an event.
const VERSION: &str = "1";

/// Everything that admission stands on. Shared by all lanes.
pub struct Pipeline {
    options: Options,
    keys: Keys,
    fingerprint: String,
    decoder: Decoder,
    validator: Validator,
    masker: Masker,
    windows: Vec<Window>,
}

/// A schema that cannot be compiled.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("schema {event_type} {version}: {message}")]
pub struct PipelineError {
    pub event_type: String,
    pub version: String,
    pub message: String,
}

/// What may be told about an event, before anyone asked whether it is a copy.
#[derive(Debug)]
pub struct Admitted<'a> {
    pub masked: Masked<'a>,
    /// What makes two copies the same fact (design §4.5).
    pub fingerprint: u64,
    /// What was left out because nobody classified it; bounded by `limit::UNCLASSIFIED_PER_EVENT`.
    pub unclassified: Vec<Unclassified>,
}

/// Why an event goes to `bad`. Fit to be shown: no value, no id, no unknown name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reject {
    pub stage: Stage,
    pub reason: Reason,
    /// The catalogue's name of the event type, if it was found.
    pub event_type: Option<String>,
    /// Known paths and expectations; at most `limit::DETAIL_CHARS` characters.
    pub detail: String,
}

impl Pipeline {
    pub fn new(catalog: Arc<Catalog>, options: Options, keys: Keys) -> Result<Pipeline, PipelineError> {
        let fingerprint = fingerprint_of(&catalog, &options, &keys);
        let mut domains = Domains::default();
        let context = ContextPlan::new(&catalog, &mut domains);
        let validator = Validator::new(catalog, options.unknown_event, &mut domains)?;
        let masker = Masker::new(context, &domains, &keys);
        let decoder = Decoder::new(options.max_age_micros);
        Ok(Pipeline { options, keys, fingerprint, decoder, validator, masker, windows: Vec::new() })
    }

    /// With windows over the events. The error says which of `declared` cannot be one.
    pub fn with_windows(self, declared: &[Declaration], catalog: &Catalog) -> Result<Pipeline, (usize, WindowError)> {
        Ok(self.of_windows(declare::windows(declared, catalog)?))
    }

    pub fn of_windows(self, windows: Vec<Window>) -> Pipeline {
        Pipeline { windows, ..self }
    }

    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// 16 hex digits: of the stages' version, the catalogue, the options and the keys' names.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
    pub fn options(&self) -> &Options {
        &self.options
    }
    /// Whom rejects are sealed for.
    pub fn bad_key(&self) -> &BadPublicKey {
        &self.keys.bad
    }

    /// decode → validate → sanitize → mask.
    pub fn admit<'a>(&'a self, event: &'a Harvested) -> Result<Admitted<'a>, Reject> {
        let json = decode::parse(event)?;
        let decoded = self.decoder.decode(event, json)?;
        let fingerprint = decoded.fingerprint();
        let valid = self.validator.validate(decoded, &self.masker)?;
        let sanitized = sanitize::sanitize(valid, self.masker.context());
        let (masked, unclassified) = self.masker.mask(sanitized, self.options.unclassified)?;
        Ok(Admitted { masked, fingerprint, unclassified })
    }
}

fn fingerprint_of(catalog: &Catalog, options: &Options, keys: &Keys) -> String {
    let mut hash = Sha256::new();
    hash.update(VERSION);
    hash.update(catalog.fingerprint().to_be_bytes());
    // Debug lists every option by name; a new one changes the text.
    hash.update(format!("{options:?} {:?}", keys.groups));
    for name in keys.mask.names().chain([keys.bad.id()]) {
        hash.update([0]);
        hash.update(name);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Reject {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Reject {
        let mut detail = detail.into();
        if let Some((end, _)) = detail.char_indices().nth(limit::DETAIL_CHARS) {
            detail.truncate(end);
        }
        Reject { stage: reason.stage(), reason, event_type: None, detail }
    }
    pub(crate) fn of_type(self, event_type: &str) -> Reject {
        Reject { event_type: Some(event_type.to_owned()), ..self }
    }
    /// A stage panicked. What it said is not told: it may quote the event.
    pub fn panicked() -> Reject {
        Reject::new(Reason::ProcessingPanic, "a defect of the enricher; the sealed event shows it again")
    }
    /// The record has no partition key.
    pub fn unkeyable() -> Reject {
        Reject::new(Reason::Unkeyable, "the record has no key, so its copies may be judged elsewhere")
    }
    /// Another fact holds this id (`dedup`).
    pub fn collision(event_type: &str) -> Reject {
        Reject::new(Reason::IdCollision, "the id is taken by an earlier event of this source with other content").of_type(event_type)
    }
}
