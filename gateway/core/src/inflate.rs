//! Inflate: takes the encodings off a body, layer by layer, until JSON is seen or nothing fits any more.
//!
//! Owns: `Content-Encoding` (gzip, deflate, br, zstd), gzip, zlib and zstd by their magic whatever the label says,
//! forms (`data=`), base64, lz-string. Does not own: what the result holds (`split`).
//! Invariants: the bytes decide, a label alone neither refuses nor spoils a body; a layer that fails is left on;
//! at most `limit::BODY_LAYERS` layers; every layer's output is capped while it is read.

mod lz;

use crate::query;
use crate::split::begin;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::GeneralPurpose;
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};
use bytes::Bytes;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use forebay_schemas::limit;
use std::borrow::Cow;
use std::io::Read;

/// A layer inflates to more than is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge;

/// What a request says about its body. All of it is a hint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hints<'a> {
    /// `Content-Encoding`, as sent.
    pub encoding: &'a [u8],
    /// The query, where PostHog's SDKs put `compression=`.
    pub query: &'a str,
}

#[derive(Clone, Copy)]
struct Cap {
    bytes: usize,
    ratio: bool,
}

impl Cap {
    /// `None` for a body that was accepted under its limit before.
    fn new(max: Option<usize>) -> Cap {
        Cap { bytes: max.unwrap_or(usize::MAX), ratio: max.is_some() }
    }
    fn of(self, input: usize) -> usize {
        if !self.ratio {
            return self.bytes;
        }
        self.bytes.min(input.saturating_mul(limit::INFLATE_RATIO).max(limit::INFLATE_RATIO_FLOOR_BYTES))
    }
}

/// The body without its encodings; `max` bytes at most, `None` for a body that was accepted under its limit before.
pub fn inflate(body: &Bytes, hints: Hints<'_>, max: Option<usize>) -> Result<Bytes, TooLarge> {
    let cap = Cap::new(max);
    let (mut bytes, mut layers) = decoded(body, hints.encoding, cap)?;
    let mut lz = is_lz(query::param(hints.query, "compression").as_deref());
    while layers < limit::BODY_LAYERS && !is_json(&bytes) {
        let Some(inner) = sniffed(&bytes, &mut lz, cap)? else { break };
        bytes = inner;
        layers += 1;
    }
    if bytes.len() > cap.bytes { Err(TooLarge) } else { Ok(bytes) }
}

/// The body without the encodings that its label names, and no others: for a body that is data, whose own form is nobody's to
/// take off.
pub(crate) fn labelled_alone(body: &Bytes, encoding: &[u8], max: Option<usize>) -> Result<Bytes, TooLarge> {
    let cap = Cap::new(max);
    let (bytes, _) = decoded(body, encoding, cap)?;
    if bytes.len() > cap.bytes { Err(TooLarge) } else { Ok(bytes) }
}

/// The body without the encodings of its label, and how many they were.
fn decoded(body: &Bytes, encoding: &[u8], cap: Cap) -> Result<(Bytes, usize), TooLarge> {
    let mut bytes = body.clone();
    let mut layers = 0;
    for coding in encoding.rsplit(|b| *b == b',').map(<[u8]>::trim_ascii) {
        if layers == limit::BODY_LAYERS {
            break;
        }
        if let Some(inner) = labelled(&bytes, coding, cap)? {
            bytes = inner;
            layers += 1;
        }
    }
    Ok((bytes, layers))
}

fn is_json(bytes: &[u8]) -> bool {
    matches!(bytes.get(begin(bytes)), Some(b'{' | b'['))
}
fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}
fn is_zstd(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}
/// RFC 1950: method 8 with a window of 32 KiB, and a header that divides by 31.
fn is_zlib(bytes: &[u8]) -> bool {
    matches!(bytes, [0x78, flags, ..] if (0x7800 + u16::from(*flags)).is_multiple_of(31))
}
fn is_lz(compression: Option<&str>) -> bool {
    matches!(compression, Some("lz64" | "lz-string"))
}

/// One label of `Content-Encoding`; `None` when the bytes are not what it says.
fn labelled(bytes: &Bytes, coding: &[u8], cap: Cap) -> Result<Option<Bytes>, TooLarge> {
    let is = |names: &[&str]| names.iter().any(|name| coding.eq_ignore_ascii_case(name.as_bytes()));
    if is(&["gzip", "x-gzip"]) && is_gzip(bytes) {
        return read(MultiGzDecoder::new(&bytes[..]), bytes.len(), cap);
    }
    if is(&["deflate"]) && is_zlib(bytes) {
        return read(ZlibDecoder::new(&bytes[..]), bytes.len(), cap);
    }
    if is(&["deflate"]) && !is_json(bytes) && !is_gzip(bytes) {
        return read(DeflateDecoder::new(&bytes[..]), bytes.len(), cap);
    }
    if is(&["zstd"]) && is_zstd(bytes) {
        return unzstd(bytes, cap);
    }
    if is(&["br"]) && !is_gzip(bytes) {
        return unbrotli(bytes, cap);
    }
    Ok(None)
}

