//! Sessions: windows that last as long as the events of a key follow one another within a gap.
//!
//! Owns: the sessions of a key, how they grow and merge, when they are told. Does not own: what is kept, the storage of sketches
//! (`pane`).
//! An event at `t` reaches over `[t, t + gap)` and joins what that overlaps. One that came too late for a session of its own
//! joins only one that spans it, and makes none longer. A session is told when the watermark reaches its end, again with
//! each event that joins it within its lateness, and last, as final, when that is over. Sessions never overlap: what falls
//! into one that has closed is late, so the last one that closed is remembered for as long as an event could still fall
//! into it. State: one line a key, with the numbers; sketches in a pane a session, so that an event writes what it adds to and no
//! more. The line's encoding is persisted.

use super::grid::Span;
use super::measure::{Kept, Numbers};
use super::pane::{self, Columns};
use super::panes::{Pane, multiple_after};
use super::{Missed, State, Told};
use forebay_schemas::time::Micros;
use forebay_schemas::wire::avro::{self, DecodeError, Reader};

#[derive(Clone, Debug)]
pub struct Sessions {
    pub gap_micros: i64,
    /// How long after its end a session still takes events.
    pub lateness_micros: i64,
    /// How often a session with something new in it is told before it ends.
    pub update_micros: Option<i64>,
    /// What is kept for each of its values.
    pub columns: Columns,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Session {
    start: Micros,
    /// Where its sketches are: the time of the first event that came, which is in no other session.
    pane: Micros,
    /// Of its newest event.
    last: Micros,
    /// Of what was last told under its start; 0: nothing.
    revision: u32,
    /// Something is new since the last update.
    is_fresh: bool,
    kept: Vec<Numbers>,
}

/// What there is of a key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Line {
    /// Not closed, in the order of time.
    live: Vec<Session>,
    /// The last that closed.
    closed: Option<Span>,
    due: Option<Micros>,
}

impl Sessions {
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
        let mut line = line(state, key)?;
        let due = line.due;
        let own = Span { start: at, end: self.end(at) };
        let joined = |session: &Session| at < self.end(session.last) && session.start < own.end;
        let missed = |span: Span| Missed { span, by_micros: watermark.0.saturating_sub(span.end.0) };
        let spans = |session: &Session| session.start <= at && at < self.end(session.last);
        if self.closes(own.end) <= watermark && !line.live.iter().any(spans) {
            return Ok(Some(missed(own)));
        }
        if let Some(closed) = line.closed.filter(|closed| closed.holds(at)) {
            return Ok(Some(missed(closed)));
        }
        let place = line.live.partition_point(|session| self.end(session.last) <= at);
        let count = line.live[place..].iter().take_while(|session| joined(session)).count();
        let (numbers, sketches): (Vec<_>, Vec<_>) = kept.iter().cloned().partition(|kept| kept.numbers().is_some());
        let numbers = numbers.iter().filter_map(Kept::numbers).collect();
        let mut all = Session { start: at, pane: at, last: at, revision: 0, is_fresh: self.update_micros.is_some(), kept: numbers };
        let mut parts = vec![sketches];
        for (n, session) in line.live.drain(place..place + count).enumerate() {
            if all.kept.len() != session.kept.len() {
                return Err(state.corrupt("other values are kept than are declared"));
            }
            if n == 0 {
                all.pane = session.pane;
            } else {
                parts.push(self.sketches(state, key, &session)?);
                self.remove(state, key, &session)?;
            }
            all.kept.iter_mut().zip(&session.kept).for_each(|(all, more)| all.merge(more));
            all.last = all.last.max(session.last);
            if session.start <= all.start {
                (all.start, all.revision) = (session.start, session.revision);
            } else if session.revision > 0 {
                // What was told under this start is part of another session now.
                let (span, kept) = (Span { start: session.start, end: session.start }, kept.iter().map(Kept::nothing).collect());
                out.push(Told { span, revision: session.revision + 1, is_final: true, kept });
            }
        }
        if self.has_sketches() {
            for part in parts {
                pane::add(state, key, all.pane(), &self.kinds(), &part)?;
            }
        }
        if self.end(all.last) <= watermark {
            out.push(self.tell(state, key, &mut all, false)?);
        }
        line.live.insert(place, all);
        self.put(state, key, due, line, watermark);
        Ok(None)
    }

    /// The key's timer, which stood at `at`, is reached.
    pub fn fire<S: State>(&self, state: &mut S, key: &[u8], at: Micros, out: &mut Vec<Told>) -> Result<(), S::Error> {
        let mut line = line(state, key)?;
        let due = line.due;
        while let Some(first) = line.live.first_mut().filter(|first| self.closes(self.end(first.last)) <= at) {
            out.push(self.tell(state, key, first, true)?);
            let closed = line.live.remove(0);
            self.remove(state, key, &closed)?;
            line.closed = Some(Span { start: closed.start, end: self.end(closed.last) });
        }
        for session in line.live.iter_mut().filter(|session| self.end(session.last) == at) {
            out.push(self.tell(state, key, session, false)?);
        }
        let is_update = self.update_micros.is_some_and(|every| multiple_after(Micros(at.0.saturating_sub(1)), every) == at);
        for session in line.live.iter_mut().filter(|session| is_update && session.is_fresh && self.end(session.last) > at) {
            out.push(self.tell(state, key, session, false)?);
        }
        line.closed = line.closed.filter(|closed| self.forgets(*closed) > at);
        self.put(state, key, due, line, at);
        Ok(())
    }

    fn end(&self, last: Micros) -> Micros {
        Micros(last.0.saturating_add(self.gap_micros))
    }
    fn closes(&self, end: Micros) -> Micros {
        Micros(end.0.saturating_add(self.lateness_micros))
    }
    /// From then on whatever falls into `closed` is late by itself.
    fn forgets(&self, closed: Span) -> Micros {
        self.closes(self.end(closed.end))
    }

    fn tell<S: State>(&self, state: &S, key: &[u8], session: &mut Session, is_final: bool) -> Result<Told, S::Error> {
        session.revision += 1;
        session.is_fresh = false;
        let span = Span { start: session.start, end: self.end(session.last) };
        let (mut numbers, mut sketches) =
            (session.kept.iter().copied().map(Kept::Numbers), self.sketches(state, key, session)?.into_iter());
        let kept = self.columns.iter().map_while(|column| if column.is_some() { sketches.next() } else { numbers.next() });
        Ok(Told { span, revision: session.revision, is_final, kept: kept.collect() })
    }

    fn has_sketches(&self) -> bool {
        self.columns.iter().any(Option::is_some)
    }
    /// Those of its columns that are sketches.
    fn kinds(&self) -> Columns {
        self.columns.iter().filter(|column| column.is_some()).copied().collect()
    }
    fn sketches<S: State>(&self, state: &S, key: &[u8], session: &Session) -> Result<Vec<Kept>, S::Error> {
        if !self.has_sketches() {
            return Ok(Vec::new());
        }
        pane::read(state, key, &[session.pane()], &self.kinds())?.ok_or_else(|| state.corrupt("the sketches of a session are missing"))
    }
    fn remove<S: State>(&self, state: &mut S, key: &[u8], session: &Session) -> Result<(), S::Error> {
        if self.has_sketches() { pane::remove(state, key, session.pane(), &self.kinds()) } else { Ok(()) }
    }

    /// Where time stands at `now`, all ends up to it are told.
    fn put<S: State>(&self, state: &mut S, key: &[u8], due: Option<Micros>, mut line: Line, now: Micros) {
        let next = |session: &Session| {
            let end = self.end(session.last);
            let update = self.update_micros.filter(|_| session.is_fresh && end > now).map(|every| multiple_after(now, every));
            update.into_iter().chain([if end > now { end } else { self.closes(end) }]).min().unwrap_or(end)
        };
        line.due = line.live.iter().map(next).chain(line.closed.map(|closed| self.forgets(closed))).min();
        if line.due != due {
            state.set_timer(key, due, line.due);
        }
        state.put_line(key, line.due.is_some().then(|| line.encode()));
    }
}

