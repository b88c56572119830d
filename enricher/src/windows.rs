//! A task's windows: what its events add to them, and what they come to when time has passed.
//!
//! Owns: which windows an event is in, parts on their way to the key's owner, timers, the time of the slowest task.
//! Does not own: what a window is (core), where records come from and when a batch ends (`task`), the bytes in state
//! (`held`, `stage`).
//! Windows whose keys span partitions have two stages (design §6.6). A task places its own events, by its own time, and
//! holds what they add until the batch is cut; then it goes to the partition that owns the key. The owner adds what comes
//! and tells results by the time of the slowest task. Sessions have one stage.
//! Invariants: E6, timers are fired by watermarks, record by record, in the order of (time, window, key); an event's effects
//! are taken in together or not at all; what is held between cuts is in no state, so it is produced with the very commit
//! that counts its events.

mod held;
pub mod stage;

use crate::overlay::Overlay;
use crate::progress::NEVER;
use crate::state::StateError;
use crate::task::Rules;
use forebay_enricher_core::Masked;
use forebay_enricher_core::combine::window::declare::{Operator, Window};
use forebay_enricher_core::combine::window::field::View;
use forebay_enricher_core::combine::window::measure::{self, Kept};
use forebay_enricher_core::combine::window::panes::Pane;
use forebay_enricher_core::combine::window::{Missed, Told};
use forebay_schemas::time::Micros;
use forebay_schemas::wire::late;
use forebay_schemas::wire::partials::Partials;
use forebay_schemas::wire::window::{self, WindowResult};
use held::Held;
use stage::{Batch, Slowest};
use std::collections::BTreeSet;
use std::sync::Arc;

pub struct Windows {
    /// As they are declared, by the zones' rules that this task goes by.
    windows: Arc<[Window]>,
    /// By the task's own time, and by that of the slowest task.
    own: BTreeSet<Timer>,
    shared: BTreeSet<Timer>,
    /// Keys with something open, by window.
    open: Vec<usize>,
    /// As many of one window, and no more.
    keys_max: usize,
    batch: Batch,
    slowest: Slowest,
    /// What there was no room for, by window.
    full: Vec<u64>,
    /// What is put again: from where it goes on.
    sweep: Option<Vec<u8>>,
}

/// Due at, of which window, under which key.
pub type Timer = (Micros, usize, Vec<u8>);

/// What one event does, until it is known that the event stands.
#[derive(Default)]
pub struct Effects {
    parts: Vec<(usize, String, Pane, Vec<Kept>)>,
    moved: Vec<Moved>,
    told: Vec<(usize, String, Told)>,
    full: Vec<usize>,
    /// Which windows it missed.
    pub missed: Vec<(usize, Missed)>,
}

/// A timer that moved.
pub(super) struct Moved {
    window: usize,
    key: Vec<u8>,
    from: Option<Micros>,
    to: Option<Micros>,
}

/// A result's message: its key and value.
pub type Message = (Vec<u8>, Vec<u8>);

impl Windows {
    /// As the state has them. What this process declares and the state does not know is written to `overlay`; state under uids
    /// that may be dropped goes, unless they are declared. Nothing has come yet from behind `now`.
    pub fn load(rules: &Rules, now: Micros, overlay: &mut Overlay) -> Result<Windows, StateError> {
        let (declared, partitions) = (rules.pipeline.windows(), rules.layout.partitions());
        held::check(declared, &rules.changes.dropped_windows, overlay)?;
        let slowest = Slowest::load(&**overlay.backend(), partitions)?;
        let windows = held::in_their_zones(declared, rules.changes.zone_rules_since, slowest.watermark(), now, overlay)?;
        let windows: Arc<[Window]> = windows.into();
        let count = windows.len();
        let mut loaded = Windows {
            own: BTreeSet::new(),
            shared: BTreeSet::new(),
            open: vec![0; count],
            keys_max: rules.window_keys,
            batch: Batch::new(&windows, partitions),
            slowest,
            full: vec![0; count],
            sweep: None,
            windows: windows.clone(),
        };
        held::each_timer(&windows, &**overlay.backend(), &mut |window, key, due| {
            loaded.moved(Moved { window, key: key.to_vec(), from: None, to: Some(due) });
        })?;
        Ok(loaded)
    }

