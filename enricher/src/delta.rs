//! Deltas: a commit's changes as messages, and the chain that recovery reads them back as.
//!
//! Owns: cutting a commit into parts under the message bound, checking that a chain has no hole. Does not own: the
//! record (`wire::delta`), where the chain begins and ends (`recovery`).
//! Invariant: a commit is applied whole and after its predecessor, or the chain is an error; nothing is skipped.

use crate::format::Format;
use forebay_schemas::time::Micros;
use forebay_schemas::wire::delta::{self, Delta, Op};

/// The header in which a delta repeats the metadata of the offset that it is committed with: the offset may expire.
pub const COMMITTED: &str = "committed";
/// What one operation adds to a message beside its bytes, at most.
const OP_BYTES: usize = 16;

/// Everything about a commit but its operations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    pub task: i32,
    pub seq: i64,
    pub prev_seq: i64,
    pub from_offset: i64,
    pub to_offset: i64,
    pub watermark: Micros,
    pub clock: Micros,
    pub pipeline: String,
}

/// The messages of a commit. `ops` comes back unchanged: the backend gets them too.
pub fn messages(head: &Head, format: Format, ops: Vec<Op>, part_bytes: usize) -> (Vec<Vec<u8>>, Vec<Op>) {
    let mut chunks = split(ops, part_bytes);
    let parts = i32::try_from(chunks.len()).expect("a commit is bounded to far fewer parts");
    let mut messages = Vec::with_capacity(chunks.len());
    for (part, chunk) in (0..).zip(&mut chunks) {
        let message = Delta {
            format: format.writes(),
            task: head.task,
            seq: head.seq,
            prev_seq: head.prev_seq,
            part,
            parts,
            from_offset: head.from_offset,
            to_offset: head.to_offset,
            watermark: head.watermark,
            clock: head.clock,
            pipeline: head.pipeline.clone(),
            ops: std::mem::take(chunk),
        };
        messages.push(delta::encode(&message));
        *chunk = message.ops;
    }
    let mut chunks = chunks.into_iter();
    let mut ops = chunks.next().unwrap_or_default();
    chunks.for_each(|chunk| ops.extend(chunk));
    (messages, ops)
}

/// At least one chunk, each of at most `part_bytes` or one operation.
fn split(mut ops: Vec<Op>, part_bytes: usize) -> Vec<Vec<Op>> {
    let mut chunks = Vec::new();
    loop {
        let mut bytes = 0;
        let fits = ops.iter().position(|op| {
            bytes += op.key.len() + op.value.as_ref().map_or(0, Vec::len) + OP_BYTES;
            bytes > part_bytes
        });
        match fits.map(|first_over| first_over.max(1)) {
            Some(at) if at < ops.len() => {
                let rest = ops.split_off(at);
                chunks.push(std::mem::replace(&mut ops, rest));
            }
            Some(_) | None => {
                chunks.push(ops);
                return chunks;
            }
        }
    }
}

/// One whole commit, put together again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    pub seq: i64,
    pub to_offset: i64,
    pub ops: Vec<Op>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChainError {
    #[error("a delta is missing: commit {found} follows {prev}, but {expected} was the last")]
    Hole { expected: i64, prev: i64, found: i64 },
    #[error("commit {seq} is not whole: part {found} of {parts} where {expected} belongs")]
    Part { seq: i64, parts: i32, expected: i32, found: i32 },
    #[error("a delta of task {found} stands in the partition of task {expected}")]
    Task { expected: i32, found: i32 },
    #[error("a delta of format {0}, which this version does not read; run the one that wrote it, or the next after this")]
    Format(i32),
}

/// Puts commits together from messages in log order. Commits up to `seq` are passed over: the state has them.
pub struct Chain {
    task: i32,
    format: Format,
    seq: i64,
    open: Option<(Delta, i32)>,
}

impl Chain {
    pub fn after(task: i32, seq: i64, format: Format) -> Chain {
        Chain { task, format, seq, open: None }
    }

    /// `seq` of the last whole commit.
    pub fn seq(&self) -> i64 {
        self.seq
    }

