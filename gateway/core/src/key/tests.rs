//! Golden vectors, shared with the SDKs.

use super::OWN_NAMES;
use crate::dialect::own;
use crate::testing::{accepted, cases, harvested, request};
use forebay_schemas::dialect::Dialect;
use forebay_schemas::partition::partition_of;

#[test]
fn golden_vectors() {
    for case in cases(include_str!("../../../../schemas/vectors/partition_key.json")) {
        let sent = request(case["request"].as_str().expect("a request line"), case["body"].as_str().unwrap_or_default().as_bytes());
        let keys: Vec<String> = harvested(&accepted(&sent, "shop"), &sent).into_iter().map(|(key, _)| key).collect();
        let expected = case["keys"].as_array().expect("keys");
        assert_eq!(keys, expected.iter().map(|k| k["key"].as_str().expect("text")).collect::<Vec<_>>(), "{}", case["name"]);
        for (key, expected) in keys.iter().zip(expected) {
            assert_eq!(i64::from(partition_of(key.as_bytes(), 12)), expected["partition_of_12"].as_i64().expect("a number"));
        }
    }
}

#[test]
fn every_dialects_own_names_have_their_place() {
    for dialect in Dialect::ALL {
        assert!(own(dialect).devices.len() + own(dialect).users.len() <= OWN_NAMES, "{}", dialect.name());
    }
}
