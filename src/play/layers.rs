//! The encodings around a body, taken off to reach the ids inside and put back on as they were.
//!
//! Owns: gzip, deflate, zstd, brotli, `data=` forms, base64 text, lz-string. Does not own: what is inside.
//! Invariant: `wrap(layers, inside)` decodes to `inside`, in the same form as the recorded body; only compressed bytes may differ.

use anyhow::{Context, Result, bail};
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, Engine};
use std::io::{Read, Write};

/// More layers than any SDK puts around a body.
const LAYERS_MAX: usize = 6;
/// A recorded body does not inflate beyond this.
const INFLATED_BYTES_MAX: u64 = 256 << 20;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Layer {
    Gzip,
    Zlib,
    Zstd,
    Brotli,
    /// The value of `data` in a form; what stands before and after it stays. `percent`: the value is percent-encoded.
    Form {
        before: Vec<u8>,
        after: Vec<u8>,
        percent: bool,
    },
    Base64 {
        url_safe: bool,
        padded: bool,
    },
    Lz64,
}

/// Takes off every layer that is there. `content_encoding` and `compression` (query) are hints; the bytes decide.
pub fn unwrap(bytes: &[u8], content_encoding: Option<&str>, compression: Option<&str>) -> (Vec<Layer>, Vec<u8>) {
    let mut layers = Vec::new();
    let mut inside = bytes.to_vec();
    while layers.len() < LAYERS_MAX {
        let encoding = if layers.is_empty() { content_encoding } else { None };
        let Some((layer, next)) = outermost(&inside, encoding, compression) else { break };
        layers.push(layer);
        inside = next;
    }
    (layers, inside)
}

fn outermost(bytes: &[u8], content_encoding: Option<&str>, compression: Option<&str>) -> Option<(Layer, Vec<u8>)> {
    if bytes.starts_with(b"\x1f\x8b") {
        return Some((Layer::Gzip, inflate(flate2::read::MultiGzDecoder::new(bytes))?));
    }
    match content_encoding.map(str::trim) {
        Some("deflate") => return Some((Layer::Zlib, inflate(flate2::read::ZlibDecoder::new(bytes))?)),
        Some("zstd") => return Some((Layer::Zstd, inflate(zstd::stream::read::Decoder::new(bytes).ok()?)?)),
        Some("br") => return Some((Layer::Brotli, inflate(brotli::Decompressor::new(bytes, 4096))?)),
        _ => {}
    }
    if matches!(bytes.first(), None | Some(b'{' | b'[' | b' ' | b'\n' | b'\xef')) {
        return None;
    }
    if let Some(form) = form(bytes) {
        return Some(form);
    }
    if compression == Some("lz64") {
        let text: Vec<u16> = bytes.iter().map(|b| u16::from(*b)).collect();
        let inside = lz_str::decompress_from_base64(&String::from_utf16(&text).ok()?)?;
        return Some((Layer::Lz64, String::from_utf16(&inside).ok()?.into_bytes()));
    }
    base64_text(bytes)
}

fn inflate(reader: impl Read) -> Option<Vec<u8>> {
    let mut inside = Vec::new();
    reader.take(INFLATED_BYTES_MAX).read_to_end(&mut inside).ok()?;
    Some(inside)
}

fn form(bytes: &[u8]) -> Option<(Layer, Vec<u8>)> {
    let start = if bytes.starts_with(b"data=") { 5 } else { bytes.windows(6).position(|w| w == b"&data=")? + 6 };
    let end = bytes[start..].iter().position(|b| *b == b'&').map_or(bytes.len(), |n| start + n);
    let value = &bytes[start..end];
    let percent = value.contains(&b'%') || !value.iter().any(|b| matches!(b, b'=' | b'/' | b'+' | b'{' | b'['));
    Some((Layer::Form { before: bytes[..start].to_vec(), after: bytes[end..].to_vec(), percent }, percent_decode(value)))
}

