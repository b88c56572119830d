//! Sanitize: values are made alike, as a schema's `x-sanitize` says.
//!
//! Owns: `Sanitized`, the steps and their order. Does not own: what may be told (`mask`), URLs (`url`).
//! Invariant: only strings change; a step never makes a value say more than it did.

mod url;

use super::decode::{Decoded, Leaf};
use super::plan::{ContextPlan, Kind, Node, Step};
use super::scan;
use super::validate::{Judged, Valid};
use forebay_schemas::catalog::Privacy;
use forebay_schemas::json::Json;
use std::borrow::Cow;
pub(crate) use url::Allowed;

/// A valid event whose values are alike. It still says everything.
pub struct Sanitized<'a> {
    pub(super) decoded: Decoded<'a>,
    pub(super) judged: Judged<'a>,
}

pub(crate) fn sanitize<'a>(valid: Valid<'a>, context: &ContextPlan) -> Sanitized<'a> {
    let (mut decoded, judged) = valid.into_parts();
    if let Judged::Known(schema) = &judged {
        for (name, value) in &mut decoded.properties {
            if let Some(node) = schema.root.member(name).filter(|node| node.sanitizes) {
                walk(node, value);
            }
        }
    }
    for leaf in Leaf::ALL {
        let text = &mut decoded.context.texts[leaf as usize];
        if let (Some(node), Some(value)) = (context.leaf(leaf), text.as_mut()) {
            steps(node, value);
            if value.is_empty() {
                *text = None;
            }
        }
    }
    Sanitized { decoded, judged }
}

fn walk(node: &Node, value: &mut Json<'_>) {
    match (&node.kind, value) {
        (Kind::Scalar, Json::String(text)) => steps(node, text),
        (Kind::Array(items), Json::Array(values)) => values.iter_mut().for_each(|value| walk(items, value)),
        (Kind::Object(..), Json::Object(members)) => {
            for (name, value) in members {
                if let Some(node) = node.member(name).filter(|node| node.sanitizes) {
                    walk(node, value);
                }
            }
        }
        _ => {}
    }
}

fn steps(node: &Node, text: &mut Cow<'_, str>) {
    for step in &node.steps {
        match step {
            Step::Trim => trim(text),
            Step::Lowercase => lowercase(node, text),
            Step::CollapseSpace => collapse_space(text),
            Step::Enum(values) => {
                if let Some(value) = values.get(&text.trim().to_lowercase()) {
                    *text = Cow::Owned(value.clone());
                }
            }
            Step::Url(allowed) => {
                if let Some(clean) = url::sanitize(text, allowed) {
                    *text = Cow::Owned(clean);
                }
            }
        }
    }
}

/// What is encoded in base64 cannot be looked into any more once its capitals are gone: scanned fields are scanned first.
fn lowercase(node: &Node, text: &mut Cow<'_, str>) {
    let is_lower = if text.is_ascii() { !text.bytes().any(|b| b.is_ascii_uppercase()) } else { !text.chars().any(char::is_uppercase) };
    if is_lower {
        return;
    }
    if let Some(redacted) = scan::redact(text).filter(|_| node.privacy == Some(Privacy::Scan)) {
        *text = Cow::Owned(redacted);
    }
    *text = Cow::Owned(text.to_lowercase());
}

fn trim(text: &mut Cow<'_, str>) {
    match text {
        Cow::Borrowed(text) => *text = text.trim(),
        Cow::Owned(owned) => {
            let trimmed = owned.trim();
            if trimmed.len() < owned.len() {
                *owned = trimmed.to_owned();
            }
        }
    }
}

fn is_collapsed(text: &str) -> bool {
    // What nearly every text is: printable ASCII without two spaces in a row.
    if text.bytes().all(|b| matches!(b, b' '..=b'~')) && !text.as_bytes().windows(2).any(|pair| pair == b"  ") {
        return true;
    }
    let mut space = false;
    text.chars().all(|c| {
        let again = std::mem::replace(&mut space, c.is_whitespace());
        !c.is_whitespace() || c == ' ' && !again
    })
}

/// Each run of white space becomes one space.
fn collapse_space(text: &mut Cow<'_, str>) {
    if is_collapsed(text) {
        return;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_whitespace() {
            true if !out.ends_with(' ') => out.push(' '),
            true => {}
            false => out.push(c),
        }
    }
    *text = Cow::Owned(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_schemas::catalog::Sanitize;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn steps_in_their_order() {
        let aliases = BTreeMap::from([("pc".to_owned(), "desktop".to_owned()), ("desktop".to_owned(), "desktop".to_owned())]);
        for (sanitize, text, expected) in [
            (vec![Sanitize::Trim], " \u{a0}a b\n", "a b"),
            (vec![Sanitize::CollapseSpace], "a \t b\u{a0}c", "a b c"),
            (vec![Sanitize::CollapseSpace], "a b", "a b"),
            (vec![Sanitize::Trim, Sanitize::Lowercase], " ÜBER ", "über"),
            (vec![Sanitize::Enum(aliases.clone())], " PC ", "desktop"),
            (vec![Sanitize::Enum(aliases)], "Toaster", "Toaster"),
            (vec![Sanitize::Trim, Sanitize::Url(BTreeSet::new())], " /a?b=c#d ", "/a"),
        ] {
            let steps = sanitize.iter().map(Step::compile).collect();
            let node = Node { privacy: None, sanitizes: true, steps, domain: 0, kind: Kind::Scalar };
            let mut value = Json::Array(vec![Json::String(text.into()), Json::Number("1".into())]);
            walk(&Node { privacy: None, sanitizes: true, steps: vec![], domain: 0, kind: Kind::Array(Box::new(node)) }, &mut value);
            assert_eq!(value, Json::Array(vec![Json::String(expected.into()), Json::Number("1".into())]));
        }
    }
}
