//! Event ids in recorded requests: where they stand, and what a repetition puts there instead.
//!
//! Owns: the places of ids in JSON and in query text, fresh ids of the same shape. Does not own: encodings (`layers`).
//! Invariant: equal ids of one repetition get equal fresh ids, so that a recorded retry stays a retry.

use forebay_schemas::scan;
use std::collections::HashMap;
use std::ops::Range;

/// Names of id fields, the event's own id first where an event has several.
const KEYS: [&str; 6] = ["messageId", "eid", "uuid", "insert_id", "event_id", "$insert_id"];

/// The ids of all recordings that are played together, numbered.
#[derive(Default)]
pub struct Ids(HashMap<String, usize>);

impl Ids {
    pub fn number(&mut self, text: &str) -> usize {
        let next = self.0.len();
        *self.0.entry(text.to_owned()).or_insert(next)
    }
}

/// An id in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub range: Range<usize>,
    /// Which event of the text it belongs to.
    pub event: usize,
    /// Rank of its key in `KEYS`.
    rank: usize,
}

/// What a text holds: how many events, and where ids stand, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    pub events: usize,
    pub places: Vec<Place>,
}

impl Found {
    /// For each event that has an id: the place of the id by which it is known.
    pub fn known_by(&self) -> Vec<&Place> {
        (0..self.events).filter_map(|event| self.places.iter().filter(|p| p.event == event).min_by_key(|p| p.rank)).collect()
    }
}

/// Ids in a body: one event, an array, a batch under `batch`, `data` or `events`, or one event a line.
pub fn in_json(text: &[u8]) -> Found {
    let mut found = Found::default();
    let mut at = scan::skip_space(text, if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 });
    while at < text.len() {
        let Ok(end) = scan::skip_value(text, at) else { break };
        in_value(text, at, &mut found);
        at = scan::skip_space(text, end);
    }
    found.places.sort_by_key(|p| p.range.start);
    found
}

fn in_value(text: &[u8], at: usize, found: &mut Found) {
    if let Ok((items, _)) = scan::items(text, at) {
        return items.iter().for_each(|item| in_event(text, item.start, found));
    }
    let Ok((members, _)) = scan::members(text, at) else { return };
    let list = members.iter().rev().find(|m| matches!(m.key, b"batch" | b"data" | b"events") && text[m.value.start] == b'[');
    match list.and_then(|m| scan::items(text, m.value.start).ok()) {
        Some((items, _)) => items.iter().for_each(|item| in_event(text, item.start, found)),
        None => in_event(text, at, found),
    }
}

fn in_event(text: &[u8], at: usize, found: &mut Found) {
    let event = found.events;
    found.events += 1;
    let Ok((members, _)) = scan::members(text, at) else { return };
    for member in &members {
        if member.key == b"properties" && text[member.value.start] == b'{' {
            let inner = scan::members(text, member.value.start).map_or(Vec::new(), |(inner, _)| inner);
            inner.iter().filter(|m| m.key == b"$insert_id").for_each(|m| push(text, m, event, found));
        }
        push(text, member, event, found);
    }
}

fn push(text: &[u8], member: &scan::Member<'_>, event: usize, found: &mut Found) {
    let Some(rank) = KEYS.iter().position(|key| key.as_bytes() == member.key) else { return };
    let value = &text[member.value.clone()];
    let range = match value.first() {
        Some(b'"') => member.value.start + 1..member.value.end - 1,
        Some(b'0'..=b'9') => member.value.clone(),
        _ => return,
    };
    if !range.is_empty() {
        found.places.push(Place { range, event, rank });
    }
}

/// Ids among the parameters of a query: one event.
pub fn in_query(query: &[u8]) -> Found {
    let mut found = Found { events: 1, places: Vec::new() };
    let mut at = 0;
    for pair in query.split(|b| *b == b'&') {
        let start = at;
        at += pair.len() + 1;
        let Some(equals) = pair.iter().position(|b| *b == b'=') else { continue };
        let Some(rank) = KEYS.iter().position(|key| key.as_bytes() == &pair[..equals]) else { continue };
        if equals + 1 < pair.len() {
            found.places.push(Place { range: start + equals + 1..start + pair.len(), event: 0, rank });
        }
    }
    if found.places.is_empty() {
        found.events = 0;
    }
    found
}

/// A fresh id for `original` in repetition `repetition`: same length and shape where it holds a UUID or is a number.
pub fn fresh(original: &str, number: usize, repetition: u64, seed: u64) -> String {
    let mut chance = Chance(seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ repetition.wrapping_mul(0xd1b5_4a32_d192_ed03));
    if original.bytes().all(|b| b.is_ascii_digit()) {
        return format!("1{:014}", chance.next() % 100_000_000_000_000);
    }
    match uuid_in(original) {
        Some(start) => {
            let mut id = original.to_owned();
            id.replace_range(start..start + UUID_BYTES, &another_uuid(&original[start..start + UUID_BYTES], &mut chance));
            id
        }
        None => another_uuid("00000000-0000-4000-8000-000000000000", &mut chance),
    }
}

