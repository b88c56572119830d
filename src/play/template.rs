//! A recorded request made ready to be sent again and again: everything that stays the same is computed once.
//!
//! Owns: the head as recorded (Host and Content-Length adjusted), the write key override, where fresh ids go.
//! Does not own: sockets (`wire`).

use super::ids::{self, Found, Ids};
use super::layers::{self, Layer};
use super::recording::Recorded;
use anyhow::{Context, Result};
use base64::Engine;
use forebay_schemas::scan;
use std::ops::Range;

/// How the requests are to differ from the recording.
pub struct Changes<'a> {
    /// `host:port` of the server.
    pub host: &'a str,
    /// Fresh event ids in each repetition, derived from this seed.
    pub unique: Option<u64>,
    pub key: Option<&'a str>,
}

pub struct Template {
    pub method: String,
    /// Where the recorder cut the connection.
    pub cut: bool,
    pub events: usize,
    /// Whether the answer names the ids (the native API does).
    pub native: bool,
    path: String,
    query: Option<Part>,
    body: Part,
    head: Head,
    unique: Option<u64>,
    /// Ids by which the events are known: (original, its number).
    known_by: Vec<(String, usize)>,
}

/// A request as it goes out.
pub struct Built {
    pub bytes: Vec<u8>,
    /// Where the body stands in `bytes`, before any transfer encoding.
    pub body: Vec<u8>,
    pub ids: Vec<String>,
}

struct Head {
    /// Header lines, each with its end, without those that depend on the body.
    lines: Vec<u8>,
    chunked: bool,
    has_length: bool,
}

/// A query or a body: as recorded, and opened where ids have to be replaced.
struct Part {
    verbatim: Vec<u8>,
    opened: Option<Opened>,
}

struct Opened {
    layers: Vec<Layer>,
    inside: Vec<u8>,
    ids: Vec<(Range<usize>, String, usize)>,
}

impl Template {
    pub fn new(recorded: &Recorded, changes: &Changes<'_>, ids: &mut Ids) -> Result<Template> {
        let (path, query) = match recorded.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (recorded.target.as_str(), None),
        };
        let header = |name: &str| recorded.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str());
        let compression = query.and_then(|q| q.split('&').find_map(|pair| pair.strip_prefix("compression=")));
        let (body_layers, inside) = layers::unwrap(&recorded.body, header("content-encoding"), compression);
        let keys = changes.key.map(|key| Keys { old: keys_in(recorded, path, query.unwrap_or(""), &inside), new: key });

        let body = Part::new(recorded.body.clone(), body_layers, inside, false, keys.as_ref(), ids)?;
        let query = match query {
            Some(query) => {
                let (layers, inside) = layers::unwrap(query.as_bytes(), None, compression);
                Some(Part::new(query.as_bytes().to_vec(), layers, inside, true, keys.as_ref(), ids)?)
            }
            None => None,
        };
        let found: Vec<&Part> = query.iter().map(|(part, _)| part).chain([&body.0]).collect();
        let known_by = found
            .iter()
            .zip(query.iter().map(|(_, found)| found).chain([&body.1]))
            .flat_map(|(part, found)| part.known_by(found))
            .collect();
        let events = body.1.events + query.as_ref().map_or(0, |(_, found)| found.events);
        Ok(Template {
            method: recorded.method.clone(),
            cut: recorded.cut,
            events,
            native: path.trim_end_matches('/').ends_with("/v1/events"),
            path: keys.as_ref().map_or_else(|| path.to_owned(), |keys| keys.in_path(path)),
            query: query.map(|(part, _)| part),
            body: body.0,
            head: Head::new(recorded, changes.host, keys.as_ref()),
            unique: changes.unique,
            known_by,
        })
    }

    pub fn build(&self, repetition: u64) -> Result<Built> {
        let fresh = |original: &str, number: usize| match self.unique {
            Some(seed) => ids::fresh(original, number, repetition, seed),
            None => original.to_owned(),
        };
        let body = self.body.build(self.unique.is_some(), &fresh)?;
        let mut bytes = Vec::with_capacity(self.head.lines.len() + body.len() + 256);
        bytes.extend_from_slice(self.method.as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(self.path.as_bytes());
        if let Some(query) = &self.query {
            bytes.push(b'?');
            bytes.extend_from_slice(&query.build(self.unique.is_some(), &fresh)?);
        }
        bytes.extend_from_slice(b" HTTP/1.1\r\n");
        bytes.extend_from_slice(&self.head.lines);
        self.head.finish(&body, &mut bytes);
        let ids = self.known_by.iter().map(|(original, number)| fresh(original, *number)).collect();
        Ok(Built { bytes, body, ids })
    }
}

