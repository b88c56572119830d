//! Tumbling and sliding windows, made of panes: buckets whose events are kept once, however many windows they are in.
//!
//! Owns: the panes of a key, when its windows are told, when a pane is gone. Does not own: the grid, what is kept.
//! A window takes `panes` buckets that follow one another; a tumbling one takes one.
//! It is told when the watermark reaches its end, again with each event that comes within its lateness, and last, as final,
//! when that is over. State: a line a key, which changes with the set of its panes and never with an event alone, and a
//! pane a bucket. Both encodings are persisted.

use super::grid::{Grid, Span};
use super::measure::Kept;
use super::{Missed, State, Told, merge};
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
}

/// What there is of a key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Line {
    /// Where its panes begin.
    panes: BTreeSet<Micros>,
    /// Of windows told more than once and not yet final, by their start.
    revised: BTreeMap<Micros, u32>,
    due: Option<Micros>,
}

impl Panes {
    /// An event at `at`, of which `kept` is kept. Time stands at `watermark`, up to which all timers have been fired.
    pub fn event<S: State>(
        &self,
        state: &mut S,
        key: &[u8],
        at: Micros,
        kept: &[Kept],
        watermark: Micros,
        out: &mut Vec<Told>,
    ) -> Result<Option<Missed>, S::Error> {
        let bucket = self.grid.at(at);
        let known = self.pane(state, key, bucket.start)?;
        let is_new = known.is_none();
        let mut pane = known.unwrap_or_else(|| vec![Kept::default(); kept.len()]);
        merge(state, &mut pane, kept)?;
        if bucket.end > watermark && !is_new {
            // No window of it has ended, and the line knows of it.
            state.put_pane(key, bucket.start, Some(encode(&pane)));
            return Ok(None);
        }
        let windows = self.windows_of(bucket);
        let (missed, open): (Vec<Span>, Vec<Span>) = windows.into_iter().partition(|span| self.closes(*span) <= watermark);
        let missed = missed.last().map(|span| Missed { span: *span, by_micros: watermark.0.saturating_sub(span.end.0) });
        if open.is_empty() {
            return Ok(missed);
        }
        state.put_pane(key, bucket.start, Some(encode(&pane)));
        let before = self.line(state, key)?;
        let mut line = before.clone();
        line.panes.insert(bucket.start);
        // Those whose time has come are told at once.
        for span in open.into_iter().take_while(|span| span.end <= watermark) {
            if before.panes.range(span.start..span.end).next().is_some() {
                line.revised.entry(span.start).and_modify(|revision| *revision += 1).or_insert(2);
            }
            out.push(self.told(state, key, &line, span, false)?);
        }
        self.put(state, key, &before, line, watermark);
        Ok(missed)
    }

