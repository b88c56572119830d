//! What of windows is held in state: their declarations, lines and panes.
//!
//! Owns: the keys and how a declaration is remembered, storage for the core's operators. Does not own: the bytes of lines
//! and panes (core), timers in memory (`windows`).
//! Invariant: a uid means one thing for good: another declaration under it, or none, refuses the start.

use super::Moved;
use crate::overlay::Overlay;
use crate::state::key::{self, Uid};
use crate::state::{Backend, StateError, each};
use forebay_enricher_core::combine::window::declare::Window;
use forebay_enricher_core::combine::window::panes::Pane;
use forebay_enricher_core::combine::window::zone::Zone;
use forebay_enricher_core::combine::window::{State, due};
use forebay_schemas::limit;
use forebay_schemas::time::Micros;
use std::ops::ControlFlow;

/// What stands in the place of a declaration that was dropped.
const DROPPED: &[u8] = b"";

/// Storage of one window's operator.
pub struct Held<'a> {
    window: usize,
    uid: &'a str,
    overlay: &'a mut Overlay,
    moved: &'a mut Vec<Moved>,
}

impl<'a> Held<'a> {
    pub fn new(window: usize, uid: &'a str, overlay: &'a mut Overlay, moved: &'a mut Vec<Moved>) -> Held<'a> {
        Held { window, uid, overlay, moved }
    }
}

impl State for Held<'_> {
    type Error = StateError;

    fn line(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        self.overlay.get(&line_key(self.uid, key))
    }
    fn put_line(&mut self, key: &[u8], line: Option<Vec<u8>>) {
        self.overlay.write(line_key(self.uid, key), line);
    }
    fn pane(&self, key: &[u8], pane: Pane) -> Result<Option<Vec<u8>>, StateError> {
        self.overlay.get(&pane_key(self.uid, key, pane))
    }
    fn panes(&self, key: &[u8], panes: &[Pane]) -> Result<Vec<Option<Vec<u8>>>, StateError> {
        let keys: Vec<Vec<u8>> = panes.iter().map(|pane| pane_key(self.uid, key, *pane)).collect();
        self.overlay.get_many(&keys)
    }
    fn put_pane(&mut self, key: &[u8], pane: Pane, kept: Option<Vec<u8>>) {
        self.overlay.write(pane_key(self.uid, key, pane), kept);
    }
    fn block(&self, key: &[u8], pane: Pane, number: u16) -> Result<Option<Vec<u8>>, StateError> {
        self.overlay.get(&block_key(self.uid, key, pane, number))
    }
    fn put_block(&mut self, key: &[u8], pane: Pane, number: u16, block: Option<Vec<u8>>) {
        self.overlay.write(block_key(self.uid, key, pane, number), block);
    }
    fn set_timer(&mut self, key: &[u8], from: Option<Micros>, to: Option<Micros>) {
        self.moved.push(Moved { window: self.window, key: key.to_vec(), from, to });
    }
    fn corrupt(&self, what: &'static str) -> StateError {
        StateError::Corrupt(format!("window {}: {what}", self.uid))
    }
}

fn user_key(uid: &str, key: &[u8]) -> Vec<u8> {
    [uid.as_bytes(), &[0], key].concat()
}

pub fn line_key(uid: &str, key: &[u8]) -> Vec<u8> {
    key::plain(Uid::Line, &user_key(uid, key))
}

fn pane_key(uid: &str, key: &[u8], pane: Pane) -> Vec<u8> {
    key::spaced(Uid::Pane, &user_key(uid, key), &namespace(pane))
}

