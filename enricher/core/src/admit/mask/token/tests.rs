//! Golden values that an independent script computed.

use super::*;
use crate::keys::KeyRing;
use crate::seal::{self, BadPublicKey};
use serde_json::Value;

#[test]
fn golden() {
    let vectors: Value = serde_json::from_str(include_str!("../../../../../../schemas/vectors/tokens.json")).expect("JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let keys = Keys {
        mask: KeyRing::parse(&text(&vectors["ring"])).expect("a ring"),
        groups: BTreeMap::from([("eu".to_owned(), "eu".to_owned())]),
        bad: BadPublicKey::parse(&seal::generate(&[1; 32]).0).expect("a key"),
    };
    let domains = ["user", "email"];
    let tokens = Tokens::new(&keys, &domains);
    let at = |case: &Value| Micros::parse_rfc3339(case["received_at"].as_str().expect("a time")).expect("a time");
    for case in vectors["tokens"].as_array().expect("tokens") {
        let keys = tokens.of(&text(&case["group"]), at(case));
        let domain = domains.iter().position(|domain| case["domain"] == *domain).expect("a domain");
        assert_eq!(keys.token(domain, &text(&case["value"])), case["token"], "{case}");
        assert_eq!(keys.hash(domain, &text(&case["value"])), case["hash"], "{case}");
    }
    for case in vectors["names"].as_array().expect("names") {
        assert_eq!(tokens.of("any", at(case)).name(&text(&case["name"])).as_ref(), case["shown"], "{case}");
    }
}