    /// The key's timer, which stood at `at`, is reached.
    pub fn fire<S: State>(&self, state: &mut S, key: &[u8], at: Micros, out: &mut Vec<Told>) -> Result<(), S::Error> {
        let before = self.line(state, key)?;
        let mut line = before.clone();
        let closed = at.0.checked_sub(self.lateness_micros).and_then(|end| self.ending(&line, Micros(end)));
        if let Some(span) = closed {
            if self.lateness_micros > 0 {
                line.revised.entry(span.start).and_modify(|revision| *revision += 1).or_insert(2);
            }
            out.push(self.told(state, key, &line, span, true)?);
            line.revised.remove(&span.start);
            // No window after it begins so early.
            let first = self.grid.at(span.start);
            if line.panes.remove(&first.start) {
                state.put_pane(key, first.start, None);
            }
        }
        if self.lateness_micros > 0
            && let Some(span) = self.ending(&line, at)
        {
            out.push(self.told(state, key, &line, span, false)?);
        }
        self.put(state, key, &before, line, at);
        Ok(())
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

    fn closes(&self, span: Span) -> Micros {
        Micros(span.end.0.saturating_add(self.lateness_micros))
    }

    /// The window that ends at `end`, if something is in it.
    fn ending(&self, line: &Line, end: Micros) -> Option<Span> {
        let mut first = self.grid.before(end).filter(|last| last.end == end)?;
        for _ in 1..self.panes {
            first = self.grid.before(first.start)?;
        }
        line.panes.range(first.start..end).next().map(|_| Span { start: first.start, end })
    }

    /// The first end behind `after` of a window with something in it.
    fn next_end(&self, line: &Line, after: Micros) -> Option<Micros> {
        let next = self.grid.at(after).end;
        // Those of later panes are no earlier.
        line.panes.iter().find_map(|start| {
            let bucket = self.grid.at(*start);
            let end = bucket.end.max(next);
            (end <= self.last_end(bucket)).then_some(end)
        })
    }

    fn told<S: State>(&self, state: &S, key: &[u8], line: &Line, span: Span, is_final: bool) -> Result<Told, S::Error> {
        let mut all: Option<Vec<Kept>> = None;
        for start in line.panes.range(span.start..span.end) {
            let pane = self.pane(state, key, *start)?.ok_or_else(|| state.corrupt("a pane is missing"))?;
            match &mut all {
                Some(all) => merge(state, all, &pane)?,
                None => all = Some(pane),
            }
        }
        let revision = line.revised.get(&span.start).copied().unwrap_or(1);
        Ok(Told { span, revision, is_final, kept: all.ok_or_else(|| state.corrupt("a window is empty"))? })
    }

    fn line<S: State>(&self, state: &S, key: &[u8]) -> Result<Line, S::Error> {
        let Some(bytes) = state.line(key)? else { return Ok(Line::default()) };
        Line::decode(&bytes).map_err(|_| state.corrupt("a line of panes is unreadable"))
    }

    fn pane<S: State>(&self, state: &S, key: &[u8], start: Micros) -> Result<Option<Vec<Kept>>, S::Error> {
        let Some(bytes) = state.pane(key, start)? else { return Ok(None) };
        decode(&bytes).map(Some).map_err(|_| state.corrupt("a pane is unreadable"))
    }

    /// Where time stands at `now`, all ends up to it are told.
    fn put<S: State>(&self, state: &mut S, key: &[u8], before: &Line, mut line: Line, now: Micros) {
        let tell = self.next_end(&line, now);
        let close = now.0.checked_sub(self.lateness_micros).and_then(|closed| self.next_end(&line, Micros(closed)));
        let close = close.map(|end| Micros(end.0.saturating_add(self.lateness_micros)));
        line.due = [tell, close].into_iter().flatten().min();
        if line.due != before.due {
            state.set_timer(key, before.due, line.due);
        }
        if line != *before {
            state.put_line(key, (!line.panes.is_empty()).then(|| line.encode()));
        }
    }
}

fn encode(pane: &[Kept]) -> Vec<u8> {
    let mut out = Vec::new();
    avro::array(pane, Kept::encode, &mut out);
    out
}

fn decode(bytes: &[u8]) -> Result<Vec<Kept>, DecodeError> {
    let mut r = Reader::new(bytes);
    let pane = r.array(Kept::decode)?;
    r.end()?;
    Ok(pane)
}

impl Line {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut last = 0_i64;
        let starts: Vec<Micros> = self.panes.iter().copied().collect();
        avro::array(
            &starts,
            |start, out| {
                avro::long(start.0.wrapping_sub(last), out);
                last = start.0;
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
        avro::optional_long(self.due.map(|due| due.0), &mut out);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Line, DecodeError> {
        let mut r = Reader::new(bytes);
        let mut last = 0_i64;
        let starts = r.array(|r| {
            last = last.wrapping_add(r.long()?);
            Ok(Micros(last))
        })?;
        let revised = r.array(|r| {
            let start = r.micros()?;
            Ok((start, u32::try_from(r.long()?).map_err(|_| DecodeError("revision out of range"))?))
        })?;
        let due = r.optional(Reader::micros)?;
        r.end()?;
        Ok(Line { panes: starts.into_iter().collect(), revised: revised.into_iter().collect(), due })
    }
}
