//! Split: where the events of a decoded body stand.
//!
//! Owns: the three shapes of a body (one event, an array, an object around a list) and one event a line; iterative,
//! so that any nesting, `NaN` or lone surrogate in one event leaves its neighbours alone. Does not own: whether an
//! event is valid JSON (the enricher's `decode`).
//! Invariants: no recursion; no more than `max` ranges are ever held; ranges are in order and do not overlap.

use crate::dialect::Spec;
use crate::text;
use forebay_schemas::scan::{self, ScanError, skip_space, skip_value};
use std::ops::{ControlFlow, Range};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SplitError {
    /// No shape fits: brackets do not close, or it is no JSON at all.
    Unreadable,
    /// More than `max` events.
    TooMany,
}

impl From<ScanError> for SplitError {
    fn from(_: ScanError) -> SplitError {
        SplitError::Unreadable
    }
}

/// Where a body's text begins: behind a byte order mark and white space.
pub fn begin(bytes: &[u8]) -> usize {
    skip_space(bytes, if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 })
}

/// The places of the events in `bytes`, in order.
pub fn events(bytes: &[u8], spec: &Spec, max: usize) -> Result<Vec<Range<usize>>, SplitError> {
    let start = begin(bytes);
    let whole = match bytes.get(start) {
        Some(b'[') => list(bytes, start, max),
        Some(b'{') => object(bytes, start, spec, max),
        _ => Err(SplitError::Unreadable),
    };
    match whole {
        Ok((found, end)) if skip_space(bytes, end) == bytes.len() => Ok(found),
        Err(SplitError::TooMany) => Err(SplitError::TooMany),
        Ok(_) | Err(SplitError::Unreadable) if spec.lines => lines(bytes, start, max),
        Ok(_) | Err(SplitError::Unreadable) => Err(SplitError::Unreadable),
    }
}

fn list(bytes: &[u8], at: usize, max: usize) -> Result<(Vec<Range<usize>>, usize), SplitError> {
    let mut found = Vec::new();
    let end = scan::each_item(bytes, at, |item| {
        if found.len() == max {
            return ControlFlow::Break(());
        }
        found.push(item);
        ControlFlow::Continue(())
    })?;
    end.map(|end| (found, end)).ok_or(SplitError::TooMany)
}

/// One event, or the list that stands in it.
fn object(bytes: &[u8], start: usize, spec: &Spec, max: usize) -> Result<(Vec<Range<usize>>, usize), SplitError> {
    let mut listed = None;
    let end = walk(bytes, start, &mut |key, value| {
        if spec.list.is_none_or(|list| text::unescape(key) != list.as_bytes()) {
            return Ok(None);
        }
        let (found, end) = list(bytes, value, max)?;
        listed = Some(found);
        Ok(Some(end))
    })?;
    let events = listed.unwrap_or_else(|| {
        // An object without a list is an event itself.
        std::iter::once(start..end).collect()
    });
    Ok((events, end))
}

/// Walks the members of the object at `at`. `visit` gets a key and where its value begins, and may say where it ends.
fn walk<'a>(
    bytes: &'a [u8],
    at: usize,
    visit: &mut dyn FnMut(&'a [u8], usize) -> Result<Option<usize>, SplitError>,
) -> Result<usize, SplitError> {
    let mut at = skip_space(bytes, at + 1);
    if bytes.get(at) == Some(&b'}') {
        return Ok(at + 1);
    }
    loop {
        if bytes.get(at) != Some(&b'"') {
            return Err(SplitError::Unreadable);
        }
        let end = skip_value(bytes, at)?;
        let key = &bytes[at + 1..end - 1];
        at = skip_space(bytes, end);
        if bytes.get(at) != Some(&b':') {
            return Err(SplitError::Unreadable);
        }
        at = skip_space(bytes, at + 1);
        let end = match visit(key, at)? {
            Some(end) => end,
            None => skip_value(bytes, at)?,
        };
        at = skip_space(bytes, end);
        match bytes.get(at) {
            Some(b',') => at = skip_space(bytes, at + 1),
            Some(b'}') => return Ok(at + 1),
            _ => return Err(SplitError::Unreadable),
        }
    }
}

/// One event a line. The first line must be a whole object, else the body is something else that is broken, or empty.
fn lines(bytes: &[u8], start: usize, max: usize) -> Result<Vec<Range<usize>>, SplitError> {
    let mut found = Vec::new();
    let mut at = start;
    while at < bytes.len() {
        let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |n| at + n);
        let from = skip_space(&bytes[..end], at);
        let to = from + bytes[from..end].trim_ascii_end().len();
        if found.is_empty() && (bytes.get(from) != Some(&b'{') || skip_value(&bytes[..end], from) != Ok(to)) {
            return Err(SplitError::Unreadable);
        }
        if from < to {
            if found.len() == max {
                return Err(SplitError::TooMany);
            }
            found.push(from..to);
        }
        at = end + 1;
    }
    if found.is_empty() { Err(SplitError::Unreadable) } else { Ok(found) }
}

/// Visits what stands beside the list of events, if the body is an object around one: raw keys and raw values.
/// The list itself is stepped over without being read again.
pub fn beside<'a>(bytes: &'a [u8], events: &[Range<usize>], visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
    let start = begin(bytes);
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
    if bytes.get(start) != Some(&b'{') || first.start <= start {
        return;
    }
    let list = |value: usize| bytes.get(value) == Some(&b'[') && skip_space(bytes, value + 1) == first.start;
    // The body was split before, so the walk cannot fail; if it did, less would be found.
    let _ = walk(bytes, start, &mut |key, value| {
        if list(value) {
            return Ok(Some(skip_space(bytes, last.end) + 1));
        }
        let end = skip_value(bytes, value)?;
        visit(key, &bytes[value..end]);
        Ok(Some(end))
    });
}

#[cfg(test)]
mod tests;
