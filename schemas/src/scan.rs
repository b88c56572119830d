//! Structure without meaning: where the members of an object and the items of an array begin and end.
//!
//! Owns: an iterative scan that any nesting, `NaN` or lone surrogate passes, so that one broken event of many
//! does not take the others with it. Does not own: whether an item is valid JSON (`json::parse` says that later).
//! Invariants: no recursion; memory is one bit per open bracket.

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

/// Most strings are short, so the first words are looked through here; only a long one is worth memchr's set-up.
fn skip_string(bytes: &[u8], at: usize) -> Result<usize, ScanError> {
    let end = ScanError { at: bytes.len() };
    let mut at = at + 1;
    loop {
        at = quote_or_backslash(bytes, at).ok_or(end)?;
        if bytes[at] == b'"' {
            return Ok(at + 1);
        }
        at += 2;
    }
}

fn quote_or_backslash(bytes: &[u8], mut at: usize) -> Option<usize> {
    const SHORT_WORDS: usize = 6;
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // The lowest bit set is that of the first byte that is zero; bits above it may be borrowed.
    let zeros = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    for _ in 0..SHORT_WORDS {
        let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) else { break };
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ (LOW * u64::from(b'"'))) | zeros(word ^ (LOW * u64::from(b'\\')));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr::memchr2(b'"', b'\\', bytes.get(at..)?).map(|next| at + next)
}

fn skip_nested(bytes: &[u8], start: usize) -> Result<usize, ScanError> {
    let mut open = Open::default();
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = skip_string(bytes, at)?;
                continue;
            }
            b'{' | b'[' => open.push(*byte == b'{'),
            b'}' | b']' => {
                if open.pop() != Some(*byte == b'}') {
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

/// The open brackets, a bit each: set for an object. The first 64 need no allocation.
#[derive(Default)]
struct Open {
    bits: u64,
    count: u32,
    full: Vec<u64>,
}

impl Open {
    fn push(&mut self, object: bool) {
        if self.count == u64::BITS {
            self.full.push(self.bits);
            self.count = 0;
        }
        self.bits = self.bits << 1 | u64::from(object);
        self.count += 1;
    }
    fn pop(&mut self) -> Option<bool> {
        if self.count == 0 {
            self.bits = self.full.pop()?;
            self.count = u64::BITS;
        }
        let object = self.bits & 1 == 1;
        self.bits >>= 1;
        self.count -= 1;
        Some(object)
    }
    fn is_empty(&self) -> bool {
        self.count == 0 && self.full.is_empty()
    }
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
        for depth in [63, 64, 65, 128, 129] {
            let mixed = format!("[{}{}]", "{\"a\":[".repeat(depth), "]}".repeat(depth));
            assert_eq!(texts(&mixed).map(|t| t.len()), Ok(1), "{depth}");
            let crossed = format!("[{}}}]{}]", "{\"a\":[".repeat(depth), "]}".repeat(depth - 1));
            assert!(texts(&crossed).is_err(), "{depth}");
        }
    }

    #[test]
    fn strings_of_any_length_end_at_their_quote() {
        for length in 0..140 {
            for inside in ["", "\\\"", "\\\\", "\u{1}"] {
                let string = format!("\"{}{inside}{}\"", "x".repeat(length), "!#".repeat(3));
                assert_eq!(texts(&format!("[{string},\"y\"]")), Ok(vec![string.as_str(), "\"y\""]), "{length}");
                assert!(texts(&format!("[{}", &string[..string.len() - 1])).is_err(), "{length}");
            }
        }
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