fn block_key(uid: &str, key: &[u8], pane: Pane, number: u16) -> Vec<u8> {
    let mut key = key::spaced(Uid::Block, &user_key(uid, key), &namespace(pane));
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn namespace(pane: Pane) -> [u8; 16] {
    let mut namespace = [0; 16];
    namespace[..8].copy_from_slice(&ordered(pane.bucket).to_be_bytes());
    namespace[8..].copy_from_slice(&pane.since.map_or(0, ordered).to_be_bytes());
    namespace
}

/// Times as numbers that sort alike; 0 is before all time.
fn ordered(time: Micros) -> u64 {
    (time.0 as u64) ^ (1 << 63)
}

/// The rules of its zone.
fn zone_key(uid: &str) -> Vec<u8> {
    key::plain(Uid::Window, &user_key(uid, b"zone"))
}

fn window_key(uid: &str) -> Vec<u8> {
    key::plain(Uid::Window, uid.as_bytes())
}

/// Refuses declarations that are not those of the state, and remembers the new ones.
pub fn check(declared: &[Window], dropped: &[String], overlay: &mut Overlay) -> Result<(), StateError> {
    let mut known = Vec::new();
    each(&**overlay.backend(), Uid::Window, |uid, meaning| {
        if !uid.contains(&0) {
            known.push((String::from_utf8_lossy(uid).into_owned(), meaning.to_vec()));
        }
        Ok(())
    })?;
    for (uid, meaning) in &known {
        let was = String::from_utf8_lossy(meaning).into_owned();
        match declared.iter().find(|window| window.uid == *uid) {
            Some(_) if meaning == DROPPED => return Err(StateError::WindowDropped(uid.clone())),
            Some(window) if window.meaning.as_bytes() != meaning => return Err(StateError::WindowChanged { uid: uid.clone(), was }),
            None if meaning != DROPPED && dropped.contains(uid) => drop_window(uid, overlay)?,
            None if meaning != DROPPED => return Err(StateError::WindowGone { uid: uid.clone(), was }),
            Some(_) | None => {}
        }
    }
    for window in declared.iter().filter(|window| !known.iter().any(|(uid, _)| *uid == window.uid)) {
        overlay.put(window_key(&window.uid), window.meaning.clone().into_bytes());
    }
    overlay.keep_record();
    Ok(())
}

/// The windows by the rules of their zones that the state has, and by those that are built in as far as these move no bound of
/// what had begun: time, for windows, stands at `watermark`, and nothing has come from behind `now`. Remembers what is new.
pub fn in_their_zones(
    declared: &[Window],
    since: Option<Micros>,
    watermark: Micros,
    now: Micros,
    overlay: &mut Overlay,
) -> Result<Vec<Window>, StateError> {
    // Where no time is known yet, nothing is over that is not too old to be open.
    let watermark = watermark.max(Micros(now.0.saturating_sub(limit::WINDOW_MICROS)));
    let in_its_zone = |window: &Window| {
        let Some(built_in) = window.zone() else { return Ok(window.clone()) };
        let key = zone_key(&window.uid);
        let known = overlay.get(&key)?;
        let window = match &known {
            None => window.clone(),
            Some(known) => {
                let known = Zone::decode(known).map_err(|error| StateError::Corrupt(format!("window {}: {error}", window.uid)))?;
                window.succeed(&known, since, watermark, now).map_err(|moved| StateError::ZoneChanged {
                    uid: window.uid.clone(),
                    was: moved.was.start.to_rfc3339(),
                    end: moved.was.end.to_rfc3339(),
                    free: moved.free.to_rfc3339(),
                })?
            }
        };
        let zone = window.zone().unwrap_or(built_in).encode();
        if known.as_ref() != Some(&zone) {
            overlay.put(key, zone);
        }
        Ok(window)
    };
    let windows = declared.iter().map(in_its_zone).collect();
    overlay.keep_record();
    windows
}

/// Nothing but the uid is left of it.
fn drop_window(uid: &str, overlay: &mut Overlay) -> Result<(), StateError> {
    let mut gone = Vec::new();
    let of_it = user_key(uid, b"");
    for kind in [Uid::Line, Uid::Pane, Uid::Block] {
        for (from, to) in key::uid_ranges(kind) {
            overlay.backend().scan(&from, &to, &mut |key, _| {
                if key::user_key(key).starts_with(&of_it) {
                    gone.push(key.to_vec());
                }
                ControlFlow::Continue(())
            })?;
        }
    }
    tracing::warn!(uid, entries = gone.len(), "the state of a window is let go");
    gone.into_iter().for_each(|key| overlay.write(key, None));
    overlay.write(zone_key(uid), None);
    overlay.put(window_key(uid), DROPPED.to_vec());
    Ok(())
}

/// Puts the next entries of windows again, from `sweep` on, which ends as `None`.
pub fn put_again(sweep: &mut Option<Vec<u8>>, overlay: &mut Overlay) -> Result<(), StateError> {
    let Some(from) = sweep.take() else { return Ok(()) };
    let mut entries = Vec::new();
    let mut next = None;
    for (start, end) in key::window_ranges().filter(|(_, end)| *end > from) {
        let start = start.max(from.clone());
        overlay.backend().scan(&start, &end, &mut |key, value| {
            if entries.len() == limit::REFRESH_ENTRIES {
                next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            // What is being written anyway is newer.
            if overlay.pending(key).is_none() {
                entries.push((key.to_vec(), value.to_vec()));
            }
            ControlFlow::Continue(())
        })?;
        if next.is_some() {
            break;
        }
    }
    *sweep = next;
    entries.into_iter().for_each(|(key, value)| overlay.put(key, value));
    overlay.keep_record();
    Ok(())
}

/// A part of a window that nobody declares here: it may have been dropped, or this process has not heard of it yet.
pub fn check_dropped(uid: &str, overlay: &Overlay) -> Result<(), StateError> {
    match overlay.get(&window_key(uid))? {
        Some(meaning) if meaning == DROPPED => Ok(()),
        Some(_) | None => Err(StateError::WindowUnknown(uid.to_owned())),
    }
}

/// Calls `each` with the window, key and time of every timer.
pub fn each_timer(declared: &[Window], backend: &dyn Backend, timer: &mut dyn FnMut(usize, &[u8], Micros)) -> Result<(), StateError> {
    each(backend, Uid::Line, |user_key, line| {
        let corrupt = || StateError::Corrupt("a line of a window is unreadable".into());
        let at = user_key.iter().position(|byte| *byte == 0).ok_or_else(corrupt)?;
        let (uid, key) = (&user_key[..at], &user_key[at + 1..]);
        let due = due(line).ok().flatten().ok_or_else(corrupt)?;
        if let Some(window) = declared.iter().position(|window| window.uid.as_bytes() == uid) {
            timer(window, key, due);
        }
        Ok(())
    })
}
