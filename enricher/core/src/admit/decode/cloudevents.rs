//! CloudEvents 1.0.
//!
//! Owns: which attributes are ours. `type` is the name as it stands: what of `com.acme.product_viewed` is the event's name is its
//! producer's to say, in `x-names`. Extensions that say who it was are ours alone: `userid`, `anonymousid`, `sessionid`.

use super::{Draft, Leaf, Members, id, text, time};
use crate::pipeline::Reject;
use forebay_schemas::json::Json;

pub(super) fn read<'a>(members: Members<'a>) -> Result<Draft<'a>, Reject> {
    let mut draft = Draft::default();
    for (key, value) in members {
        match (&*key, value) {
            ("type", value) => draft.name = text(&value),
            ("time", value) => draft.told.at = time::read(&value),
            ("data", Json::Object(properties)) => draft.properties = properties,
            // What is no object has no names to be classified by.
            ("data", Json::Null) => draft.properties = Vec::new(),
            ("userid", value) => draft.context.set(Leaf::UserId, id(&value)),
            ("anonymousid", value) => draft.context.set(Leaf::AnonymousId, id(&value)),
            ("sessionid", value) => draft.context.set(Leaf::SessionId, id(&value)),
            (
                "id" | "source" | "specversion" | "subject" | "datacontenttype" | "dataschema" | "partitionkey" | "traceparent"
                | "tracestate",
                _,
            ) => {}
            _ => draft.extras.push(key.into_owned()),
        }
    }
    Ok(draft)
}
