//! The pages that people read say all that the code knows.

use forebay_schemas::catalog::Privacy;
use forebay_schemas::reason::Reason;
use std::path::Path;

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).expect("a page")
}

#[test]
fn every_reason_has_its_row() {
    let page = page("bad-events.md");
    for reason in Reason::ALL {
        let row = format!("| `{}` | {} |", reason.name(), reason.stage().name());
        assert!(page.contains(&row), "no row begins {row}");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `") && line.matches(" | ").count() == 3).count();
    assert!(rows >= Reason::ALL.len(), "{rows} rows");
}

#[test]
fn every_word_has_its_row() {
    let page = page("privacy.md");
    let words = Privacy::ALL.map(Privacy::name).into_iter().chain(["trim", "lowercase", "collapse-space", "enum", "url"]);
    let marks = ["[email]", "[phone]", "[card]", "[ip]", "[token]"];
    for word in words.chain(marks) {
        assert!(page.contains(&format!("| `{word}` |")), "no row of `{word}`");
    }
}