fn percent_decode(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        let hex = |n: usize| value.get(at + n).and_then(|b| char::from(*b).to_digit(16));
        match (byte, hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// As `encodeURIComponent` does it.
fn percent_encode(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(byte) {
            out.push(*byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

fn base64_text(bytes: &[u8]) -> Option<(Layer, Vec<u8>)> {
    let text = bytes.trim_ascii();
    let url_safe = text.iter().any(|b| matches!(b, b'-' | b'_'));
    let inside = engine(url_safe, false).decode(text).ok()?;
    // Text of the base64 alphabet alone is not yet base64: what is inside must be a body again.
    matches!(inside.first(), Some(b'{' | b'[' | 0x1f))
        .then(|| (Layer::Base64 { url_safe, padded: text.ends_with(b"=") || text.len().is_multiple_of(4) }, inside))
}

fn engine(url_safe: bool, padded: bool) -> GeneralPurpose {
    let alphabet = if url_safe { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
    GeneralPurpose::new(
        alphabet,
        GeneralPurposeConfig::new().with_encode_padding(padded).with_decode_padding_mode(DecodePaddingMode::Indifferent),
    )
}

/// Puts the layers back on, innermost first.
pub fn wrap(layers: &[Layer], inside: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = inside.to_vec();
    for layer in layers.iter().rev() {
        bytes = wrap_one(layer, &bytes)?;
    }
    Ok(bytes)
}

fn wrap_one(layer: &Layer, inside: &[u8]) -> Result<Vec<u8>> {
    Ok(match layer {
        Layer::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::with_capacity(inside.len() / 2), flate2::Compression::fast());
            encoder.write_all(inside)?;
            encoder.finish()?
        }
        Layer::Zlib => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::with_capacity(inside.len() / 2), flate2::Compression::fast());
            encoder.write_all(inside)?;
            encoder.finish()?
        }
        Layer::Zstd => zstd::bulk::compress(inside, 1)?,
        Layer::Brotli => {
            let mut out = Vec::new();
            brotli::CompressorWriter::new(&mut out, 4096, 1, 20).write_all(inside)?;
            out
        }
        Layer::Form { before, after, percent } => {
            let mut out = before.clone();
            if *percent {
                percent_encode(inside, &mut out);
            } else {
                out.extend_from_slice(inside);
            }
            out.extend_from_slice(after);
            out
        }
        Layer::Base64 { url_safe, padded } => engine(*url_safe, *padded).encode(inside).into_bytes(),
        Layer::Lz64 => {
            let text = std::str::from_utf8(inside).context("what lz-string holds is text")?;
            let packed = lz_str::compress_to_base64(text);
            if packed.is_empty() {
                bail!("lz-string gave nothing");
            }
            packed.into_bytes()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_off_is_put_back_on() {
        let json = br#"{"batch":[{"messageId":"m-1","properties":{"a":"\u00fc & = + %"}}]}"#;
        let base64 = Layer::Base64 { url_safe: false, padded: true };
        let form = |percent| Layer::Form { before: b"ip=1&data=".to_vec(), after: b"&ver=2".to_vec(), percent };
        for layers in [
            vec![],
            vec![Layer::Gzip],
            vec![base64.clone()],
            vec![form(true)],
            vec![form(true), base64.clone()],
            vec![form(false), base64.clone()],
            vec![Layer::Gzip, form(true), base64, Layer::Gzip],
        ] {
            let body = wrap(&layers, json).expect("wraps");
            let (found, inside) = unwrap(&body, None, None);
            assert_eq!((found, &inside[..]), (layers, &json[..]), "{}", String::from_utf8_lossy(&body));
        }
        for (layer, label) in [(Layer::Zlib, "deflate"), (Layer::Zstd, "zstd"), (Layer::Brotli, "br")] {
            let body = wrap(std::slice::from_ref(&layer), json).expect("wraps");
            assert_eq!(unwrap(&body, Some(label), None), (vec![layer], json.to_vec()));
        }
        let body = wrap(&[Layer::Lz64], json).expect("wraps");
        assert_eq!(unwrap(&body, None, Some("lz64")), (vec![Layer::Lz64], json.to_vec()));
    }

    #[test]
    fn plain_bodies_have_no_layer() {
        for body in ["", "{}", "[1]", "  {}", "hello", "abcd"] {
            assert_eq!(unwrap(body.as_bytes(), None, None), (vec![], body.as_bytes().to_vec()));
        }
    }
}
