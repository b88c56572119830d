//! Every layer, every bomb.

use super::*;
use proptest::prelude::*;
use std::io::Write;

const EVENT: &str = r#"{"event":"Üni 🙂","uuid":"1"}"#;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    brotli::BrotliCompress(&mut &bytes[..], &mut out, &brotli::enc::BrotliEncoderParams::default()).expect("memory");
    out
}
fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).expect("memory")
}
fn b64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
fn percent(text: &str) -> String {
    text.bytes().map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
fn lz64(text: &str) -> String {
    lz_str::compress_to_base64(text)
}

fn run(body: &[u8], encoding: &str, query: &str) -> Result<Bytes, TooLarge> {
    inflate(&Bytes::copy_from_slice(body), Hints { encoding: encoding.as_bytes(), query }, Some(1 << 20))
}

#[test]
fn halves_of_characters_in_base64_are_made_whole() {
    let cesu8 = |text: &str| {
        let mut out = Vec::new();
        for unit in text.encode_utf16() {
            match char::from_u32(u32::from(unit)) {
                Some(character) => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
                None => out.extend_from_slice(&[0xe0 | (unit >> 12) as u8, 0x80 | (unit >> 6 & 0x3f) as u8, 0x80 | (unit & 0x3f) as u8]),
            }
        }
        out
    };
    for text in [EVENT, "{\"a\":\"\u{10000}\u{10ffff}é日\"}"] {
        assert_ne!(cesu8(text), text.as_bytes());
        let body = format!("data={}", percent(&b64(&cesu8(text))));
        assert_eq!(run(body.as_bytes(), "", "").expect("small"), text.as_bytes());
    }
    // Half a character stays what it is, and so does what no base64 was.
    let half = b"{\"a\":\"\xed\xa0\xbd\"}";
    assert_eq!(run(b64(half).as_bytes(), "", "").expect("small"), &half[..]);
    assert_eq!(run(&cesu8(EVENT), "", "").expect("small"), cesu8(EVENT));
}

#[test]
fn every_layer_comes_off_whatever_the_label() {
    let event = EVENT.as_bytes();
    for (body, encoding, query) in [
        (event.to_vec(), "", ""),
        (event.to_vec(), "gzip", ""),
        (event.to_vec(), "br", ""),
        (event.to_vec(), "deflate, zstd, identity, x-unknown", ""),
        (gzip(event), "gzip", ""),
        (gzip(event), "", "compression=gzip-js"),
        (gzip(event), "deflate", ""),
        (gzip(event), "br", ""),
        (gzip(&gzip(event)), "gzip", ""),
        (gzip(&gzip(event)), "gzip, gzip", ""),
        (zlib(event), "deflate", ""),
        (zlib(event), "", ""),
        (deflate(event), "deflate", ""),
        (brotli(event), "br", ""),
        (gzip(&brotli(event)), "br, gzip", ""),
        (zstd(event), "zstd", ""),
        (zstd(event), "", ""),
        (b64(event).into_bytes(), "", ""),
        (b64(event).replace('+', "-").replace('/', "_").replace('=', "").into_bytes(), "", ""),
        (b64(&gzip(event)).into_bytes(), "", ""),
        (b64(b64(event).as_bytes()).into_bytes(), "", ""),
        (format!("data={}", percent(EVENT)).into_bytes(), "", ""),
        (format!("data={}", b64(event)).into_bytes(), "", ""),
        (format!("ip=1&data={}&compression=base64", percent(&b64(event))).into_bytes(), "", "compression=base64"),
        (format!("data={}", percent(&b64(b64(event).as_bytes()))).into_bytes(), "", ""),
        (gzip(format!("data={}", percent(&b64(event))).as_bytes()), "", ""),
        (format!("data={}&compression=lz64", percent(&lz64(EVENT))).into_bytes(), "", ""),
        (lz64(EVENT).into_bytes(), "", "ver=1&compression=lz64"),
        // The label says lz, the bytes are plain base64.
        (b64(event).into_bytes(), "", "compression=lz64"),
    ] {
        let got = run(&body, encoding, query).map(|b| String::from_utf8_lossy(&b).into_owned());
        assert_eq!(got.as_deref(), Ok(EVENT), "{:?} as {encoding:?} {query:?}", String::from_utf8_lossy(&body));
    }
    // A mark before the JSON is no layer.
    assert_eq!(run("\u{feff}{}".as_bytes(), "", ""), Ok(Bytes::from("\u{feff}{}")));
}

#[test]
fn what_does_not_come_off_stays_on() {
    let whole = gzip(EVENT.as_bytes());
    for body in [
        b"".to_vec(),
        whole[..whole.len() / 2].to_vec(),
        b"plain text!".to_vec(),
        vec![0xff; 40],
        zstd(EVENT.as_bytes())[..9].to_vec(),
        b"data".to_vec(),
    ] {
        assert_eq!(run(&body, "gzip", ""), Ok(Bytes::from(body.clone())), "{body:?}");
    }
    assert_eq!(run(&gzip(b""), "gzip", ""), Ok(Bytes::new()), "an empty gzip is empty");
}

#[test]
fn bombs_are_stopped_while_they_are_read() {
    let zeros = vec![b' '; 64 << 20];
    for (body, encoding) in
        [(gzip(&zeros), "gzip"), (zlib(&zeros), ""), (deflate(&zeros), "deflate"), (zstd(&zeros), ""), (brotli(&zeros[..8 << 20]), "br")]
    {
        assert_eq!(run(&body, encoding, ""), Err(TooLarge));
    }
    assert_eq!(run(&gzip(&gzip(&zeros)), "", ""), Err(TooLarge), "a bomb in a gzip");
    let lz = lz64(&" ".repeat(2 << 20));
    assert!(lz.len() < 10_000);
    assert_eq!(run(lz.as_bytes(), "", "compression=lz64"), Err(TooLarge));
    // Below the cap but above the ratio.
    let dense = zstd(&zeros[..24 << 20]);
    assert_eq!(inflate(&dense.clone().into(), Hints::default(), Some(32 << 20)), Err(TooLarge));
    assert_eq!(inflate(&dense.into(), Hints::default(), None).map(|b| b.len()), Ok(24 << 20), "accepted before, so read again");
    assert_eq!(run(&vec![b'x'; 2 << 20], "", ""), Err(TooLarge), "no layer at all");
}

#[test]
fn a_brotli_window_of_a_gigabyte_is_no_brotli() {
    // RFC 7932 forbids the window bits 0010001; the large-window extension gives them 30 bits more.
    let body = [0x11, 0x1e, 0x00, 0x00, 0x00, 0x00];
    assert_eq!(run(&body, "br", ""), Ok(Bytes::copy_from_slice(&body)));
}

#[test]
fn layers_are_bounded() {
    let mut body = EVENT.as_bytes().to_vec();
    for _ in 0..limit::BODY_LAYERS {
        body = gzip(&body);
    }
    assert_eq!(run(&body, "", ""), Ok(Bytes::from(EVENT)));
    assert!(is_gzip(&run(&gzip(&body), "", "").expect("small")), "one more stays on");
}

proptest! {
    #[test]
    fn lz_reads_what_lz_string_writes(text in any::<String>(), repeat in 1..40usize) {
        let text = text.repeat(repeat);
        prop_assert_eq!(lz::decode(lz64(&text).as_bytes(), usize::MAX).expect("no limit").map(|b| String::from_utf8_lossy(&b).into_owned()), Some(text));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), encoding in proptest::sample::select(vec!["", "gzip", "deflate", "br", "zstd"]), query in proptest::sample::select(vec!["", "compression=lz64"])) {
        let once = run(&bytes, encoding, query);
        let again = inflate(&bytes.into(), Hints { encoding: encoding.as_bytes(), query }, None);
        if let Ok(once) = once {
            prop_assert_eq!(Ok(once), again);
        }
    }

    #[test]
    fn base64_text_never_panics(text in "[A-Za-z0-9+/=_ -]{0,200}") {
        let _ = run(text.as_bytes(), "", "compression=lz64");
    }
}
