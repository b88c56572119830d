//! One event's JSON as a borrowed tree that keeps what serde_json's loses: number text and repeated keys.
//!
//! Owns: strict RFC 8259 parsing with a depth bound, text escaping. One parser everywhere, so that no two
//! stages read an event differently. Does not own: splitting a body into events (`scan`).
//! Invariants: `parse` never recurses deeper than `max_depth`; what it accepts, serde_json's `Value` accepts
//! (checked by a property test), except numbers beyond f64, whose text is kept.

use std::borrow::Cow;

/// A JSON value. Numbers are their text, members stand in their order, repeated keys stay.
#[derive(Clone, PartialEq, Debug)]
pub enum Json<'a> {
    Null,
    Bool(bool),
    Number(Cow<'a, str>),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonErrorKind {
    Syntax,
    Utf8,
    TooDeep,
    LoneSurrogate,
}

/// Where parsing stopped. `at` is a byte offset into the input; no input is quoted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind:?} at byte {at}")]
pub struct JsonError {
    pub kind: JsonErrorKind,
    pub at: usize,
}

/// Parses one whole value; a byte order mark before it is skipped, white space around it allowed.
pub fn parse(bytes: &[u8], max_depth: usize) -> Result<Json<'_>, JsonError> {
    let skip = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let text = std::str::from_utf8(bytes).map_err(|e| JsonError { kind: JsonErrorKind::Utf8, at: e.valid_up_to() })?;
    let mut parser = Parser { text, bytes, at: skip, failed: JsonErrorKind::Syntax };
    parser.document(max_depth).ok_or(JsonError { kind: parser.failed, at: parser.at })
}

/// Most objects of events have no more members.
const MEMBERS: usize = 12;
const MEMBER: (Cow<'static, str>, Json<'static>) = (Cow::Borrowed(""), Json::Null);

/// Its functions yield `None` when the text is wrong at `at`. Values are written where they stay: handing them up was a
/// sixth of the time, for the pieces they are moved in are not those they were stored in.
struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// What is wrong, unless it is the syntax.
    failed: JsonErrorKind,
}

impl<'a> Parser<'a> {
    fn document(&mut self, max_depth: usize) -> Option<Json<'a>> {
        let mut value = Json::Null;
        self.space();
        self.value(max_depth, &mut value)?;
        self.space();
        (self.at == self.bytes.len()).then_some(value)
    }
    fn fail<T>(&mut self, kind: JsonErrorKind, at: usize) -> Option<T> {
        (self.failed, self.at) = (kind, at);
        None
    }
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }
    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
    fn literal(&mut self, word: &str) -> Option<()> {
        self.bytes[self.at..].starts_with(word.as_bytes()).then(|| self.at += word.len())
    }

    fn value(&mut self, depth: usize, out: &mut Json<'a>) -> Option<()> {
        match self.peek() {
            b'{' => *out = Json::Object(self.object(depth)?),
            b'[' => *out = Json::Array(self.array(depth)?),
            b'"' => {
                *out = Json::String(Cow::Borrowed(""));
                if let Json::String(text) = out {
                    self.string(text)?;
                }
            }
            b't' => {
                self.literal("true")?;
                *out = Json::Bool(true);
            }
            b'f' => {
                self.literal("false")?;
                *out = Json::Bool(false);
            }
            b'n' => self.literal("null")?,
            b'-' | b'0'..=b'9' => *out = Json::Number(Cow::Borrowed(self.number()?)),
            _ => return None,
        }
        Some(())
    }

    fn object(&mut self, depth: usize) -> Option<Vec<(Cow<'a, str>, Json<'a>)>> {
        let Some(depth) = depth.checked_sub(1) else { return self.fail(JsonErrorKind::TooDeep, self.at) };
        self.at += 1;
        self.space();
        if self.peek() == b'}' {
            self.at += 1;
            return Some(Vec::new());
        }
        let mut members = Vec::with_capacity(MEMBERS);
        loop {
            self.space();
            if self.peek() != b'"' {
                return None;
            }
            members.push(MEMBER);
            let (key, value) = members.last_mut()?;
            self.string(key)?;
            self.space();
            if self.peek() != b':' {
                return None;
            }
            self.at += 1;
            self.space();
            self.value(depth, value)?;
            self.space();
            match self.peek() {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(members);
                }
                _ => return None,
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Vec<Json<'a>>> {
        let Some(depth) = depth.checked_sub(1) else { return self.fail(JsonErrorKind::TooDeep, self.at) };
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == b']' {
            self.at += 1;
            return Some(items);
        }
        loop {
            self.space();
            items.push(Json::Null);
            self.value(depth, items.last_mut()?)?;
            self.space();
            match self.peek() {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Some(items);
                }
                _ => return None,
            }
        }
    }

    fn number(&mut self) -> Option<&'a str> {
        let start = self.at;
        if self.peek() == b'-' {
            self.at += 1;
        }
        match self.peek() {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits()?,
            _ => return None,
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(&self.text[start..self.at])
    }
    fn digits(&mut self) -> Option<()> {
        if !self.peek().is_ascii_digit() {
            return None;
        }
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        Some(())
    }

    fn string(&mut self, out: &mut Cow<'a, str>) -> Option<()> {
        self.at += 1;
        let start = self.at;
        self.plain()?;
        if self.peek() == b'"' {
            self.at += 1;
            *out = Cow::Borrowed(&self.text[start..self.at - 1]);
            return Some(());
        }
        let mut text = String::with_capacity(self.at - start + 32);
        text.push_str(&self.text[start..self.at]);
        loop {
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    *out = Cow::Owned(text);
                    return Some(());
                }
                _ => text.push(self.escape()?),
            }
            let from = self.at;
            self.plain()?;
            text.push_str(&self.text[from..self.at]);
        }
    }
    /// Moves to the next quote or backslash; a control character or the end of the input is an error.
    fn plain(&mut self) -> Option<()> {
        self.at += plain_length(&self.bytes[self.at..]);
        match self.bytes.get(self.at) {
            Some(b'"' | b'\\') => Some(()),
            _ => None,
        }
    }
    fn escape(&mut self) -> Option<char> {
        let at = self.at;
        self.at += 1;
        let kind = self.peek();
        self.at += 1;
        Some(match kind {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.hex4()?;
                let code = match high {
                    0xd800..=0xdbff => {
                        if !self.bytes[self.at..].starts_with(b"\\u") {
                            return self.fail(JsonErrorKind::LoneSurrogate, at);
                        }
                        self.at += 2;
                        let low = self.hex4()?;
                        if !(0xdc00..=0xdfff).contains(&low) {
                            return self.fail(JsonErrorKind::LoneSurrogate, at);
                        }
                        0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
                    }
                    other => other,
                };
                match char::from_u32(code) {
                    Some(c) => c,
                    None => return self.fail(JsonErrorKind::LoneSurrogate, at),
                }
            }
            _ => return self.fail(JsonErrorKind::Syntax, at),
        })
    }
    fn hex4(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        let mut code = 0;
        for digit in digits {
            code = code * 16 + char::from(*digit).to_digit(16)?;
        }
        self.at += 4;
        Some(code)
    }
}

