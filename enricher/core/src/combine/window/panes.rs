//! Tumbling and sliding windows, made of panes: buckets whose events are kept once, however many windows they are in.
//!
//! Owns: the panes of a key, when its windows are told, when a pane is gone. Does not own: the grid, what is kept.
//! A window takes `panes` buckets that follow one another; a tumbling one takes one.
//! It is told when the watermark reaches its end, again with each event that comes within its lateness, and last, as final,
//! when that is over; before its end too, now and then, if it is declared so. State: a line a key, which changes with the set of its panes and never with an event alone, and a
//! pane a bucket. Both encodings are persisted.

use super::grid::{Grid, Moved, Span};
use super::measure::Kept;
use super::pane::{self, Columns};
use super::zone::Zone;
use super::{Missed, State, Told};
use forebay_schemas::time::Micros;
use forebay_schemas::wire::avro::{self, DecodeError, Reader};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub struct Panes {
    pub grid: Grid,
    /// Buckets in a window; at least one.
    pub panes: usize,
    /// How long after its end a window still takes events.
    pub lateness_micros: i64,
    /// How often a window with something new in it is told before it ends.
    pub update_micros: Option<i64>,
    /// What is kept for each of its values.
    pub columns: Columns,
}

/// Where an event counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pane {
    /// Where its bucket begins.
    pub bucket: Micros,
    /// It counts in the windows from this one on; `None`: in all that hold the bucket.
    pub since: Option<Micros>,
}

/// What there is of a key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Line {
    panes: BTreeSet<Pane>,
    /// The last revision of windows that are not final, by their start. What ended and is not here was told once.
    revised: BTreeMap<Micros, u32>,
    /// Buckets with something new since the last update.
    fresh: BTreeSet<Micros>,
    due: Option<Micros>,
}

impl Panes {
    /// Where an event at `at` counts that meets `watermark`, if anywhere, and what it missed.
    pub fn place(&self, at: Micros, watermark: Micros) -> (Option<Pane>, Option<Missed>) {
        let bucket = self.grid.at(at);
        if self.closes(bucket.end) > watermark {
            return (Some(Pane { bucket: bucket.start, since: None }), None);
        }
        let windows = self.windows_of(bucket);
        let open = windows.iter().position(|span| self.closes(span.end) > watermark);
        let missed = windows[..open.unwrap_or(windows.len())].last();
        let missed = missed.map(|span| Missed { span: *span, by_micros: watermark.0.saturating_sub(span.end.0) });
        (open.map(|open| Pane { bucket: bucket.start, since: Some(windows[open].start) }), missed)
    }

    /// These in the place of panes that went by the rules of `known`, when all is over that was at `watermark` and nothing has
    /// begun that is behind `now`.
    pub fn succeed(&self, known: &Zone, since: Option<Micros>, watermark: Micros, now: Micros) -> Result<Panes, Moved> {
        let begun = Span { start: Micros(watermark.0.saturating_sub(self.lateness_micros)), end: now };
        Ok(Panes { grid: self.grid.succeed(known, since, begun, self.panes)?, ..self.clone() })
    }

    /// Adds `kept` to `pane`, which is open at `watermark`; up to that all timers have been fired.
    pub fn add<S: State>(
        &self,
        state: &mut S,
        key: &[u8],
        pane: Pane,
        kept: &[Kept],
        watermark: Micros,
        out: &mut Vec<Told>,
    ) -> Result<(), S::Error> {
        let is_new = pane::add(state, key, pane, &self.columns, kept)?;
        let bucket = self.grid.at(pane.bucket);
        if bucket.end > watermark && !is_new && self.update_micros.is_none() {
            // No window of it has ended, and the line knows of it.
            return Ok(());
        }
        let before = self.line(state, key)?;
        let mut line = before.clone();
        line.panes.insert(pane);
        if self.update_micros.is_some() && self.last_end(bucket) > watermark {
            line.fresh.insert(pane.bucket);
        }
        // Those whose time has come are told at once.
        let counts = |span: &Span| pane.since.is_none_or(|since| since <= span.start) && self.closes(span.end) > watermark;
        for span in self.windows_of(bucket).into_iter().filter(counts).take_while(|span| span.end <= watermark) {
            let told = before.of(span).next().is_some();
            out.push(self.told(state, key, &mut line, span, told, false)?);
        }
        self.put(state, key, &before, line, watermark);
        Ok(())
    }