    /// Puts the event into the windows that take it. Writes to the overlay's record alone.
    pub fn event(&self, masked: &Masked<'_>, watermark: Micros, overlay: &mut Overlay) -> Result<Effects, StateError> {
        let mut effects = Effects::default();
        let view = View::of(masked);
        let at = masked.event_time();
        for (n, window) in self.windows.iter().enumerate() {
            let Some(taken) = window.take(&view) else { continue };
            let missed = match &window.operator {
                Operator::Panes(panes) => {
                    let (pane, missed) = panes.place(at, watermark);
                    effects.parts.extend(pane.map(|pane| (n, taken.key, pane, taken.kept)));
                    missed
                }
                Operator::Sessions(_) if self.has_no_room(n, taken.key.as_bytes(), overlay)? => {
                    effects.full.push(n);
                    None
                }
                Operator::Sessions(sessions) => {
                    let mut out = Vec::new();
                    let mut state = Held::new(n, &window.uid, overlay, &mut effects.moved);
                    let missed = sessions.event(&mut state, taken.key.as_bytes(), at, &taken.kept, watermark, &mut out)?;
                    effects.told.extend(out.into_iter().map(|told| (n, taken.key.clone(), told)));
                    missed
                }
            };
            effects.missed.extend(missed.map(|missed| (n, missed)));
        }
        Ok(effects)
    }

    /// The event stands. Gives the results that it led to.
    pub fn keep(&mut self, effects: Effects) -> Vec<Message> {
        let Effects { parts, moved, told, full, missed: _ } = effects;
        for (window, key, pane, kept) in parts {
            self.batch.add(window, key, pane, kept);
        }
        moved.into_iter().for_each(|moved| self.moved(moved));
        full.into_iter().for_each(|window| self.full[window] += 1);
        told.into_iter().map(|(window, key, told)| self.message(window, &key, &told)).collect()
    }

    /// Adds what a task has sent for keys that are this one's, then takes in its time. `wrong` makes the error of what cannot be
    /// read: it is the topic's, and the local state's is not.
    pub fn partials(
        &mut self,
        partials: &Partials<'_>,
        overlay: &mut Overlay,
        wrong: impl Fn(String) -> StateError,
    ) -> Result<Vec<Message>, StateError> {
        let windows = self.windows.clone();
        let mut messages = Vec::new();
        for partial in &partials.partials {
            let found = windows.iter().position(|window| window.uid == partial.window);
            let Some((n, Window { operator: Operator::Panes(panes), uid, .. })) = found.map(|n| (n, &windows[n])) else {
                held::check_dropped(&partial.window, overlay)?;
                continue;
            };
            if self.has_no_room(n, partial.key.as_bytes(), overlay)? {
                self.full[n] += 1;
                continue;
            }
            let kept = measure::decode(&partial.kept).map_err(|error| wrong(format!("a part of window {uid}: {error}")))?;
            let pane = Pane { bucket: partial.bucket, since: partial.since };
            let (mut moved, mut told) = (Vec::new(), Vec::new());
            let mut state = Held::new(n, uid, overlay, &mut moved);
            panes.add(&mut state, partial.key.as_bytes(), pane, &kept, self.slowest.watermark(), &mut told)?;
            overlay.keep_record();
            moved.into_iter().for_each(|moved| self.moved(moved));
            messages.extend(told.iter().map(|told| self.message(n, &partial.key, told)));
        }
        self.slowest.tell(partials.task, partials.watermark);
        Ok(messages)
    }

    /// The next timer that is due at the task's `watermark`, or at that of the slowest task.
    pub fn due(&self, watermark: Micros) -> Option<Timer> {
        let first = |timers: &BTreeSet<Timer>, now: Micros| timers.first().filter(|(at, ..)| *at <= now).cloned();
        first(&self.own, watermark).or_else(|| first(&self.shared, self.slowest.watermark()))
    }

    /// Fires a timer that is due.
    pub fn fire(&mut self, (at, n, key): Timer, overlay: &mut Overlay) -> Result<Vec<Message>, StateError> {
        let windows = self.windows.clone();
        let window = &windows[n];
        let (mut moved, mut told) = (Vec::new(), Vec::new());
        let mut state = Held::new(n, &window.uid, overlay, &mut moved);
        match &window.operator {
            Operator::Panes(panes) => panes.fire(&mut state, &key, at, &mut told)?,
            Operator::Sessions(sessions) => sessions.fire(&mut state, &key, at, &mut told)?,
        }
        overlay.keep_record();
        moved.into_iter().for_each(|moved| self.moved(moved));
        let key = String::from_utf8(key).map_err(|_| StateError::Corrupt(format!("a key of {} is no text", window.uid)))?;
        Ok(told.iter().map(|told| self.message(n, &key, told)).collect())
    }

