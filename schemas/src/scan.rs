//! Structure without meaning: where the members of an object and the items of an array begin and end.
//!
//! Owns: an iterative scan that any nesting, `NaN` or lone surrogate passes, so that one broken event of many
//! does not take the others with it. Does not own: whether an item is valid JSON (`json::parse` says that later).
//! Invariants: no recursion; memory is one byte per open bracket, never more than the input.

use std::ops::{ControlFlow, Range};

/// The brackets or quotes of the text do not close where they must. `at` is a byte offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("structure broken at byte {at}")]
pub struct ScanError {
    pub at: usize,
}

/// A member of an object: the key as written between its quotes (escapes not decoded) and where its value stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member<'a> {
    pub key: &'a [u8],
    pub value: Range<usize>,
}

pub fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// The end of the value that begins at `at` (no white space before it).
pub fn skip_value(bytes: &[u8], at: usize) -> Result<usize, ScanError> {
    match bytes.get(at) {
        Some(b'"') => skip_string(bytes, at),
        Some(b'{' | b'[') => skip_nested(bytes, at),
        Some(_) => {
            let end = bytes[at..]
                .iter()
                .position(|b| matches!(b, b',' | b']' | b'}' | b':' | b'"' | b'[' | b'{' | b' ' | b'\t' | b'\n' | b'\r'))
                .map_or(bytes.len(), |n| at + n);
            if end == at { Err(ScanError { at }) } else { Ok(end) }
        }
        None => Err(ScanError { at }),
    }
}

fn skip_string(bytes: &[u8], at: usize) -> Result<usize, ScanError> {
    let mut at = at + 1;
    loop {
        let rest = bytes.get(at..).ok_or(ScanError { at: bytes.len() })?;
        let next = memchr::memchr2(b'"', b'\\', rest).ok_or(ScanError { at: bytes.len() })?;
        at += next + 1;
        if rest[next] == b'"' {
            return Ok(at);
        }
        at += 1;
    }
}

fn skip_nested(bytes: &[u8], start: usize) -> Result<usize, ScanError> {
    let mut open: Vec<u8> = Vec::with_capacity(16);
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = skip_string(bytes, at)?;
                continue;
            }
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' => {
                if open.pop() != Some(*byte) {
                    return Err(ScanError { at });
                }
                if open.is_empty() {
                    return Ok(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    Err(ScanError { at })
}

/// Visits the members of the object that begins at `at`, without allocation. The end of the object, or `None` when
/// `visit` broke off.
pub fn each_member<'a>(
    bytes: &'a [u8],
    at: usize,
    mut visit: impl FnMut(Member<'a>) -> ControlFlow<()>,
) -> Result<Option<usize>, ScanError> {
    if bytes.get(at) != Some(&b'{') {
        return Err(ScanError { at });
    }
    let mut at = skip_space(bytes, at + 1);
    if bytes.get(at) == Some(&b'}') {
        return Ok(Some(at + 1));
    }
    loop {
        if bytes.get(at) != Some(&b'"') {
            return Err(ScanError { at });
        }
        let end = skip_string(bytes, at)?;
        let key = &bytes[at + 1..end - 1];
        at = skip_space(bytes, end);
        if bytes.get(at) != Some(&b':') {
            return Err(ScanError { at });
        }
        at = skip_space(bytes, at + 1);
        let end = skip_value(bytes, at)?;
        if visit(Member { key, value: at..end }).is_break() {
            return Ok(None);
        }
        at = skip_space(bytes, end);
        match bytes.get(at) {
            Some(b',') => at = skip_space(bytes, at + 1),
            Some(b'}') => return Ok(Some(at + 1)),
            _ => return Err(ScanError { at }),
        }
    }
}

/// Visits the items of the array that begins at `at`, as `each_member` does.
pub fn each_item(bytes: &[u8], at: usize, mut visit: impl FnMut(Range<usize>) -> ControlFlow<()>) -> Result<Option<usize>, ScanError> {
    if bytes.get(at) != Some(&b'[') {
        return Err(ScanError { at });
    }
    let mut at = skip_space(bytes, at + 1);
    if bytes.get(at) == Some(&b']') {
        return Ok(Some(at + 1));
    }
    loop {
        let end = skip_value(bytes, at)?;
        if visit(at..end).is_break() {
            return Ok(None);
        }
        at = skip_space(bytes, end);
        match bytes.get(at) {
            Some(b',') => at = skip_space(bytes, at + 1),
            Some(b']') => return Ok(Some(at + 1)),
            _ => return Err(ScanError { at }),
        }
    }
}

/// The members of the object that begins at `at`, and where it ends.
pub fn members(bytes: &[u8], at: usize) -> Result<(Vec<Member<'_>>, usize), ScanError> {
    let mut found = Vec::new();
    let end = each_member(bytes, at, |member| {
        found.push(member);
        ControlFlow::Continue(())
    })?;
    Ok((found, end.expect("the visit never breaks off")))
}

/// The items of the array that begins at `at`, and where it ends.
pub fn items(bytes: &[u8], at: usize) -> Result<(Vec<Range<usize>>, usize), ScanError> {
    let mut found = Vec::new();
    let end = each_item(bytes, at, |item| {
        found.push(item);
        ControlFlow::Continue(())
    })?;
    Ok((found, end.expect("the visit never breaks off")))
}

/// The value of the last member named `key` of the object that begins at `at`; `None` also when the object is broken.
pub fn member<'a>(bytes: &'a [u8], at: usize, key: &str) -> Option<&'a [u8]> {
    let (found, _) = members(bytes, at).ok()?;
    found.into_iter().rev().find(|m| m.key == key.as_bytes()).map(|m| &bytes[m.value])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Result<Vec<&str>, ScanError> {
        items(text.as_bytes(), 0).map(|(found, _)| found.into_iter().map(|r| &text[r]).collect())
    }

    #[test]
    fn one_broken_item_leaves_its_neighbours() {
        assert_eq!(
            texts(r#"[ {"a":1} ,{"v":NaN},{"s":"\ud800]"}, 01,"x\"]" ]"#),
            Ok(vec![r#"{"a":1}"#, r#"{"v":NaN}"#, r#"{"s":"\ud800]"}"#, "01", r#""x\"]""#])
        );
    }

    #[test]
    fn nesting_of_any_depth_is_one_item() {
        let deep = format!("[{}{},1]", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(texts(&deep).map(|t| t.len()), Ok(2));
    }

    #[test]
    fn what_does_not_close_is_an_error() {
        for text in ["[", "[1", "[1,", "[1,]", "[{]", "[\"a]", "[\"\\", "[1 2]", "{}", ""] {
            assert!(texts(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn members_are_found_with_the_last_of_repeated_keys() {
        let text = br#"{"a": {"b":[1,2]} ,"c":"x","a":3}"#;
        let (found, end) = members(text, 0).expect("closed");
        assert_eq!(end, text.len());
        assert_eq!(
            found.iter().map(|m| std::str::from_utf8(&text[m.value.clone()]).expect("ascii")).collect::<Vec<_>>(),
            [r#"{"b":[1,2]}"#, "\"x\"", "3"]
        );
        assert_eq!(member(text, 0, "a"), Some(&b"3"[..]));
        assert_eq!(member(text, 0, "z"), None);
    }
}