/// One layer that the bytes themselves show; `None` when they show none, or when it does not come off.
fn sniffed(bytes: &Bytes, lz: &mut bool, cap: Cap) -> Result<Option<Bytes>, TooLarge> {
    if is_gzip(bytes) {
        return read(MultiGzDecoder::new(&bytes[..]), bytes.len(), cap);
    }
    if is_zstd(bytes) {
        return unzstd(bytes, cap);
    }
    if is_zlib(bytes) {
        return read(ZlibDecoder::new(&bytes[..]), bytes.len(), cap);
    }
    if let Some((data, compression)) = form(bytes) {
        *lz |= is_lz(compression.as_deref());
        return Ok(Some(data));
    }
    if std::mem::take(lz)
        && let Some(text) = lz::decode(bytes, cap.of(bytes.len()))?
        && is_plausible(&text)
    {
        return Ok(Some(text.into()));
    }
    Ok(base64(bytes).map(Bytes::from))
}

/// The `data` and `compression` of a form.
fn form(bytes: &[u8]) -> Option<(Bytes, Option<String>)> {
    let text = std::str::from_utf8(bytes).ok()?;
    if !text.starts_with("data=") && !text.contains("&data=") {
        return None;
    }
    let data = query::raw(text.trim_ascii_end(), "data")?;
    Some((query::bytes(data).into_owned().into(), query::param(text, "compression")))
}

/// Text that is base64 (of either alphabet, padded or not) as a whole. A space was a `+` before a form was read.
fn base64(bytes: &[u8]) -> Option<Vec<u8>> {
    const ENGINE: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true),
    );
    let trimmed = bytes.trim_ascii();
    let strange = |b: &u8| matches!(b, b'-' | b'_' | b' ' | b'\r' | b'\n');
    let text = if trimmed.iter().any(strange) {
        let standard = |b: &u8| match b {
            b'-' | b' ' => Some(b'+'),
            b'_' => Some(b'/'),
            b'\r' | b'\n' => None,
            other => Some(*other),
        };
        Cow::Owned(trimmed.iter().filter_map(standard).collect())
    } else {
        Cow::Borrowed(trimmed)
    };
    if text.is_empty() {
        return None;
    }
    ENGINE.decode(&*text).ok().filter(|inner| is_plausible(inner)).map(whole_characters)
}

/// Old base64 encoders in JavaScript take a text for a row of UTF-16 units and write a character beyond U+FFFF as two of three
/// bytes (CESU-8, Unicode TR 26), Mixpanel's among them; that is one more layer. Halves stay, for the enricher to reject.
fn whole_characters(text: Vec<u8>) -> Vec<u8> {
    if std::str::from_utf8(&text).is_ok() {
        return text;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some((&byte, after)) = rest.split_first() {
        if let [0xed, high @ 0xa0..=0xaf, more @ 0x80..=0xbf, 0xed, low @ 0xb0..=0xbf, last @ 0x80..=0xbf, tail @ ..] = rest {
            let unit = |six: u8, other: u8| u32::from(six & 0x0f) << 6 | u32::from(other & 0x3f);
            let point = 0x1_0000 + (unit(*high, *more) << 10) + unit(*low, *last);
            out.extend_from_slice(char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut [0; 4]).as_bytes());
            rest = tail;
        } else {
            out.push(byte);
            rest = after;
        }
    }
    out
}

/// Words are base64 too; what comes out of real base64 is JSON, compressed, or text again.
fn is_plausible(inner: &[u8]) -> bool {
    let text = || !inner.is_empty() && inner.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
    is_json(inner) || is_gzip(inner) || is_zstd(inner) || is_zlib(inner) || text()
}

fn unzstd(bytes: &Bytes, cap: Cap) -> Result<Option<Bytes>, TooLarge> {
    let Ok(mut decoder) = zstd::stream::read::Decoder::with_buffer(&bytes[..]) else { return Ok(None) };
    if decoder.window_log_max(limit::ZSTD_WINDOW_LOG).is_err() {
        return Ok(None);
    }
    read(decoder, bytes.len(), cap)
}

/// Reads to the end or to the cap; `None` when the data is broken. Memory is bound by the cap, not by what the data claims.
fn read(decoder: impl Read, input: usize, cap: Cap) -> Result<Option<Bytes>, TooLarge> {
    let max = cap.of(input);
    let mut out = Vec::with_capacity(input.saturating_mul(4).min(max).min(1 << 20));
    match decoder.take((max as u64).saturating_add(1)).read_to_end(&mut out) {
        Ok(_) if out.len() > max => Err(TooLarge),
        Ok(_) => Ok(Some(out.into())),
        Err(_) => Ok(None),
    }
}

/// Brotli within RFC 7932's window of 16 MiB: the crate's own reader would also take windows of a gigabyte.
fn unbrotli(bytes: &Bytes, cap: Cap) -> Result<Option<Bytes>, TooLarge> {
    use brotli::enc::StandardAlloc;
    use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
    let max = cap.of(bytes.len());
    let alloc = StandardAlloc::default;
    let mut state = BrotliState::new_strict(alloc(), alloc(), alloc());
    let (mut left, mut at, mut total) = (bytes.len(), 0, 0);
    let mut out = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        let (mut room, mut filled) = (piece.len(), 0);
        let result = BrotliDecompressStream(&mut left, &mut at, bytes, &mut room, &mut filled, &mut piece, &mut total, &mut state);
        out.extend_from_slice(&piece[..filled]);
        if out.len() > max {
            return Err(TooLarge);
        }
        match result {
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultSuccess if left == 0 => return Ok(Some(out.into())),
            BrotliResult::ResultSuccess | BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
