//! Mask: only what a schema classifies as publishable goes on (law E2).
//!
//! Owns: `Masked`, the only thing that can be delivered; what each `x-privacy` word does; what is left out.
//! Does not own: which field is classified how (the catalogue), keys (`keys`), what `scan` finds.
//! Invariants: every text of a `Masked` went through `leaf`, or comes from a closed list of ours; a name that no
//! schema knows is never told; what has no classification is left out and counted.

mod masked;
mod token;

use super::decode::{Context, Leaf};
use super::plan::{ContextPlan, Domains, Kind, Node};
use super::sanitize::Sanitized;
use super::scan;
use super::validate::Judged;
use crate::keys::Keys;
use crate::options::UnclassifiedPolicy;
use crate::pipeline::Reject;
use core::net::IpAddr;
use forebay_schemas::catalog::Privacy;
use forebay_schemas::json::{Json, write_string};
use forebay_schemas::limit;
use forebay_schemas::reason::Reason;
use forebay_schemas::time::Micros;
use masked::Beside;
pub use masked::Masked;
use std::borrow::Cow;
use std::fmt;
use token::{ForEvent, Tokens};

/// A field that was left out because nobody classified it. `path` may be shown to everyone; `in_clear` only to the
/// reveal role, and `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Unclassified {
    /// The catalogue's name of the event type.
    pub event_type: String,
    /// Known names as they are, unknown ones as `{shape#keyed hash}`, e.g. `properties.items[].{a_a#1f3a9b2c}`.
    pub path: String,
    /// The path as sent. Unknown names are data: they may hold what a person typed.
    pub in_clear: String,
}

/// What stands in place of a redacted value.
const REDACTED: &str = "[redacted]";
/// A number that is kept keeps its text up to this length; beyond it, a number is a place for a message.
const NUMBER_CHARS: usize = 40;
/// The path of all unclassified fields beyond `limit::UNCLASSIFIED_PER_EVENT`.
const MORE: &str = "…";

pub(crate) struct Masker {
    context: ContextPlan,
    tokens: Tokens,
}

impl Masker {
    pub(crate) fn new(context: ContextPlan, domains: &Domains, keys: &Keys) -> Masker {
        Masker { context, tokens: Tokens::new(keys, &domains.names()) }
    }
    pub(crate) fn context(&self) -> &ContextPlan {
        &self.context
    }

    /// An unknown name, fit to be told.
    pub(crate) fn unknown_name(&self, name: &str, received_at: Micros) -> String {
        self.tokens.of("", received_at).name(name).to_string()
    }

    pub(crate) fn mask<'a>(&self, sanitized: Sanitized<'a>, policy: UnclassifiedPolicy) -> Result<(Masked<'a>, Vec<Unclassified>), Reject> {
        let Sanitized { mut decoded, judged } = sanitized;
        let tokens = self.tokens.of(&decoded.event.source, decoded.event.received_at);
        let mut walk =
            Walk { tokens, event_type: judged.event_type(), ambient: decoded.ambient, path: Vec::new(), left_out: LeftOut::default() };
        let mut properties = String::with_capacity(decoded.event.payload.len().min(512));
        match &judged {
            Judged::Known(schema) => {
                walk.path.push(Step::Known("properties"));
                walk.object(&schema.root, &decoded.properties, &mut properties);
                walk.path.pop();
            }
            Judged::Envelope(_) => properties.push_str("{}"),
        }
        for name in &decoded.extras {
            walk.left_out(Some(Step::Unknown(name)));
        }
        let beside = self.beside(&mut decoded.context, &mut walk);
        let unclassified = walk.left_out.found;
        if let (UnclassifiedPolicy::Reject, Some(first)) = (policy, unclassified.first()) {
            return Err(Reject::new(Reason::UnclassifiedField, format!("{}: not classified", first.path)).of_type(judged.event_type()));
        }
        Ok((Masked::new(&decoded, judged, beside, properties), unclassified))
    }

    /// Ids, page, device and campaign by the context schema.
    fn beside<'a>(&self, context: &mut Context<'a>, walk: &mut Walk<'_>) -> Beside<'a> {
        let mut texts: [Option<Cow<'a, str>>; Leaf::ALL.len()] = Default::default();
        for leaf in Leaf::ALL {
            let Some(text) = context.texts[leaf as usize].take() else { continue };
            texts[leaf as usize] = match self.context.leaf(leaf) {
                Some(node) => walk.text(node, text),
                None => {
                    walk.path.extend(leaf.path().iter().copied().map(Step::Known));
                    walk.left_out(None);
                    walk.path.clear();
                    None
                }
            };
        }
        let screen = [0, 1].map(|n| {
            let node = self.context.screen[n].as_ref()?;
            context.screen[n].filter(|_| node.privacy == Some(Privacy::Keep))
        });
        Beside { texts, screen }
    }
}

