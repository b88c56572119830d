//! The raw landing: its segments, in the object store and still in the spool, and the requests in one.

use super::{Answer, Parts, render};
use anyhow::{Context, Result, bail};
use forebay_gateway::find::{self, Place};
use forebay_schemas::id::RequestId;
use forebay_schemas::time::Micros;
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// A place as people name it: the object's name, or the file in the spool.
pub fn place_name(place: &Place) -> String {
    match place {
        Place::Object(name) => name.clone(),
        Place::Spool(path) => path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
    }
}

pub fn place_kind(place: &Place) -> &'static str {
    match place {
        Place::Object(_) => "object",
        Place::Spool(_) => "spool",
    }
}

pub fn segments(parts: &Parts, from: Option<Micros>, to: Option<Micros>, out: &mut dyn Answer) -> Result<()> {
    find::each_segment(&parts.spool, &*parts.objects, from, to, &mut |segment| {
        let line = json!({"name": place_name(&segment.place), "place": place_kind(&segment.place), "bytes": segment.bytes});
        out.line(line.to_string())
    })?;
    Ok(())
}

pub fn requests(parts: &Parts, segment: &str, request: Option<RequestId>, out: &mut dyn Answer) -> Result<()> {
    let wanted = find::segment(&parts.spool, &*parts.objects, segment)?;
    let Some(wanted) = wanted else { bail!("there is no segment or object {segment}") };
    let mut found = false;
    find::each(&wanted.place, &*parts.objects, &mut |request_found| {
        if request.is_some_and(|id| id != request_found.raw.request_id) {
            return ControlFlow::Continue(());
        }
        found = true;
        let mut object = render::raw(&request_found.raw);
        object.insert("_block".to_owned(), request_found.block_offset.into());
        object.insert("_index".to_owned(), request_found.index.into());
        out.line(Value::Object(object).to_string())
    })
    .context("reading the segment")?;
    match request {
        Some(id) if !found => bail!("{segment} holds no request {id}"),
        Some(_) | None => Ok(()),
    }
}