impl Head {
    fn new(recorded: &Recorded, host: &str, keys: Option<&Keys<'_>>) -> Head {
        let mut head = Head { lines: Vec::new(), chunked: false, has_length: false };
        for (name, value) in &recorded.headers {
            let value = match name.to_ascii_lowercase().as_str() {
                "host" => host.to_owned(),
                "content-length" => {
                    head.has_length = true;
                    continue;
                }
                "transfer-encoding" => {
                    head.chunked = value.contains("chunked");
                    continue;
                }
                // The recorder has already said "100 Continue".
                "expect" => continue,
                lower => keys.map_or_else(|| value.clone(), |keys| keys.in_header(lower, value)),
            };
            head.lines.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if !recorded.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.lines.extend_from_slice(format!("Host: {host}\r\n").as_bytes());
        }
        head
    }

    /// The lines that depend on the body, the empty line and the body.
    fn finish(&self, body: &[u8], out: &mut Vec<u8>) {
        if self.chunked {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            if !body.is_empty() {
                out.extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
                out.extend_from_slice(body);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"0\r\n\r\n");
            return;
        }
        if self.has_length || !body.is_empty() {
            out.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
    }
}

impl Part {
    fn new(
        verbatim: Vec<u8>,
        layers: Vec<Layer>,
        inside: Vec<u8>,
        is_query: bool,
        keys: Option<&Keys<'_>>,
        ids: &mut Ids,
    ) -> Result<(Part, Found)> {
        let rekeyed = keys.and_then(|keys| keys.in_text(&inside, is_query && layers.is_empty()));
        let (verbatim, inside) = match rekeyed {
            Some(inside) => (layers::wrap(&layers, &inside).context("the body with another write key")?, inside),
            None => (verbatim, inside),
        };
        let found = if is_query && layers.is_empty() { ids::in_query(&inside) } else { ids::in_json(&inside) };
        let placed = |place: &ids::Place| {
            let text = String::from_utf8(inside[place.range.clone()].to_vec()).ok()?;
            let number = ids.number(&text);
            Some((place.range.clone(), text, number))
        };
        let placed: Vec<_> = found.places.iter().filter_map(placed).collect();
        let opened = (!placed.is_empty()).then_some(Opened { layers, inside, ids: placed });
        Ok((Part { verbatim, opened }, found))
    }

    fn known_by(&self, found: &Found) -> Vec<(String, usize)> {
        let Some(opened) = &self.opened else { return Vec::new() };
        found
            .known_by()
            .iter()
            .filter_map(|place| opened.ids.iter().find(|(range, _, _)| *range == place.range))
            .map(|(_, text, number)| (text.clone(), *number))
            .collect()
    }

    fn build(&self, unique: bool, fresh: &dyn Fn(&str, usize) -> String) -> Result<Vec<u8>> {
        let Some(opened) = self.opened.as_ref().filter(|_| unique) else { return Ok(self.verbatim.clone()) };
        let mut inside = Vec::with_capacity(opened.inside.len() + 64);
        let mut from = 0;
        for (range, text, number) in &opened.ids {
            inside.extend_from_slice(&opened.inside[from..range.start]);
            inside.extend_from_slice(fresh(text, *number).as_bytes());
            from = range.end;
        }
        inside.extend_from_slice(&opened.inside[from..]);
        if opened.layers.is_empty() { Ok(inside) } else { layers::wrap(&opened.layers, &inside) }
    }
}

/// The write keys of a recorded request and the one that takes their place.
struct Keys<'a> {
    old: Vec<String>,
    new: &'a str,
}

