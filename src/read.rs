//! What can be asked of a system, answered from its log and files: by commands on a stopped folder, and by `/api` in the
//! process that holds one. One implementation, so both say the same.
//!
//! Owns: the questions (`query`) and their answers, one JSON object a line. Does not own: finding the system (`system`), HTTP and
//! tokens (`admin`), text for people (`commands`).
//! Invariant E2: an answer to `Role::View` holds nothing that is not masked.

mod query;
mod render;
mod topic;
mod raw;
mod bad;
mod explain;
mod unclassified;

pub use explain::LOOKED_FROM;
pub use query::{ExplainQuery, From, LogQuery, Query};
pub use render::{clear as rendered_clear, harvested as rendered_harvested};
pub use unclassified::{UnclassifiedField, in_deltas as unclassified_in_deltas};

use anyhow::Result;
use forebay_enricher_core::Pipeline;
use forebay_stores::log::Log;
use forebay_stores::objects::Objects;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// What the asker may see.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Masked records, the clear part of rejects.
    View,
    /// Everything, payloads too.
    Reveal,
}

/// What answers stand on.
pub struct Parts {
    pub log: Arc<dyn Log>,
    pub objects: Arc<dyn Objects>,
    pub spool: PathBuf,
    pub table: forebay_sinks::Config,
    pub warehouse: Arc<dyn Objects>,
    /// What judges events now; made when it is asked for.
    pub pipeline: Box<dyn Fn() -> Result<Arc<Pipeline>> + Send + Sync>,
    /// Fields that nobody classified.
    pub unclassified: Box<dyn Fn() -> Result<Vec<UnclassifiedField>> + Send + Sync>,
    /// Effective settings.
    pub settings: Vec<crate::config::Setting>,
    /// Whether more may be appended while we read.
    pub live: bool,
    /// Many gateways fill it: not to be read whole for one question.
    pub log_is_shared: bool,
}

/// Where an answer goes.
pub trait Answer {
    /// One JSON object; `Break`: nobody listens any more.
    fn line(&mut self, line: String) -> ControlFlow<()>;
    /// Asked while there is nothing to say.
    fn is_open(&self) -> bool;
}

pub fn answer(parts: &Parts, query: &Query, role: Role, out: &mut dyn Answer) -> Result<()> {
    match query {
        Query::Log(query) => topic::follow(parts, query, role, out),
        Query::Explain(query) => explain::tell(parts, query, role, out),
        Query::RawSegments { from, to } => raw::segments(parts, *from, *to, out),
        Query::RawRequests { segment, request } => raw::requests(parts, segment, *request, out),
        Query::Bad { reason, event_id, sealed } => bad::list(parts, *reason, event_id.as_deref(), *sealed, role, out),
        Query::Unclassified => unclassified::list(parts, role, out),
        Query::Config => {
            for setting in &parts.settings {
                if out.line(setting.to_json().to_string()).is_break() {
                    break;
                }
            }
            Ok(())
        }
    }
}
