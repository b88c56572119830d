//! lz-string's base64 form, which PostHog's SDKs sent as `compression=lz64`.
//!
//! Owns: a decoder whose memory is its output. The `lz-str` crate keeps each dictionary entry as a text of its own,
//! so that a small body can grow it with the square of its length; here an entry is a place in the output, since each
//! one is what was just written and the first unit of what comes next.

use super::TooLarge;

/// UTF-16 units and where each dictionary entry stands in them.
struct Output {
    units: Vec<u16>,
    entries: Vec<Place>,
}

#[derive(Clone, Copy)]
struct Place {
    from: usize,
    len: usize,
}

impl Output {
    /// The entry of this index. The one that is not there yet is what was written last and its own first unit.
    fn entry(&self, index: usize, last: Option<Place>) -> Option<Place> {
        if index == self.entries.len() {
            return last.map(|last| Place { len: last.len + 1, ..last });
        }
        self.entries.get(index).copied()
    }
    /// Writes an entry again; unit by unit, for it may reach into what is being written.
    fn copy(&mut self, entry: Place) -> Place {
        let from = self.units.len();
        for n in entry.from..entry.from + entry.len {
            self.units.push(self.units[n]);
        }
        Place { from, len: entry.len }
    }
}

struct Bits<'a> {
    sextets: std::slice::Iter<'a, u8>,
    current: u8,
    left: u32,
}

impl Bits<'_> {
    /// `n` bits, the lowest first; `None` at the end, or at a byte that is no base64.
    fn take(&mut self, n: u32) -> Option<u32> {
        let mut value = 0;
        for place in 0..n {
            if self.left == 0 {
                self.current = sextet(*self.sextets.next()?)?;
                self.left = 6;
            }
            self.left -= 1;
            value |= u32::from(self.current >> self.left & 1) << place;
        }
        Some(value)
    }
}

fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        // A space was a `+` before a form was read; URL-safe text was sent as well.
        b'+' | b' ' | b'-' => 62,
        b'/' | b'_' => 63,
        b'=' => 0,
        _ => return None,
    })
}

/// The text, as UTF-8 (a lone surrogate as its three bytes, so that nothing is changed); `None` when it is no lz-string.
pub(super) fn decode(bytes: &[u8], max: usize) -> Result<Option<Vec<u8>>, TooLarge> {
    match units(bytes.trim_ascii(), max) {
        Ok(Some(units)) => {
            let text = utf8(&units);
            if text.len() > max { Err(TooLarge) } else { Ok(Some(text)) }
        }
        Ok(None) => Ok(None),
        Err(too_large) => Err(too_large),
    }
}

/// Codes below the dictionary: a unit of 8 or of 16 bits follows; the end.
const UNIT8: u32 = 0;
const UNIT16: u32 = 1;
const END: u32 = 2;
const FIRST_ENTRY: usize = 3;

fn units(bytes: &[u8], max: usize) -> Result<Option<Vec<u16>>, TooLarge> {
    let mut bits = Bits { sextets: bytes.iter(), current: 0, left: 0 };
    let mut out = Output { units: Vec::new(), entries: Vec::new() };
    // What was written last; before the first piece codes have two bits.
    let mut last: Option<Place> = None;
    let mut width = 2;
    loop {
        let Some(code) = bits.take(width) else { return Ok(None) };
        let piece = match code {
            END => return Ok(Some(out.units)),
            UNIT8 | UNIT16 => {
                let Some(unit) = bits.take(if code == UNIT8 { 8 } else { 16 }) else { return Ok(None) };
                let place = Place { from: out.units.len(), len: 1 };
                out.units.push(unit as u16);
                out.entries.push(place);
                place
            }
            code => match out.entry(code as usize - FIRST_ENTRY, last) {
                Some(entry) => out.copy(entry),
                None => return Ok(None),
            },
        };
        if out.units.len() > max {
            return Err(TooLarge);
        }
        if let Some(last) = last {
            out.entries.push(Place { len: last.len + 1, ..last });
        }
        last = Some(piece);
        // One more entry than there is may be named by the next code, and a literal adds one of its own.
        width = usize::BITS - (out.entries.len() + FIRST_ENTRY).leading_zeros();
    }
}

fn utf8(units: &[u16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(units.len());
    for unit in char::decode_utf16(units.iter().copied()) {
        match unit {
            Ok(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(lone) => {
                let code = lone.unpaired_surrogate();
                out.extend_from_slice(&[0xe0 | (code >> 12) as u8, 0x80 | (code >> 6 & 0x3f) as u8, 0x80 | (code & 0x3f) as u8]);
            }
        }
    }
    out
}