impl<'a> Json<'a> {
    /// The member named `key`; of repeated keys the last.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        match self {
            Json::Object(members) => members.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }
    /// Follows member names from the root.
    pub fn at(&self, path: &[&str]) -> Option<&Json<'a>> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }
    /// The text of a string or a number: ids are often sent as numbers.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Json::String(text) | Json::Number(text) => Some(text),
            _ => None,
        }
    }
    /// An integer, also when written `3.0` or `3e0`, if it fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Json::Number(text) => text.parse().ok().or_else(|| {
                let float: f64 = text.parse().ok()?;
                (float.fract() == 0.0 && float.abs() < 9.0e15).then_some(float as i64)
            }),
            _ => None,
        }
    }
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Json::Number(text) => text.parse().ok().filter(|f: &f64| f.is_finite()),
            _ => None,
        }
    }
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }
    pub fn as_object(&self) -> Option<&[(Cow<'a, str>, Json<'a>)]> {
        match self {
            Json::Object(members) => Some(members),
            _ => None,
        }
    }
    pub fn as_array(&self) -> Option<&[Json<'a>]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }
    pub fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }
    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Json<'static> {
        match self {
            Json::Null => Json::Null,
            Json::Bool(b) => Json::Bool(b),
            Json::Number(n) => Json::Number(Cow::Owned(n.into_owned())),
            Json::String(s) => Json::String(Cow::Owned(s.into_owned())),
            Json::Array(items) => Json::Array(items.into_iter().map(Json::into_owned).collect()),
            Json::Object(members) => Json::Object(members.into_iter().map(|(k, v)| (Cow::Owned(k.into_owned()), v.into_owned())).collect()),
        }
    }
    /// As serde_json's value, for JSON Schema. Numbers beyond f64 become strings, so that they fail as numbers.
    pub fn to_serde(&self) -> serde_json::Value {
        use serde_json::Value;
        match self {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(n) => serde_json::from_str::<serde_json::Number>(n).map_or_else(|_| Value::String(n.to_string()), Value::Number),
            Json::String(s) => Value::String(s.to_string()),
            Json::Array(items) => Value::Array(items.iter().map(Json::to_serde).collect()),
            Json::Object(members) => Value::Object(members.iter().map(|(k, v)| (k.to_string(), v.to_serde())).collect()),
        }
    }
    /// Compact JSON text; of repeated keys all, in their order.
    pub fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(true) => out.push_str("true"),
            Json::Bool(false) => out.push_str("false"),
            Json::Number(n) => out.push_str(n),
            Json::String(s) => write_string(s, out),
            Json::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_string(key, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

impl std::fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

/// Writes `text` as a JSON string: quotes, backslash and control characters escaped, all else as it is.
pub fn write_string(text: &str, out: &mut String) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    loop {
        let (plain, special) = rest.split_at(plain_length(rest.as_bytes()));
        out.push_str(plain);
        let Some(&byte) = special.as_bytes().first() else { break };
        rest = &special[1..];
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            other => {
                out.push_str("\\u00");
                out.push(char::from_digit(u32::from(other >> 4), 16).expect("a nibble is a hex digit"));
                out.push(char::from_digit(u32::from(other & 15), 16).expect("a nibble is a hex digit"));
            }
        }
    }
    out.push('"');
}

/// How many bytes stand before the first quote, backslash or control character. Eight are looked at at once: a byte is
/// found where taking a number away from it borrows, and the lowest such byte is never a false one.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    let (words, rest) = bytes.as_chunks::<8>();
    for (nth, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let (quote, backslash) = (word ^ (ONES * u64::from(b'"')), word ^ (ONES * u64::from(b'\\')));
        let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word;
        let found = (below(quote, 1) | below(backslash, 1) | below(word, 0x20)) & HIGHS;
        if found != 0 {
            return nth * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let special = |&b: &u8| b == b'"' || b == b'\\' || b < 0x20;
    words.len() * 8 + rest.iter().position(special).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests;