    /// The key's timer, which stood at `at`, is reached.
    pub fn fire<S: State>(&self, state: &mut S, key: &[u8], at: Micros, out: &mut Vec<Told>) -> Result<(), S::Error> {
        let before = self.line(state, key)?;
        let mut line = before.clone();
        let closed = at.0.checked_sub(self.lateness_micros).and_then(|end| self.ending(&line, Micros(end)));
        if let Some(span) = closed {
            out.push(self.told(state, key, &mut line, span, self.lateness_micros > 0, true)?);
        }
        if self.lateness_micros > 0
            && let Some(span) = self.ending(&line, at)
        {
            out.push(self.told(state, key, &mut line, span, false, false)?);
        }
        if self.next_update(&line, Micros(at.0.saturating_sub(1))) == Some(at) {
            let fresh = std::mem::take(&mut line.fresh);
            let windows: BTreeSet<Span> = fresh.iter().flat_map(|start| self.windows_of(self.grid.at(*start))).collect();
            for span in windows.into_iter().filter(|span| span.end > at) {
                if line.of(span).next().is_some() {
                    let told = self.told(state, key, &mut line, span, false, false)?;
                    line.revised.insert(span.start, told.revision);
                    out.push(told);
                }
            }
        }
        // What no window counts any more is gone.
        let over: Vec<Pane> =
            line.panes.iter().copied().take_while(|pane| self.closes(self.last_end(self.grid.at(pane.bucket))) <= at).collect();
        for pane in over {
            line.panes.remove(&pane);
            line.fresh.remove(&pane.bucket);
            pane::remove(state, key, pane, &self.columns)?;
        }
        self.put(state, key, &before, line, at);
        Ok(())
    }

    /// The next time behind `now` at which a window ends or closes.
    pub fn next_bound(&self, now: Micros) -> Micros {
        let closes = now.0.checked_sub(self.lateness_micros).map(|closed| self.closes(self.grid.at(Micros(closed)).end));
        let update = self.update_micros.map(|every| multiple_after(now, every));
        closes.into_iter().chain(update).chain([self.grid.at(now).end]).min().unwrap_or(now)
    }

    /// When what is new is told next, if anything is.
    fn next_update(&self, line: &Line, now: Micros) -> Option<Micros> {
        self.update_micros.filter(|_| !line.fresh.is_empty()).map(|every| multiple_after(now, every))
    }

    /// The windows that hold `at`, from the oldest.
    pub fn windows_at(&self, at: Micros) -> Vec<Span> {
        self.windows_of(self.grid.at(at))
    }

    /// From the oldest.
    fn windows_of(&self, bucket: Span) -> Vec<Span> {
        let mut starts = vec![bucket];
        while starts.len() < self.panes
            && let Some(before) = self.grid.before(starts[starts.len() - 1].start)
        {
            starts.push(before);
        }
        starts.reverse();
        starts.into_iter().map(|first| self.window_from(first)).collect()
    }

    fn window_from(&self, first: Span) -> Span {
        Span { start: first.start, end: self.last_end(first) }
    }

    /// The last window that holds a bucket begins with it, and ends here.
    fn last_end(&self, first: Span) -> Micros {
        if let Grid::Elapsed(size) = self.grid {
            let more = i64::try_from(self.panes - 1).unwrap_or(i64::MAX);
            return Micros(first.end.0.saturating_add(size.saturating_mul(more)));
        }
        let steps = (1..self.panes).try_fold(first, |bucket, _| self.grid.after(bucket.end));
        steps.map_or(Micros(i64::MAX), |bucket| bucket.end)
    }

    fn closes(&self, end: Micros) -> Micros {
        Micros(end.0.saturating_add(self.lateness_micros))
    }

    /// The window that ends at `end`, if something is in it.
    fn ending(&self, line: &Line, end: Micros) -> Option<Span> {
        let mut first = self.grid.before(end).filter(|last| last.end == end)?;
        for _ in 1..self.panes {
            first = self.grid.before(first.start)?;
        }
        let span = Span { start: first.start, end };
        line.of(span).next().map(|_| span)
    }

