//! Rejects: why in clear; the sealed event only for who may reveal, and to be opened by the key holder elsewhere.

use super::{Answer, Parts, Role, render, topic};
use anyhow::{Context, Result};
use forebay_schemas::reason::Reason;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::bad;
use serde_json::Value;
use std::ops::ControlFlow;

pub fn list(parts: &Parts, reason: Option<Reason>, event_id: Option<&str>, sealed: bool, role: Role, out: &mut dyn Answer) -> Result<()> {
    topic::each(&*parts.log, Topic::Bad, None, &mut |partition, record| {
        let Some(value) = &record.value else { return Ok(ControlFlow::Continue(())) };
        let found = bad::decode(value).with_context(|| format!("bad, partition {partition}, offset {}", record.offset))?;
        let wanted = reason.is_none_or(|r| r == found.clear.reason) && event_id.is_none_or(|id| id == found.clear.event_id.as_str());
        if !wanted {
            return Ok(ControlFlow::Continue(()));
        }
        let mut object = render::record(Topic::Bad, partition, record, role)?;
        if sealed && role >= Role::Reveal {
            // The whole message: what is sealed is bound to the clear part byte for byte.
            object.insert("_value".to_owned(), render::base64(value).into());
        }
        Ok(out.line(Value::Object(object).to_string()))
    })
}