    pub fn next(&mut self, delta: Delta) -> Result<Option<Commit>, ChainError> {
        if !self.format.reads(delta.format) {
            return Err(ChainError::Format(delta.format));
        }
        if delta.task != self.task {
            return Err(ChainError::Task { expected: self.task, found: delta.task });
        }
        if delta.seq <= self.seq {
            return Ok(None);
        }
        let (seq, parts, found) = (delta.seq, delta.parts, delta.part);
        let (mut commit, seen) = match self.open.take() {
            None if delta.prev_seq != self.seq => return Err(ChainError::Hole { expected: self.seq, prev: delta.prev_seq, found: seq }),
            None if delta.part == 0 => (delta, 0),
            None => return Err(ChainError::Part { seq, parts, expected: 0, found }),
            Some((mut open, seen)) if open.seq == seq && found == seen => {
                open.ops.extend(delta.ops);
                (open, seen)
            }
            Some((open, seen)) => return Err(ChainError::Part { seq: open.seq, parts: open.parts, expected: seen, found }),
        };
        if seen + 1 < commit.parts {
            self.open = Some((commit, seen + 1));
            return Ok(None);
        }
        self.seq = seq;
        let ops = std::mem::take(&mut commit.ops);
        Ok(Some(Commit { seq, to_offset: commit.to_offset, ops }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_schemas::limit;

    const FORMAT: Format = Format::of_a_version(1);

    fn head(seq: i64, prev_seq: i64) -> Head {
        let at = Micros(seq);
        Head { task: 1, seq, prev_seq, from_offset: seq, to_offset: seq + 1, watermark: at, clock: at, pipeline: "p".into() }
    }
    fn ops(count: usize) -> Vec<Op> {
        (0..count).map(|n| Op { key: vec![n as u8; 4], value: (n % 3 > 0).then(|| vec![0; n]) }).collect()
    }
    fn deltas(seq: i64, prev_seq: i64, count: usize, part_bytes: usize) -> Vec<Delta> {
        let (messages, same) = messages(&head(seq, prev_seq), FORMAT, ops(count), part_bytes);
        assert_eq!(same, ops(count));
        assert!(messages.iter().all(|message| message.len() <= part_bytes.max(64) + 128));
        messages.iter().map(|message| delta::decode(message).expect("decodes")).collect()
    }

    #[test]
    fn h43_a_commit_comes_back_whole_however_it_was_cut() {
        for (count, part_bytes) in [(0, 100), (1, 100), (20, 100), (20, 1), (20, 1 << 20)] {
            let mut chain = Chain::after(1, 4, FORMAT);
            let mut whole = Vec::new();
            for delta in deltas(4, 3, 2, 10).into_iter().chain(deltas(5, 4, count, part_bytes)) {
                whole.extend(chain.next(delta).expect("a chain"));
            }
            assert_eq!(whole, [Commit { seq: 5, to_offset: 6, ops: ops(count) }], "{count} in {part_bytes}");
        }
    }

    /// An operation larger than a part stands alone, and no part is larger than the log's bound.
    #[test]
    fn h43_parts_are_within_the_logs_bound() {
        let op = |n: u8, bytes: usize| Op { key: vec![n; 200], value: Some(vec![0; bytes]) };
        let sizes = [10, limit::DELTA_BYTES - 500, 10, limit::DELTA_BYTES + (3 << 20), 10, limit::DELTA_BYTES, 1];
        let all: Vec<Op> = (0..).zip(sizes).map(|(n, bytes)| op(n, bytes)).collect();
        let (messages, same) = messages(&head(1, 0), FORMAT, all.clone(), limit::DELTA_BYTES);
        assert_eq!(same, all);
        assert!(messages.iter().all(|message| message.len() + 1_000 < limit::MESSAGE_BYTES));
        let mut chain = Chain::after(1, 0, FORMAT);
        let whole: Vec<Commit> =
            messages.iter().filter_map(|message| chain.next(delta::decode(message).expect("decodes")).expect("a chain")).collect();
        assert_eq!(whole, [Commit { seq: 1, to_offset: 2, ops: all }]);
    }

    #[test]
    fn h26_holes_stop_the_chain() {
        let three = deltas(5, 4, 20, 200);
        assert!(three.len() >= 3);
        let run = |start: i64, deltas: Vec<Delta>| {
            let mut chain = Chain::after(1, start, FORMAT);
            deltas.into_iter().try_for_each(|delta| chain.next(delta).map(drop)).expect_err("refused")
        };
        assert_eq!(run(3, three.clone()), ChainError::Hole { expected: 3, prev: 4, found: 5 });
        let parts = three.len() as i32;
        assert_eq!(run(4, three[1..].to_vec()), ChainError::Part { seq: 5, parts, expected: 0, found: 1 });
        assert_eq!(run(4, vec![three[0].clone(), three[2].clone()]), ChainError::Part { seq: 5, parts, expected: 1, found: 2 });
        let next = deltas(6, 5, 1, 100).remove(0);
        assert_eq!(run(4, vec![three[0].clone(), next]), ChainError::Part { seq: 5, parts, expected: 1, found: 0 });
        assert_eq!(run(4, vec![Delta { task: 2, ..three[0].clone() }]), ChainError::Task { expected: 1, found: 2 });
        assert_eq!(run(4, vec![Delta { format: 3, ..three[0].clone() }]), ChainError::Format(3));
    }
}