/// The walk over one event's properties beside their plan.
struct Walk<'a> {
    tokens: ForEvent<'a>,
    event_type: &'a str,
    ambient: fn(&str) -> bool,
    path: Vec<Step<'a>>,
    left_out: LeftOut,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Known(&'a str),
    Unknown(&'a str),
    Items,
}

#[derive(Default)]
struct LeftOut {
    found: Vec<Unclassified>,
}

impl<'a> Walk<'a> {
    fn object(&mut self, node: &'a Node, members: &'a [(Cow<'_, str>, Json<'_>)], out: &mut String) {
        out.push('{');
        let mut first = true;
        for (name, value) in members {
            let Some(member) = node.member(name) else {
                if !(self.path.len() == 1 && (self.ambient)(name)) {
                    self.left_out(Some(Step::Unknown(name)));
                }
                continue;
            };
            let before = out.len();
            if !first {
                out.push(',');
            }
            write_string(name, out);
            out.push(':');
            self.path.push(Step::Known(name));
            let told = self.value(member, value, out);
            self.path.pop();
            if told {
                first = false;
            } else {
                out.truncate(before);
            }
        }
        out.push('}');
    }

    /// Writes what may be told of the value; false when nothing may.
    fn value(&mut self, node: &'a Node, value: &'a Json<'_>, out: &mut String) -> bool {
        match (node.privacy, &node.kind, value) {
            (Some(Privacy::Drop), ..) => return false,
            (_, _, Json::Null) => out.push_str("null"),
            (Some(Privacy::Redact), ..) => write_string(REDACTED, out),
            (_, Kind::Object(..), Json::Object(members)) => self.object(node, members, out),
            (_, Kind::Array(items), Json::Array(values)) => self.array(items, values, out),
            (Some(privacy), Kind::Scalar, Json::Number(_) | Json::Bool(_) | Json::String(_)) => {
                return self.leaf(node, privacy, value, out);
            }
            // Not classified, or not of the shape that was classified.
            _ => {
                self.left_out(None);
                return false;
            }
        }
        true
    }

    fn array(&mut self, items: &'a Node, values: &'a [Json<'_>], out: &mut String) {
        out.push('[');
        self.path.push(Step::Items);
        let mut first = true;
        for value in values {
            let before = out.len();
            if !first {
                out.push(',');
            }
            if self.value(items, value, out) {
                first = false;
            } else {
                out.truncate(before);
            }
        }
        self.path.pop();
        out.push(']');
    }

    fn leaf(&mut self, node: &Node, privacy: Privacy, value: &Json<'_>, out: &mut String) -> bool {
        match (privacy, value) {
            (Privacy::Keep, Json::Number(number)) if number.len() > NUMBER_CHARS => {
                out.push_str(&format!("{:e}", value.as_f64().unwrap_or(0.0)))
            }
            (Privacy::Keep, _) | (Privacy::Scan, Json::Bool(_)) => value.write(out),
            (Privacy::Scan, Json::Number(number)) => match scan::redact(number) {
                Some(redacted) if !is_epoch(number) => write_string(&redacted, out),
                _ => out.push_str(number),
            },
            (_, Json::Bool(truth)) => {
                return self
                    .text(node, Cow::Borrowed(if *truth { "true" } else { "false" }))
                    .map(|text| write_string(&text, out))
                    .is_some();
            }
            (_, Json::String(text) | Json::Number(text)) => {
                return self.text(node, Cow::Borrowed(text)).map(|text| write_string(&text, out)).is_some();
            }
            _ => return false,
        }
        true
    }

    /// What may be told of a text.
    fn text<'t>(&self, node: &Node, text: Cow<'t, str>) -> Option<Cow<'t, str>> {
        match node.privacy? {
            Privacy::Keep => Some(text),
            Privacy::Drop => None,
            Privacy::Redact => Some(Cow::Borrowed(REDACTED)),
            Privacy::Tokenize | Privacy::Hash if text.trim().is_empty() => Some(Cow::Borrowed("")),
            Privacy::Tokenize => Some(Cow::Owned(self.tokens.token(node.domain, &text))),
            Privacy::Hash => Some(Cow::Owned(self.tokens.hash(node.domain, &text))),
            Privacy::TruncateIp => truncate_ip(&text).map(Cow::Owned),
            Privacy::Scan => Some(scan::redact(&text).map_or(text, Cow::Owned)),
        }
    }

    /// Counts the field at the path, or the member `step` of it.
    fn left_out(&mut self, step: Option<Step<'_>>) {
        let found = &mut self.left_out.found;
        if found.len() > limit::UNCLASSIFIED_PER_EVENT {
            return;
        }
        let event_type = self.event_type.to_owned();
        if found.len() == limit::UNCLASSIFIED_PER_EVENT {
            found.push(Unclassified { event_type, path: MORE.to_owned(), in_clear: MORE.to_owned() });
            return;
        }
        let (mut path, mut in_clear) = (String::new(), String::new());
        for step in self.path.iter().copied().chain(step) {
            let dot = if path.is_empty() { "" } else { "." };
            match step {
                Step::Items => {
                    path.push_str("[]");
                    in_clear.push_str("[]");
                }
                Step::Known(name) => {
                    path.extend([dot, name]);
                    in_clear.extend([dot, name]);
                }
                Step::Unknown(name) => {
                    path.extend([dot, &self.tokens.name(name)]);
                    in_clear.extend([dot, name]);
                }
            }
        }
        if !found.iter().any(|other| other.path == path) {
            found.push(Unclassified { event_type, path, in_clear });
        }
    }
}

/// A number that is seconds or milliseconds since the epoch, of this century's first third, is no phone number.
fn is_epoch(number: &str) -> bool {
    matches!(number.len(), 10 | 13) && number.starts_with('1') && number.bytes().all(|b| b.is_ascii_digit())
}

/// An IPv4 address without its last byte, an IPv6 address without its last ten. `None` when it is neither.
fn truncate_ip(text: &str) -> Option<String> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.split(']').next()).unwrap_or(text);
    let bare = match bare.split_once(':') {
        Some((address, port)) if !port.contains(':') => address,
        _ => bare,
    };
    let address = match bare.split('%').next()?.parse().ok()? {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
        v4 => v4,
    };
    Some(match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            format!("{a}.{b}.{c}.0")
        }
        IpAddr::V6(v6) => {
            let [a, b, c, ..] = v6.segments();
            core::net::Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).to_string()
        }
    })
}

impl fmt::Debug for Unclassified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.event_type, self.path)
    }
}

#[cfg(test)]
mod tests;