impl Session {
    fn pane(&self) -> Pane {
        Pane { bucket: self.pane, since: None }
    }
}

fn line<S: State>(state: &S, key: &[u8]) -> Result<Line, S::Error> {
    let Some(bytes) = state.line(key)? else { return Ok(Line::default()) };
    Line::decode(&bytes).map_err(|_| state.corrupt("a line of sessions is unreadable"))
}

impl Line {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        avro::optional_long(self.due.map(|due| due.0), &mut out);
        avro::array(
            &self.live,
            |session, out| {
                avro::long(session.start.0, out);
                avro::long(session.pane.0.wrapping_sub(session.start.0), out);
                avro::long(session.last.0.wrapping_sub(session.start.0), out);
                avro::long(i64::from(session.revision), out);
                avro::boolean(session.is_fresh, out);
                avro::array(&session.kept, Numbers::encode, out);
            },
            &mut out,
        );
        avro::optional(
            self.closed,
            |closed, out| {
                avro::long(closed.start.0, out);
                avro::long(closed.end.0.wrapping_sub(closed.start.0), out);
            },
            &mut out,
        );
        out
    }

    fn decode(bytes: &[u8]) -> Result<Line, DecodeError> {
        let mut r = Reader::new(bytes);
        let due = r.optional(Reader::micros)?;
        let behind = |r: &mut Reader<'_>, start: Micros| Ok(Micros(start.0.wrapping_add(r.long()?)));
        let live = r.array(|r| {
            let start = r.micros()?;
            let (pane, last) = (behind(r, start)?, behind(r, start)?);
            let revision = u32::try_from(r.long()?).map_err(|_| DecodeError("revision out of range"))?;
            let is_fresh = r.boolean()?;
            Ok(Session { start, pane, last, revision, is_fresh, kept: r.array(Numbers::decode)? })
        })?;
        let closed = r.optional(|r| {
            let start = r.micros()?;
            Ok(Span { start, end: behind(r, start)? })
        })?;
        r.end()?;
        Ok(Line { live, closed, due })
    }
}