    /// What the task's time, having come to `watermark`, is due to tell those that own keys.
    pub fn has_news(&self, watermark: Micros) -> bool {
        self.batch.has_news(watermark)
    }

    /// Ends the batch: what is to be sent, by partition.
    pub fn cut(&mut self, task: i32, watermark: Micros, overlay: &mut Overlay) -> Result<Vec<(i32, Vec<u8>)>, StateError> {
        self.slowest.write(overlay);
        held::put_again(&mut self.sweep, overlay)?;
        Ok(self.batch.cut(&self.windows, task, watermark))
    }

    /// State that has no TTL is put again, some of it with each commit from now on.
    pub fn refresh(&mut self) {
        self.slowest.refresh();
        self.sweep.get_or_insert_default();
    }

    /// There is, or was, a window with two stages.
    pub fn reads_partials(&self) -> bool {
        self.batch.is_used() || self.slowest.position.is_some()
    }

    /// Where to read the repartition topic on; `None`: nothing of it was ever read.
    pub fn position(&self) -> Option<i64> {
        self.slowest.position
    }
    pub fn advance(&mut self, position: i64) {
        self.slowest.position = Some(position);
    }

    /// The message for the topic of late events.
    pub fn late(&self, window: usize, missed: &Missed, trusted: &[u8]) -> Vec<u8> {
        let missed = late::Missed {
            window: self.windows[window].uid.as_str().into(),
            start: missed.span.start,
            end: missed.span.end,
            by_micros: missed.by_micros,
        };
        late::encode(&missed, trusted).expect("a trusted event of our own")
    }

    pub fn uid(&self, window: usize) -> &str {
        &self.windows[window].uid
    }

    /// Of each window: its uid and the keys with something open.
    pub fn open(&self) -> impl Iterator<Item = (&str, usize)> {
        self.windows.iter().map(|window| window.uid.as_str()).zip(self.open.iter().copied())
    }
    /// What there was no room for since the last call, by window.
    pub fn take_left_out(&mut self) -> Vec<(String, u64)> {
        let counts = self.windows.iter().zip(&mut self.full).filter(|(_, count)| **count > 0);
        counts.map(|(window, count)| (window.uid.clone(), std::mem::take(count))).collect()
    }
    pub fn timers(&self) -> usize {
        self.own.len() + self.shared.len()
    }
    /// The time by which windows whose keys span partitions are told; `None`: there are none, or it is not known yet.
    pub fn slowest(&self) -> Option<Micros> {
        Some(self.slowest.watermark()).filter(|watermark| self.batch.is_used() && *watermark > NEVER)
    }
    /// How long the oldest timer is due by the time that fires it.
    pub fn overdue_micros(&self, watermark: Micros) -> i64 {
        let of = |timers: &BTreeSet<Timer>, now: Micros| timers.first().map_or(0, |(at, ..)| now.0.saturating_sub(at.0));
        of(&self.own, watermark).max(of(&self.shared, self.slowest.watermark())).max(0)
    }

    fn moved(&mut self, Moved { window, key, from, to }: Moved) {
        let timers = match self.windows[window].operator {
            Operator::Panes(_) => &mut self.shared,
            Operator::Sessions(_) => &mut self.own,
        };
        let key = match from {
            Some(from) => {
                let old = (from, window, key);
                timers.remove(&old);
                old.2
            }
            None => {
                self.open[window] += 1;
                key
            }
        };
        match to {
            Some(to) => {
                timers.insert((to, window, key));
            }
            None => self.open[window] -= 1,
        }
    }

    /// A window holds so many keys and no more.
    fn has_no_room(&self, window: usize, key: &[u8], overlay: &Overlay) -> Result<bool, StateError> {
        if self.open[window] < self.keys_max {
            return Ok(false);
        }
        Ok(overlay.get(&held::line_key(self.uid(window), key))?.is_none())
    }

    fn message(&self, window: usize, key: &str, told: &Told) -> Message {
        let window = &self.windows[window];
        let value = window::encode(&WindowResult {
            window: window.uid.as_str().into(),
            key: key.into(),
            start: told.span.start,
            end: told.span.end,
            values: window.values(told).into(),
            revision: i64::from(told.revision),
            is_final: told.is_final,
            fingerprint: window.fingerprint(told.span.start).into(),
        });
        (format!("{} {key}", window.uid).into_bytes(), value)
    }
}
