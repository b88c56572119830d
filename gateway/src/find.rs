//! Finds requests where they lie: in the spool's segments and in the raw landing, from files alone.
//!
//! Owns: reading segments for `explain` and `raw`; it works beside a running gateway and on a stopped folder.
//! Does not own: what is looked for. Invariant: nothing is written and no lock is taken; a torn tail is not an error.

use crate::spool::dir;
use crate::spool::intake::hour;
use crate::spool::reader::{self, ReadError, SegmentReader};
use forebay_gateway_core::segment::SegmentName;
use forebay_schemas::ocf;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::avro::DecodeError;
use forebay_schemas::wire::raw_request::RawRequest;
use forebay_stores::objects::{Objects, ObjectsError};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Where a segment lies. One that is landed and not deleted yet counts as an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    Spool(PathBuf),
    Object(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentInfo {
    pub name: SegmentName,
    pub place: Place,
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Found {
    pub place: Place,
    /// Where the request's block begins in the file or object.
    pub block_offset: u64,
    /// The request's place in its block, from 0.
    pub index: usize,
    pub raw: RawRequest,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("spool: {0}")]
    Spool(#[from] io::Error),
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    #[error("object {object}: {error}")]
    Torn { object: String, error: DecodeError },
}

const RAW: &str = "raw/";
const LIST_MAX: usize = 1_000;

/// Segments that may hold requests received in `[from, to)`, in order of time.
pub fn segments(spool: &Path, objects: &dyn Objects, from: Option<Micros>, to: Option<Micros>) -> Result<Vec<SegmentInfo>, FindError> {
    let mut all = Vec::new();
    each_segment(spool, objects, from, to, &mut |segment| {
        all.push(segment);
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// Visits them as they are listed. Of the landing only the hours in question are listed, and an hour's names are held at once.
pub fn each_segment(
    spool: &Path,
    objects: &dyn Objects,
    from: Option<Micros>,
    to: Option<Micros>,
    visit: &mut dyn FnMut(SegmentInfo) -> ControlFlow<()>,
) -> Result<(), FindError> {
    let (first, last) = (from.map(hour), to.map(|to| hour(to.saturating_add_micros(-1))));
    // The spool first: a segment that is deleted meanwhile is an object by then.
    let mut waiting = BTreeMap::new();
    for name in in_spool(spool)? {
        if first.is_none_or(|first| name.hour >= first)
            && last.is_none_or(|last| name.hour <= last)
            && let Some(segment) = spooled(spool, &name)?
        {
            waiting.insert((name.hour, name.first), segment);
        }
    }
    let end = last.map(|last| SegmentName::object_prefix(last.saturating_add(1)));
    let mut after = first.map(SegmentName::object_prefix);
    loop {
        let page = objects.list(RAW, after.as_deref(), LIST_MAX)?;
        for object in &page {
            if end.as_ref().is_some_and(|end| object.name >= *end) {
                break;
            }
            let Some(name) = SegmentName::parse_object(&object.name) else { continue };
            while waiting.first_key_value().is_some_and(|((hour, _), _)| *hour < name.hour)
                && let Some((_, segment)) = waiting.pop_first()
            {
                if visit(segment).is_break() {
                    return Ok(());
                }
            }
            let segment = SegmentInfo { name: name.clone(), place: Place::Object(object.name.clone()), bytes: object.bytes };
            waiting.insert((name.hour, name.first), segment);
        }
        match page.last() {
            Some(last) if page.len() == LIST_MAX && end.as_ref().is_none_or(|end| last.name < *end) => after = Some(last.name.clone()),
            Some(_) | None => break,
        }
    }
    let _ = waiting.into_values().try_for_each(visit);
    Ok(())
}

/// One segment by its object's name or its file's, with or without the folder.
pub fn segment(spool: &Path, objects: &dyn Objects, named: &str) -> Result<Option<SegmentInfo>, FindError> {
    let file = named.rsplit('/').next().unwrap_or(named);
    let Some(name) = SegmentName::parse_object(named).or_else(|| SegmentName::parse_file(file)) else { return Ok(None) };
    let in_spool = spooled(spool, &name)?;
    match objects.size(&name.object()) {
        Ok(bytes) => Ok(Some(SegmentInfo { place: Place::Object(name.object()), name, bytes })),
        Err(ObjectsError::NotFound(_)) => Ok(in_spool),
        Err(error) => Err(error.into()),
    }
}

/// Requests received in `[from, to)` that `wanted` wants, in order of time.
pub fn requests(
    spool: &Path,
    objects: &dyn Objects,
    wanted: &dyn Fn(&RawRequest) -> bool,
    from: Option<Micros>,
    to: Option<Micros>,
) -> Result<Vec<Found>, FindError> {
    let mut found = Vec::new();
    for segment in segments(spool, objects, from, to)? {
        each(&segment.place, objects, &mut |request| {
            let at = request.raw.received_at;
            if from.is_none_or(|from| at >= from) && to.is_none_or(|to| at < to) && wanted(&request.raw) {
                found.push(request);
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(found)
}

/// Visits the requests of one segment, in order.
pub fn each(place: &Place, objects: &dyn Objects, visit: &mut dyn FnMut(Found) -> ControlFlow<()>) -> Result<(), FindError> {
    match place {
        Place::Spool(path) => each_in_spool(path, objects, visit),
        Place::Object(name) => each_in_object(name, objects, visit),
    }
}

fn each_in_spool(path: &Path, objects: &dyn Objects, visit: &mut dyn FnMut(Found) -> ControlFlow<()>) -> Result<(), FindError> {
    let mut reader = match SegmentReader::open(path, None) {
        Ok(reader) => reader,
        Err(ReadError::Torn { .. }) => return Ok(()),
        Err(ReadError::Io(error)) if error.kind() == ErrorKind::NotFound => {
            let name = path.file_name().and_then(|name| name.to_str()).and_then(SegmentName::parse_file);
            return name.map_or(Ok(()), |name| each_in_object(&name.object(), objects, visit));
        }
        Err(ReadError::Io(error)) => return Err(error.into()),
    };
    loop {
        match reader.next() {
            Ok(Some(block)) => {
                if give(&Place::Spool(path.to_owned()), block.start, block.requests, visit).is_break() {
                    return Ok(());
                }
            }
            Ok(None) | Err(ReadError::Torn { .. }) => return Ok(()),
            Err(ReadError::Io(error)) => return Err(error.into()),
        }
    }
}

fn each_in_object(name: &str, objects: &dyn Objects, visit: &mut dyn FnMut(Found) -> ControlFlow<()>) -> Result<(), FindError> {
    let torn = |error| FindError::Torn { object: name.to_owned(), error };
    let bytes = objects.get(name)?;
    let header = ocf::read_header(&bytes).map_err(torn)?;
    let mut at = header.length;
    while let Some(block) = ocf::read_block(&bytes, at, &header).map_err(torn)? {
        let requests = reader::requests(&block).map_err(torn)?;
        if give(&Place::Object(name.to_owned()), at as u64, requests, visit).is_break() {
            break;
        }
        at = block.end;
    }
    Ok(())
}

fn give(place: &Place, block_offset: u64, requests: Vec<RawRequest>, visit: &mut dyn FnMut(Found) -> ControlFlow<()>) -> ControlFlow<()> {
    for (index, raw) in requests.into_iter().enumerate() {
        visit(Found { place: place.clone(), block_offset, index, raw })?;
    }
    ControlFlow::Continue(())
}

fn spooled(spool: &Path, name: &SegmentName) -> io::Result<Option<SegmentInfo>> {
    let path = spool.join(name.file());
    match fs::metadata(&path) {
        Ok(file) => Ok(Some(SegmentInfo { name: name.clone(), place: Place::Spool(path), bytes: file.len() })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn in_spool(spool: &Path) -> io::Result<Vec<SegmentName>> {
    match dir::names(spool) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    }
}

#[cfg(test)]
mod tests;
