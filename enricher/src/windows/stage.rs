//! Between the two stages: what a batch adds to windows of other partitions, and the times of the tasks that send.
//!
//! Owns: adding a batch up before it is sent, when a task's time is news to the others, the time of the slowest task and how
//! far the topic between was read. Does not own: placing events and telling results (`windows`).
//! Invariant: what is sent with a watermark is all that the task placed before it, so nothing that is not late for the
//! sender is late for the key's owner, whose time is that of the slowest sender.

use crate::overlay::Overlay;
use crate::progress::NEVER;
use crate::state::key::{self, Uid};
use crate::state::{Backend, StateError, each};
use forebay_enricher_core::combine::window::declare::{Operator, Window};
use forebay_enricher_core::combine::window::measure::{self, Kept};
use forebay_enricher_core::combine::window::panes::{Pane, Panes};
use forebay_schemas::limit;
use forebay_schemas::partition::partition_of;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::partials::{self, FORMAT, Partial, Partials};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use std::collections::BTreeMap;

/// What the events of a batch add, and what of the task's time the others know.
pub struct Batch {
    partitions: i32,
    parts: HashMap<Place, Vec<Kept>>,
    /// When the task's time is news next; `None`: at once. Where there are no such windows it never is.
    news_at: Option<Micros>,
    is_used: bool,
}

#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    window: usize,
    key: String,
    pane: Pane,
}

impl Batch {
    pub fn new(windows: &[Window], partitions: i32) -> Batch {
        Batch { partitions, parts: HashMap::new(), news_at: None, is_used: panes(windows).next().is_some() }
    }

    pub fn add(&mut self, window: usize, key: String, pane: Pane, kept: Vec<Kept>) {
        match self.parts.entry(Place { window, key, pane }) {
            Entry::Occupied(mut all) => {
                all.get_mut().iter_mut().zip(&kept).for_each(|(all, one)| all.merge(one).expect("one window's columns are alike"));
            }
            Entry::Vacant(place) => {
                place.insert(kept);
            }
        }
    }

    pub fn is_used(&self) -> bool {
        self.is_used
    }

    pub fn has_news(&self, watermark: Micros) -> bool {
        self.is_used && watermark > NEVER && self.news_at.is_none_or(|at| at <= watermark)
    }

    /// Messages by partition: what was added and, where the task's time is news, that to everybody.
    pub fn cut(&mut self, windows: &[Window], task: i32, watermark: Micros) -> Vec<(i32, Vec<u8>)> {
        let mut by_partition: BTreeMap<i32, Vec<(Place, Vec<Kept>)>> = BTreeMap::new();
        if self.has_news(watermark) {
            self.news_at = panes(windows).map(|panes| panes.next_bound(watermark)).min();
            by_partition.extend((0..self.partitions).map(|partition| (partition, Vec::new())));
        }
        for (place, kept) in self.parts.drain() {
            let partition = partition_of(place.key.as_bytes(), self.partitions);
            by_partition.entry(partition).or_default().push((place, kept));
        }
        let mut messages = Vec::new();
        for (partition, mut parts) in by_partition {
            parts.sort_by(|(one, _), (other, _)| one.cmp(other));
            let partials = parts.iter().map(|(place, kept)| Partial {
                window: windows[place.window].uid.as_str().into(),
                key: place.key.as_str().into(),
                bucket: place.pane.bucket,
                since: place.pane.since,
                kept: measure::encode(kept).into(),
            });
            // The last message of several alone may tell the time: the others stand before it.
            let mut chunks = chunks(partials.collect());
            let last = chunks.pop().unwrap_or_default();
            let message = |partials, watermark| partials::encode(&Partials { format: FORMAT, task, watermark, partials });
            messages.extend(chunks.into_iter().map(|chunk| (partition, message(chunk, NEVER))));
            messages.push((partition, message(last, watermark)));
        }
        messages
    }
}

/// Of the windows that have two stages.
fn panes(windows: &[Window]) -> impl Iterator<Item = &Panes> {
    windows.iter().filter_map(|window| match &window.operator {
        Operator::Panes(panes) => Some(panes),
        Operator::Sessions(_) => None,
    })
}

/// Cut so that no message is larger than its bound.
fn chunks(partials: Vec<Partial<'_>>) -> Vec<Vec<Partial<'_>>> {
    let mut chunks = vec![Vec::new()];
    let mut bytes = 0;
    for partial in partials {
        let size = partial.window.len() + partial.key.len() + partial.kept.len() + 32;
        if bytes + size > limit::PARTIALS_BYTES && bytes > 0 {
            chunks.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        chunks.last_mut().expect("never empty").push(partial);
    }
    chunks
}

/// The times of all tasks, as they told this one.
pub struct Slowest {
    /// The next offset of the topic between the stages.
    pub position: Option<i64>,
    tasks: Vec<Micros>,
    changed: Vec<bool>,
    written: Option<i64>,
    slowest: Micros,
}

impl Slowest {
    pub fn load(backend: &dyn Backend, partitions: i32) -> Result<Slowest, StateError> {
        let count = usize::try_from(partitions).unwrap_or_default();
        let (mut tasks, mut position) = (vec![NEVER; count], None);
        each(backend, Uid::Repartition, |user_key, value| {
            let corrupt = || StateError::Corrupt("how far the repartition topic was read is unreadable".into());
            let number = value.try_into().map(i64::from_be_bytes).map_err(|_| corrupt())?;
            if user_key.is_empty() {
                position = Some(number);
                return Ok(());
            }
            let task = user_key.try_into().map(u32::from_be_bytes).map_err(|_| corrupt())?;
            *tasks.get_mut(task as usize).ok_or_else(corrupt)? = Micros(number);
            Ok(())
        })?;
        let slowest = tasks.iter().min().copied().unwrap_or(NEVER);
        Ok(Slowest { position, changed: vec![false; count], written: position, tasks, slowest })
    }

    /// A task's time; it never goes back.
    pub fn tell(&mut self, task: i32, watermark: Micros) {
        let Some(task) = usize::try_from(task).ok().filter(|task| *task < self.tasks.len()) else { return };
        if watermark > self.tasks[task] {
            self.tasks[task] = watermark;
            self.changed[task] = true;
            self.slowest = self.tasks.iter().min().copied().unwrap_or(NEVER);
        }
    }

    pub fn watermark(&self) -> Micros {
        self.slowest
    }

    /// Writes what has changed.
    pub fn write(&mut self, overlay: &mut Overlay) {
        let changed = self.changed.iter_mut().enumerate().filter(|(_, changed)| **changed);
        for (task, changed) in changed {
            *changed = false;
            overlay.put(key::plain(Uid::Repartition, &(task as u32).to_be_bytes()), self.tasks[task].0.to_be_bytes().to_vec());
        }
        if self.position != self.written
            && let Some(position) = self.position
        {
            self.written = self.position;
            overlay.put(key::plain(Uid::Repartition, b""), position.to_be_bytes().to_vec());
        }
        overlay.keep_record();
    }

    /// Writes all of it, for it has no TTL.
    pub fn refresh(&mut self) {
        self.written = None;
        self.changed.iter_mut().zip(&self.tasks).for_each(|(changed, at)| *changed = *at > NEVER);
    }
}
