//! The event ids that a task has seen: storage for the core's `dedup`.
//!
//! Owns: looking up a whole input batch at once, putting first sights, which generations exist, reclaiming old ones.
//! Does not own: keys, values and the verdict (`dedup`), when a commit is known.
//! Invariants: reads go by the log clock, never by what happens to be reclaimed; a generation is reclaimed only when the
//! *committed* clock has passed it, for records are judged again from there after a crash.

use crate::overlay::Overlay;
use crate::progress::Progress;
use crate::state::StateError;
use crate::state::key;
use forebay_enricher_core::combine::dedup::{Horizon, Key, Seen};
use forebay_schemas::time::Micros;

/// Ranges of the backend that hold nothing alive: reclaimed when the commit that they belong to is known.
pub type Reclaim = Vec<(Vec<u8>, Vec<u8>)>;

/// What is known of the ids of one input batch. Kept true while the batch is stepped through.
#[derive(Default)]
pub struct Known {
    keys: Vec<Key>,
    held: Vec<Option<Seen>>,
}

impl Known {
    /// Looks up all `keys` in one sorted read a generation. The overlay holds nothing seen before `uncommitted_since`.
    pub fn fetch(
        mut keys: Vec<Key>,
        overlay: &Overlay,
        progress: &Progress,
        horizon: Horizon,
        uncommitted_since: Micros,
    ) -> Result<Known, StateError> {
        keys.sort_unstable();
        keys.dedup();
        let mut held = vec![None; keys.len()];
        for (start, end) in living(progress, horizon) {
            look_up(&keys, start, overlay, end > uncommitted_since.0, &mut held)?;
        }
        Ok(Known { keys, held })
    }

    /// A key of the batch that was fetched.
    pub fn get(&self, key: Key) -> Option<Seen> {
        self.held[self.keys.binary_search(&key).expect("every id of the batch is fetched")]
    }

    /// `key` has been put; it may be one that the batch does not ask for.
    pub fn set(&mut self, key: Key, seen: Seen) {
        if let Ok(place) = self.keys.binary_search(&key) {
            self.held[place] = Some(seen);
        }
    }
}

/// Looks up one id outside a batch: a re-keyed one.
pub fn fetch_one(key: Key, overlay: &Overlay, progress: &Progress, horizon: Horizon) -> Result<Option<Seen>, StateError> {
    let mut newest = None;
    for (start, _) in living(progress, horizon) {
        if let Some(value) = overlay.get(&stored(start, key))? {
            newest = newer(newest, decode(&value)?);
        }
    }
    Ok(newest)
}

/// The first sight of an id.
pub fn put(key: Key, seen: Seen, overlay: &mut Overlay, progress: &mut Progress, horizon: Horizon) {
    let start = horizon.generation(seen.at).saturating_mul(horizon.span());
    let end = start.saturating_add(horizon.span());
    let known = progress.generations.entry(start).or_insert(end);
    *known = (*known).max(end);
    overlay.put(stored(start, key).to_vec(), seen.encode().to_vec());
}

/// Takes generations that the clock has passed off the list; what is below the rest may be reclaimed.
pub fn expire(progress: &mut Progress, horizon: Horizon) -> Option<Reclaim> {
    let clock = progress.clock;
    let before = progress.generations.len();
    let newest = progress.generations.last_key_value().map(|(_, end)| *end)?;
    progress.generations.retain(|_, end| is_alive(*end, horizon, clock));
    (progress.generations.len() < before).then(|| below(progress.generations.first_key_value().map_or(newest, |(start, _)| *start)))
}

/// Everything below the oldest generation that `progress` lists: what deltas of long ago have put again.
pub fn unlisted(progress: &Progress) -> Option<Reclaim> {
    progress.generations.first_key_value().map(|(start, _)| below(*start))
}

fn below(start: i64) -> Reclaim {
    key::seen_ranges(ordered(i64::MIN), ordered(start)).collect()
}

fn living(progress: &Progress, horizon: Horizon) -> impl Iterator<Item = (i64, i64)> {
    let clock = progress.clock;
    progress.generations.iter().map(|(start, end)| (*start, *end)).filter(move |(_, end)| is_alive(*end, horizon, clock))
}

/// A generation's newest entry was seen just before `end`.
fn is_alive(end: i64, horizon: Horizon, clock: Micros) -> bool {
    horizon.alive(Micros(end.saturating_sub(1)), clock)
}

/// `keys` ascend, and so do the keys under which one generation stores it.
fn look_up(keys: &[Key], start: i64, overlay: &Overlay, in_overlay: bool, held: &mut [Option<Seen>]) -> Result<(), StateError> {
    let mut wanted: Vec<([u8; key::SEEN_BYTES], usize)> = Vec::with_capacity(keys.len());
    for (place, key) in keys.iter().enumerate() {
        let stored = stored(start, *key);
        match in_overlay.then(|| overlay.pending(&stored)).flatten() {
            Some(Some(value)) => held[place] = newer(held[place], decode(value)?),
            Some(None) => {}
            None => wanted.push((stored, place)),
        }
    }
    let stored: Vec<&[u8]> = wanted.iter().map(|(stored, _)| stored.as_slice()).collect();
    let mut corrupt = None;
    overlay.backend().get_many(&stored, &mut |at, value| match decode(value) {
        Ok(seen) => held[wanted[at].1] = newer(held[wanted[at].1], seen),
        Err(error) => corrupt = Some(error),
    })?;
    corrupt.map_or(Ok(()), Err)
}

fn newer(held: Option<Seen>, other: Seen) -> Option<Seen> {
    Some(held.filter(|held| held.at >= other.at).unwrap_or(other))
}

fn decode(value: &[u8]) -> Result<Seen, StateError> {
    Seen::decode(value).ok_or_else(|| StateError::Corrupt("a dedup entry is unreadable".into()))
}

/// The key under which an id of the generation that begins at `start` is stored.
fn stored(start: i64, key: Key) -> [u8; key::SEEN_BYTES] {
    key::seen(ordered(start), key.0)
}

/// Times as numbers that sort alike.
fn ordered(time: i64) -> u64 {
    (time as u64) ^ (1 << 63)
}
