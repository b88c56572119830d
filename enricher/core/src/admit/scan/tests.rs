use super::redact;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;

fn check(text: &str, expected: &str) {
    assert_eq!(redact(text).as_deref().unwrap_or(text), expected, "{text:?}");
}

#[test]
fn what_must_not_be_told_is_marked() {
    for (text, expected) in [
        ("mail pat@example.com now", "mail [email] now"),
        ("<Pat.O'Neil+x@mail.example.co.uk>, ok", "<[email]>, ok"),
        ("jürgen@exämple.de", "[email]"),
        ("a＠b.example", "[email]"),
        ("\"pat smith\"@example.com", "[email]"),
        ("root@localhost", "[email]"),
        ("email=pat@example.com&x=1", "email=[email]&x=1"),
        ("pat%40example.com", "[email]"),
        ("pat%2540example.com", "[email]"),
        ("pat\\u0040example.com", "[email]"),
        ("pat&#64;example.com or pat&#x40;example.de", "[email] or [email]"),
        ("pat\u{200b}@example.com", "[email]"),
        ("+４９ １７０ ５５５０１２３", "[phone]"),
        ("call +49 170 5550123!", "call [phone]!"),
        ("+1 (202) 555-0143", "[phone]"),
        ("(202) 555-0143", "[phone]"),
        ("202.555.0143", "[phone]"),
        ("030/1234567", "[phone]"),
        ("2025550143", "[phone]"),
        ("555-0143", "[phone]"),
        ("%2B12025550143", "[phone]"),
        ("card 4111 1111 1111 1111.", "card [card]."),
        ("4111-1111-1111-1111", "[card]"),
        ("378282246310005", "[card]"),
        ("no 5 4111111111111111", "no 5 [card]"),
        ("from 203.0.113.7:8080", "from [ip]:8080"),
        ("[2001:db8::7]:443", "[[ip]]:443"),
        ("::1", "[ip]"),
        ("::ffff:203.0.113.7", "[ip]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "[token]"),
        ("key sk_live_abcdefgh", "key [token]"),
        ("AKIAIOSFODNN7EXAMPLE", "[token]"),
        ("tok_9f8e7d6c5b", "[token]"),
        ("id 9f8e7d6c5b4a", "id [token]"),
        ("dGhpc2lzYXRva2Vu", "[token]"),
        ("DE89 3704 0044 0532 0130 00", "DE[token]"),
        ("123-45-6789", "[phone]"),
        ("4242_4242_4242_4242", "[card]"),
        ("+49 (0)170 555 0123", "[phone]"),
        ("d41d8cd98f00b204e9800998ecf8427e", "[token]"),
        ("id 550e8400-e29b-41d4-a716-446655440000", "id [token]"),
        ("Zm9vYmFyQmF6UXV4MTIzNDU2", "[token]"),
        ("Authorization: Bearer abcd1234efgh", "Authorization: Bearer [token]"),
        ("password=hunter2&x", "password=[token]&x"),
        ("api_key: 1234abcd", "api_key: [token]"),
        ("00000000000000000000", "[token]"),
    ] {
        check(text, expected);
    }
}

#[test]
fn what_people_write_stays() {
    for text in [
        "",
        "Ünïcode 🙂   \"quoted\" \\ back",
        "日本語 🙂",
        "Product Clicked",
        "iPhone15ProMax256GBSpaceBlack",
        "SamsungGalaxyS24 Ultra, MacBookPro16",
        "h264-1080p-60fps, mp3 player",
        "how-to-build-a-house-in-2024-with-5-rooms",
        "2026-01-01T00:00:00.123456+00:00",
        "30.11.2026, 10:00:00",
        "1796021312504",
        "logo@2x.png",
        "react@18.2.0/umd",
        "@handle met @ 5pm",
        "1280x720",
        "EUR 1,299.99",
        "2024-2025",
        "std::vec and a:b",
        "analytics.js/npm:next-1.84.3",
        "Mozilla/5.0",
        "100% cotton, 50%",
        "Größe „M“ & more \\users\\x",
        "basic training starts",
        "internationalization",
        "[email] [phone] [card] [ip] [token]",
    ] {
        check(text, text);
    }
}

#[test]
fn encoded_parts_are_looked_into() {
    for secret in ["pat@example.com", "+49 170 5550123", "4111 1111 1111 1111", "203.0.113.77", "tok_9f8e7d6c5b4a"] {
        let encoded: String = secret.bytes().map(|b| format!("%{b:02X}")).collect();
        let twice = encoded.replace('%', "%25");
        let base64 = STANDARD.encode(format!("to {secret}"));
        let url = URL_SAFE_NO_PAD.encode(secret);
        let nested = STANDARD.encode(&base64);
        for text in [encoded, twice, base64, url, nested] {
            let redacted = redact(&format!("x {text} y")).unwrap_or_default();
            assert!(
                redacted.starts_with("x [") && redacted.trim_end_matches(" y").trim_end_matches('=').ends_with(']'),
                "{secret}: {text} → {redacted}"
            );
        }
    }
}

proptest! {
    #[test]
    fn never_panics_and_is_done_after_one_pass(text in "[a-z0-9@.:%+/=()\\[\\] -]{0,60}|\\PC{0,40}") {
        if let Some(once) = redact(&text) {
            // What is left beside the marks has nothing left to find, but for what the marks' neighbours make of it.
            let _ = redact(&once);
        }
    }
    #[test]
    fn addresses_are_found_anywhere(before in "[a-z ]{0,8}", local in "[a-z0-9._+-]{1,12}", domain in "[a-z]{1,8}\\.(com|de|example)", after in "[ ,;)>]{0,3}") {
        let text = format!("{before} {local}@{domain}{after}");
        let redacted = redact(&text).unwrap_or_default();
        let address = format!("{local}@{domain}");
        prop_assert!(!redacted.contains(&address));
    }
}