    /// The first end behind `after` of a window with something in it.
    fn next_end(&self, line: &Line, after: Micros) -> Option<Micros> {
        let next = self.grid.at(after).end;
        let ends = line.panes.iter().filter_map(|pane| {
            let bucket = self.grid.at(pane.bucket);
            let first = pane.since.map_or(bucket.end, |since| self.last_end(self.grid.at(since)));
            Some(first.max(next)).filter(|end| *end <= self.last_end(bucket))
        });
        ends.min()
    }

    /// `before`: it was told when it ended.
    fn told<S: State>(&self, state: &S, key: &[u8], line: &mut Line, span: Span, before: bool, is_final: bool) -> Result<Told, S::Error> {
        let panes: Vec<Pane> = line.of(span).copied().collect();
        let kept = pane::read(state, key, &panes, &self.columns)?.ok_or_else(|| state.corrupt("a pane is missing"))?;
        let revision = line.revised.get(&span.start).map_or(1 + u32::from(before), |last| last.saturating_add(1));
        if is_final {
            line.revised.remove(&span.start);
        } else if revision > 1 {
            line.revised.insert(span.start, revision);
        }
        Ok(Told { span, revision, is_final, kept })
    }

    fn line<S: State>(&self, state: &S, key: &[u8]) -> Result<Line, S::Error> {
        let Some(bytes) = state.line(key)? else { return Ok(Line::default()) };
        Line::decode(&bytes).map_err(|_| state.corrupt("a line of panes is unreadable"))
    }

    /// Where time stands at `now`, all ends up to it are told.
    fn put<S: State>(&self, state: &mut S, key: &[u8], before: &Line, mut line: Line, now: Micros) {
        let tell = self.next_end(&line, now);
        let close = now.0.checked_sub(self.lateness_micros).and_then(|closed| self.next_end(&line, Micros(closed)));
        let close = close.map(|end| Micros(end.0.saturating_add(self.lateness_micros)));
        line.due = [tell, close, self.next_update(&line, now)].into_iter().flatten().min();
        if line.due != before.due {
            state.set_timer(key, before.due, line.due);
        }
        if line != *before {
            state.put_line(key, (!line.panes.is_empty()).then(|| line.encode()));
        }
    }
}

/// The first multiple of `every` behind `now`.
pub(super) fn multiple_after(now: Micros, every: i64) -> Micros {
    Micros(now.0.saturating_sub(now.0.rem_euclid(every)).saturating_add(every))
}

impl Line {
    /// What counts in a window.
    fn of(&self, span: Span) -> impl Iterator<Item = &Pane> {
        let first = Pane { bucket: span.start, since: None };
        let counts = move |pane: &&Pane| pane.since.is_none_or(|since| since <= span.start);
        self.panes.range(first..).take_while(move |pane| pane.bucket < span.end).filter(counts)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        avro::optional_long(self.due.map(|due| due.0), &mut out);
        let mut last = 0_i64;
        let panes: Vec<Pane> = self.panes.iter().copied().collect();
        avro::array(
            &panes,
            |pane, out| {
                avro::long(pane.bucket.0.wrapping_sub(last), out);
                avro::optional_long(pane.since.map(|since| since.0.wrapping_sub(pane.bucket.0)), out);
                last = pane.bucket.0;
            },
            &mut out,
        );
        let revised: Vec<(&Micros, &u32)> = self.revised.iter().collect();
        avro::array(
            &revised,
            |(start, revision), out| {
                avro::long(start.0, out);
                avro::long(i64::from(**revision), out);
            },
            &mut out,
        );
        let fresh: Vec<Micros> = self.fresh.iter().copied().collect();
        avro::array(&fresh, |start, out| avro::long(start.0, out), &mut out);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Line, DecodeError> {
        let mut r = Reader::new(bytes);
        let due = r.optional(Reader::micros)?;
        let mut last = 0_i64;
        let panes = r.array(|r| {
            last = last.wrapping_add(r.long()?);
            let since = r.optional(Reader::long)?.map(|since| Micros(since.wrapping_add(last)));
            Ok(Pane { bucket: Micros(last), since })
        })?;
        let revised = r.array(|r| {
            let start = r.micros()?;
            Ok((start, u32::try_from(r.long()?).map_err(|_| DecodeError("revision out of range"))?))
        })?;
        let fresh = r.array(Reader::micros)?;
        r.end()?;
        let (panes, revised, fresh) = (panes.into_iter().collect(), revised.into_iter().collect(), fresh.into_iter().collect());
        Ok(Line { panes, revised, fresh, due })
    }
}