const UUID_BYTES: usize = 36;

/// Where the last UUID of `text` begins.
fn uuid_in(text: &str) -> Option<usize> {
    let is_uuid =
        |part: &[u8]| part.iter().enumerate().all(|(i, b)| if matches!(i, 8 | 13 | 18 | 23) { *b == b'-' } else { b.is_ascii_hexdigit() });
    (0..=text.len().checked_sub(UUID_BYTES)?).rev().find(|start| is_uuid(&text.as_bytes()[*start..start + UUID_BYTES]))
}

/// Other random digits: version, variant, case and (version 7) time stay.
fn another_uuid(uuid: &str, chance: &mut Chance) -> String {
    let time_ordered = uuid.as_bytes()[14] == b'7';
    let upper = uuid.bytes().any(|b| b.is_ascii_uppercase());
    let mut bits = 0;
    let digits = uuid.chars().enumerate().map(|(i, digit)| {
        if i % 16 == 0 {
            bits = chance.next();
        }
        let keep = matches!(i, 8 | 13 | 18 | 23 | 14 | 19) || (time_ordered && i < 14);
        if keep {
            return digit;
        }
        let fresh = char::from_digit((bits >> (4 * (i % 16)) & 15) as u32, 16).expect("four bits are a hex digit");
        if upper { fresh.to_ascii_uppercase() } else { fresh }
    });
    digits.collect()
}

/// SplitMix64: ids need to differ, not to be secret.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_where_each_dialect_has_them() {
        for (text, events, ids) in [
            (r#"{"messageId":"m-1","properties":{"messageId":"no","uuid":"no"}}"#, 1, vec!["m-1"]),
            (r#"{"batch":[{"messageId":"a"},{"type":"track"},{"messageId": "b" }],"writeKey":"k"}"#, 3, vec!["a", "b"]),
            (r#"{"schema":"iglu","data":[{"eid":"e-1","co":"{\"firstEventId\":\"e-1\"}"}]}"#, 1, vec!["e-1"]),
            (r#"{"api_key":"k","batch":[{"uuid":"u","properties":{"$insert_id":"i"}}]}"#, 1, vec!["u", "i"]),
            (r#"[{"uuid":"u-1"},{"uuid":"u-2"}]"#, 2, vec!["u-1", "u-2"]),
            ("{\"event_id\":\"n-1\"}\n{\"event_id\":2}\n", 2, vec!["n-1", "2"]),
            (r#"{"events":[{"insert_id":"i-1","event_id":7}]}"#, 1, vec!["i-1", "7"]),
            (r#"[{"messageId":"m","v":NaN},5]"#, 2, vec!["m"]),
            (r#"{"messageId":""}"#, 1, vec![]),
            ("not json", 0, vec![]),
            ("", 0, vec![]),
        ] {
            let found = in_json(text.as_bytes());
            let texts: Vec<&str> = found.places.iter().map(|p| &text[p.range.clone()]).collect();
            assert_eq!((found.events, texts), (events, ids), "{text}");
        }
        let query = "stm=1&e=pv&eid=a77f&url=http%3A%2F%2Fx";
        let found = in_query(query.as_bytes());
        assert_eq!((found.events, &query[found.places[0].range.clone()]), (1, "a77f"));
        assert_eq!(in_query(b"v=2&ip=1").events, 0);
    }

    #[test]
    fn an_event_is_known_by_its_own_id() {
        let text = br#"{"events":[{"event_id":"7","insert_id":"i-1"},{"properties":{"$insert_id":"p"},"uuid":"u"}]}"#;
        let found = in_json(text);
        let known: Vec<_> = found.known_by().iter().map(|p| std::str::from_utf8(&text[p.range.clone()]).expect("ascii")).collect();
        assert_eq!(known, ["i-1", "u"]);
    }

    #[test]
    fn fresh_ids_keep_shape_and_stay_equal_within_a_repetition() {
        for original in [
            "ajs-next-1796021382055-f9e7916c-a1d0-4ade-b882-e51979b33115",
            "01a22b36-5a4c-75de-8aa0-e225cefea702",
            "8C71CB1E-6D46-4BE7-A9F4-3F03B299BB45",
            "short",
            "12345",
        ] {
            let first = fresh(original, 3, 1, 42);
            assert_eq!(first, fresh(original, 3, 1, 42));
            for other in [fresh(original, 3, 2, 42), fresh(original, 4, 1, 42), fresh(original, 3, 1, 43), original.to_owned()] {
                assert_ne!(first, other);
            }
            if let Some(start) = uuid_in(original) {
                assert_eq!((first.len(), &first[..start]), (original.len(), &original[..start]));
                let (old, new) = (&original[start..], &first[start..]);
                assert_eq!((&old[14..15], &old[19..20]), (&new[14..15], &new[19..20]), "version and variant");
            }
        }
        assert_eq!(&fresh("01a22b36-5a4c-75de-8aa0-e225cefea702", 1, 1, 1)[..13], "01a22b36-5a4c");
    }
}
