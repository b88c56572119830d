//! Where cut events wait for the publisher: one piece, which grows until it is taken.
//!
//! While an append is under way the next piece is cut and filled, so a slow log gets larger pieces instead of more
//! waiting. One append at a time, for the order: of two in flight, the second could be on the log before the first.
//! Owns: the piece and its bound. Does not own: what is in it. Invariant: pieces leave in the order in which they were filled.

use forebay_gateway_core::segment::SegmentName;
use forebay_schemas::limit;
use forebay_schemas::time::Micros;
use forebay_stores::log::{Entry, TopicPartition};
use parking_lot::{Condvar, Mutex};
use std::time::Instant;

/// What goes to the log in one append.
#[derive(Default)]
pub struct Piece {
    pub entries: Vec<(TopicPartition, Entry)>,
    pub bytes: usize,
    /// When the newest request of which something is in it was received.
    pub through: Option<Micros>,
    /// Segments of which blocks end in it, in spool order, and where the last one ends.
    pub ends: Vec<(SegmentName, u64)>,
}

pub enum Taken {
    Piece(Piece),
    /// Nothing came in time.
    Nothing,
    /// No piece will come.
    Closed,
}

#[derive(Default)]
pub struct Outbox {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    piece: Piece,
    closed: bool,
    stopped: bool,
}

impl Outbox {
    /// Adds to the piece that waits, once it has room; false when the run is stopped first.
    pub fn add(&self, more: Piece) -> bool {
        let mut state = self.state.lock();
        while !state.stopped && !state.piece.is_empty() && state.piece.bytes + more.bytes > limit::PUBLISH_BYTES {
            self.news.wait(&mut state);
        }
        if !state.stopped {
            state.piece.append(more);
            self.news.notify_all();
        }
        !state.stopped
    }

    /// The piece that waits, or the next one.
    pub fn take(&self, until: Instant) -> Taken {
        let mut state = self.state.lock();
        while state.piece.is_empty() && !state.closed && !state.stopped {
            if self.news.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        if state.stopped || (state.piece.is_empty() && state.closed) {
            return Taken::Closed;
        }
        if state.piece.is_empty() {
            return Taken::Nothing;
        }
        self.news.notify_all();
        Taken::Piece(std::mem::take(&mut state.piece))
    }

    /// Nothing will be added any more.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.news.notify_all();
    }

    /// Lets go of the piece that waits: it is on disk.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.piece = Piece::default();
        self.news.notify_all();
    }
}

impl Piece {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.ends.is_empty()
    }

    /// The blocks before `to` of a segment end here.
    pub fn end(&mut self, name: &SegmentName, to: u64) {
        match self.ends.last_mut() {
            Some((last, end)) if last == name => *end = to,
            Some(_) | None => self.ends.push((name.clone(), to)),
        }
    }

    fn append(&mut self, mut more: Piece) {
        self.entries.append(&mut more.entries);
        self.bytes += more.bytes;
        self.through = self.through.max(more.through);
        more.ends.iter().for_each(|(name, to)| self.end(name, *to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    fn piece(bytes: usize) -> Piece {
        let at = TopicPartition { topic: forebay_schemas::topic::Topic::Harvested, partition: 0 };
        Piece { entries: vec![(at, Entry::default())], bytes, ..Piece::default() }
    }
    fn take(outbox: &Outbox, within: Duration) -> Option<usize> {
        match outbox.take(Instant::now() + within) {
            Taken::Piece(piece) => Some(piece.bytes),
            Taken::Nothing => Some(0),
            Taken::Closed => None,
        }
    }

    #[test]
    fn a_piece_grows_to_its_bound_until_it_is_taken() {
        let (outbox, quarter, long) = (Arc::new(Outbox::default()), limit::PUBLISH_BYTES / 4, Duration::from_secs(20));
        assert_eq!(take(&outbox, Duration::ZERO), Some(0));
        assert!((0..3).all(|_| outbox.add(piece(quarter))));
        let other = outbox.clone();
        let adding = thread::spawn(move || other.add(piece(2 * quarter)) && other.add(piece(8 * quarter)) && other.add(piece(1)));
        assert_eq!([take(&outbox, long), take(&outbox, long), take(&outbox, long)], [3, 2, 8].map(|n| Some(n * quarter)));
        assert!(adding.join().expect("ends"));
        outbox.close();
        assert_eq!((take(&outbox, long), take(&outbox, long)), (Some(1), None));
    }

    #[test]
    fn a_stop_lets_go_of_everything() {
        let outbox = Arc::new(Outbox::default());
        assert!(outbox.add(piece(limit::PUBLISH_BYTES)));
        let other = outbox.clone();
        let adding = thread::spawn(move || other.add(piece(1)));
        outbox.stop();
        assert!(!adding.join().expect("ends") && !outbox.add(piece(1)));
        assert_eq!(take(&outbox, Duration::ZERO), None);
    }
}
