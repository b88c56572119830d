//! Percent-encoding, as URLs and query strings use it.

/// `%XX` becomes its byte, with `plus` also `+` a space. A `%` without two hex digits stays.
pub(crate) fn decode(text: &[u8], plus: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match (byte, text.get(at + 1).and_then(hex), text.get(at + 2).and_then(hex)) {
            (b'%', Some(high), Some(low)) => {
                out.push(high << 4 | low);
                at += 3;
                continue;
            }
            (b'+', ..) if plus => out.push(b' '),
            _ => out.push(*byte),
        }
        at += 1;
    }
    out
}

fn hex(digit: &u8) -> Option<u8> {
    char::from(*digit).to_digit(16).map(|n| n as u8)
}

/// Encodes what cannot stand in a path segment or a query value. Brackets stay: our own marks use them.
pub(crate) fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'\'' | b'(' | b')' | b'*' | b',' | b':' | b'@' | b'[' | b']' => {
                out.push(char::from(byte))
            }
            other => {
                out.push('%');
                for nibble in [other >> 4, other & 15] {
                    out.push(char::from_digit(u32::from(nibble), 16).expect("a nibble is a hex digit").to_ascii_uppercase());
                }
            }
        }
    }
}
