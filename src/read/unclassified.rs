//! Fields that were left out because nobody classified them.

use super::{Answer, Parts, Role, topic};
use anyhow::{Context, Result};
use forebay_enricher::find;
use forebay_enricher::state::key::{self, Uid};
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::delta;
use forebay_stores::log::Log;
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnclassifiedField {
    pub event_type: String,
    /// Known names as they are, unknown ones as shape and keyed hash.
    pub path: String,
    /// The path as sent, where this process has met it: for `Role::Reveal` alone.
    pub in_clear: Option<String>,
    pub count: u64,
}

pub fn list(parts: &Parts, role: Role, out: &mut dyn Answer) -> Result<()> {
    let mut fields = (parts.unclassified)()?;
    if role >= Role::Reveal {
        name_all(parts, &mut fields)?;
    }
    for field in fields {
        let mut line = json!({"event_type": field.event_type, "path": field.path, "count": field.count});
        if let Some(in_clear) = field.in_clear.filter(|_| role >= Role::Reveal) {
            line["in_clear"] = in_clear.into();
        }
        if out.line(line.to_string()).is_break() {
            break;
        }
    }
    Ok(())
}

/// A process knows the names that it has met itself; the others are looked for in the newest events.
fn name_all(parts: &Parts, fields: &mut [UnclassifiedField]) -> Result<()> {
    let is_unnamed = |field: &&mut UnclassifiedField| field.in_clear.is_none() && field.path.contains('{');
    let wanted: Vec<_> = fields.iter_mut().filter(is_unnamed).map(|field| (field.event_type.clone(), field.path.clone())).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut names = find::unknown_names(&*parts.log, &*(parts.pipeline)()?, wanted).context("looking for names in the harvested topic")?;
    for field in fields.iter_mut().filter(is_unnamed) {
        field.in_clear = names.remove(&(field.event_type.clone(), field.path.clone()));
    }
    Ok(())
}

/// The counts as the deltas have them. They have no TTL and are put again long before their deltas go: so the newest ones, of
/// the time `newest`, have them all.
pub fn in_deltas(log: &dyn Log, newest: Duration) -> Result<Vec<UnclassifiedField>> {
    let mut counts: BTreeMap<(String, String, i32), u64> = BTreeMap::new();
    topic::each(log, Topic::Delta, Some(newest), &mut |partition, record| {
        let Some(value) = &record.value else { return Ok(ControlFlow::Continue(())) };
        let delta = delta::decode(value).with_context(|| format!("delta, partition {partition}, offset {}", record.offset))?;
        for op in delta.ops.iter().filter(|op| key::uid_byte(&op.key) == Some(Uid::Unclassified as u8)) {
            let text = std::str::from_utf8(key::user_key(&op.key)).ok().and_then(|text| text.split_once('\0'));
            let count = op.value.as_deref().and_then(|value| value.try_into().ok()).map(u64::from_be_bytes);
            if let (Some((event_type, path)), Some(count)) = (text, count) {
                counts.insert((event_type.to_owned(), path.to_owned(), delta.task), count);
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut fields: Vec<UnclassifiedField> = Vec::new();
    for ((event_type, path, _), count) in counts {
        match fields.last_mut().filter(|last| last.event_type == event_type && last.path == path) {
            Some(last) => last.count += count,
            None => fields.push(UnclassifiedField { event_type, path, in_clear: None, count }),
        }
    }
    Ok(fields)
}