const KEY_MEMBERS: [&[u8]; 4] = [b"writeKey", b"write_key", b"api_key", b"token"];

/// Every write key that the request carries: in Authorization, X-Write-Key, query, path or body.
fn keys_in(recorded: &Recorded, path: &str, query: &str, inside: &[u8]) -> Vec<String> {
    let mut keys = Vec::new();
    for (name, value) in &recorded.headers {
        if name.eq_ignore_ascii_case("authorization") {
            keys.extend(basic_user(value));
            keys.extend(value.strip_prefix("Bearer ").map(str::to_owned));
        } else if name.eq_ignore_ascii_case("x-write-key") {
            keys.extend(value.split(':').next().map(str::to_owned));
        }
    }
    let named = |name: &str| KEY_MEMBERS.contains(&name.as_bytes());
    keys.extend(
        query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(name, _)| named(name)).map(|(_, value)| value.to_owned()),
    );
    let segments: Vec<&str> = path.split('/').collect();
    keys.extend(segments.windows(2).filter(|w| matches!(w[0], "projects" | "array")).map(|w| w[1].to_owned()));
    let mut at = vec![scan::skip_space(inside, 0)];
    while let Some(start) = at.pop() {
        if let Ok((items, _)) = scan::items(inside, start) {
            at.extend(items.iter().map(|item| item.start));
        }
        for member in scan::members(inside, start).map_or(Vec::new(), |(members, _)| members) {
            let value = &inside[member.value.clone()];
            if KEY_MEMBERS.contains(&member.key) && value.starts_with(b"\"") {
                keys.push(String::from_utf8_lossy(&value[1..value.len() - 1]).into_owned());
            } else if matches!(member.key, b"batch" | b"events" | b"data" | b"properties") {
                at.push(member.value.start);
            }
        }
    }
    keys.retain(|key| !key.is_empty());
    keys.sort();
    keys.dedup();
    keys
}

fn basic_user(value: &str) -> Option<String> {
    let decoded = base64::engine::general_purpose::STANDARD.decode(value.strip_prefix("Basic ")?.trim()).ok()?;
    String::from_utf8(decoded).ok()?.split(':').next().map(str::to_owned)
}

impl Keys<'_> {
    fn in_header(&self, name: &str, value: &str) -> String {
        match name {
            "authorization" if value.starts_with("Basic ") && basic_user(value).is_some() => {
                format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{}:", self.new)))
            }
            "authorization" if value.starts_with("Bearer ") => format!("Bearer {}", self.new),
            "x-write-key" => match value.split_once(':') {
                Some((_, secret)) => format!("{}:{secret}", self.new),
                None => self.new.to_owned(),
            },
            _ => value.to_owned(),
        }
    }

    fn in_path(&self, path: &str) -> String {
        path.split('/')
            .map(|segment| if self.old.iter().any(|key| key == segment) { self.new } else { segment })
            .collect::<Vec<_>>()
            .join("/")
    }

    /// The text with each old key, where it stands as a whole value, replaced; `None` when there is none.
    fn in_text(&self, text: &[u8], is_query: bool) -> Option<Vec<u8>> {
        if is_query {
            let text = std::str::from_utf8(text).ok()?;
            let pairs = text.split('&').map(|pair| match pair.split_once('=') {
                Some((name, value)) if self.old.iter().any(|key| key == value) => format!("{name}={}", self.new),
                _ => pair.to_owned(),
            });
            let replaced = pairs.collect::<Vec<_>>().join("&").into_bytes();
            return (replaced != text.as_bytes()).then_some(replaced);
        }
        let mut replaced = text.to_vec();
        for key in &self.old {
            let (from, to) = (format!("\"{key}\"").into_bytes(), format!("\"{}\"", self.new).into_bytes());
            let mut at = 0;
            while let Some(n) = replaced[at..].windows(from.len()).position(|w| w == from) {
                replaced.splice(at + n..at + n + from.len(), to.iter().copied());
                at += n + to.len();
            }
        }
        (replaced != text).then_some(replaced)
    }
}

#[cfg(test)]
mod tests;
