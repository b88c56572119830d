//! What is kept of one pane, in state: its numbers and small sketches in one piece, each block of a larger sketch by itself.
//!
//! Owns: when a sketch is cut into blocks, which number a block has in state, what is written when something is added. Does
//! not own: panes of a key (`panes`), the bytes of numbers and blocks (`measure`, `sketch`).
//! Invariant: what is written for an event does not grow with what was there before. The first number of a sketch that was cut
//! is the list of its blocks, which changes only when a block is new; its blocks follow.

use super::measure::{Kept, Numbers};
use super::panes::Pane;
use super::sketch::{Block, Kind, Sketch};
use super::{State, merge};
use forebay_schemas::wire::avro::{self, DecodeError, Reader};
use std::collections::BTreeSet;

/// What a pane keeps for each of the values: numbers, or a sketch.
pub type Columns = Vec<Option<Kind>>;

/// A sketch of more bytes is cut into its blocks: below, an entry for each block would be mostly its key.
const WHOLE_BYTES: usize = 48;

/// A pane's own entry.
#[derive(Clone, PartialEq, Eq)]
struct Stored {
    numbers: Vec<Numbers>,
    /// `None`: it was cut.
    sketches: Vec<Option<Sketch>>,
}

/// Adds to a pane. Tells whether it is new.
pub fn add<S: State>(state: &mut S, key: &[u8], pane: Pane, columns: &Columns, kept: &[Kept]) -> Result<bool, S::Error> {
    let fits = |(column, kept): (&Option<Kind>, &Kept)| match kept {
        Kept::Numbers(_) => column.is_none(),
        Kept::Sketch(sketch) => *column == Some(sketch.kind()),
    };
    if kept.len() != columns.len() || !columns.iter().zip(kept).all(fits) {
        return Err(state.corrupt("other values are kept than are declared"));
    }
    let known = stored(state, key, pane, columns)?;
    let mut all = known.clone().unwrap_or_else(|| Stored::nothing(columns));
    all.numbers.iter_mut().zip(kept.iter().filter_map(Kept::numbers)).for_each(|(all, more)| all.merge(&more));
    for (((first, _), all), more) in sketches(columns).zip(&mut all.sketches).zip(kept.iter().filter_map(sketch_of)) {
        match all {
            None => add_sketch(state, key, pane, first, more)?,
            Some(whole) => {
                whole.merge(more).map_err(|_| state.corrupt(UNREADABLE))?;
                if bytes_of_sketch(whole).len() > WHOLE_BYTES {
                    add_sketch(state, key, pane, first, whole)?;
                    *all = None;
                }
            }
        }
    }
    if known.as_ref() != Some(&all) {
        state.put_pane(key, pane, Some(all.encode()));
    }
    Ok(known.is_none())
}

fn add_sketch<S: State>(state: &mut S, key: &[u8], pane: Pane, first: u16, more: &Sketch) -> Result<(), S::Error> {
    let mut new = Vec::new();
    for (number, block) in more.blocks() {
        let place = first + 1 + number;
        let mut all = match state.block(key, pane, place)? {
            Some(bytes) => block_from(&bytes, more.kind()).map_err(|_| state.corrupt(UNREADABLE))?,
            None => {
                new.push(number);
                state.put_block(key, pane, place, Some(bytes_of(block)));
                continue;
            }
        };
        if all.merge(block).map_err(|_| state.corrupt(UNREADABLE))? {
            state.put_block(key, pane, place, Some(bytes_of(&all)));
        }
    }
    if new.is_empty() {
        return Ok(());
    }
    let mut listed = list(state, key, pane, first)?;
    listed.extend(new);
    let mut bits = vec![0_u8; usize::from(more.kind().blocks()).div_ceil(8)];
    listed.iter().for_each(|number| bits[usize::from(number / 8)] |= 1 << (number % 8));
    state.put_block(key, pane, first, Some(bits));
    Ok(())
}

/// All that is kept of `panes` together; `None`: one of them is missing.
pub fn read<S: State>(state: &S, key: &[u8], panes: &[Pane], columns: &Columns) -> Result<Option<Vec<Kept>>, S::Error> {
    let mut all: Option<Vec<Kept>> = None;
    for (pane, bytes) in panes.iter().zip(state.panes(key, panes)?) {
        let Some(bytes) = bytes else { return Ok(None) };
        let Stored { numbers, sketches: whole } = Stored::of(state, &bytes, columns)?;
        let (mut numbers, mut sketches) = (numbers.into_iter(), sketches(columns).zip(whole));
        let mut kept = Vec::with_capacity(columns.len());
        for column in columns {
            kept.push(match column.and_then(|_| sketches.next()) {
                Some((_, Some(whole))) => Kept::Sketch(whole),
                Some(((first, kind), None)) => Kept::Sketch(read_sketch(state, key, *pane, first, kind)?),
                None => Kept::Numbers(numbers.next().unwrap_or_default()),
            });
        }
        match &mut all {
            Some(all) => merge(state, all, &kept)?,
            None => all = Some(kept),
        }
    }
    Ok(all)
}

fn read_sketch<S: State>(state: &S, key: &[u8], pane: Pane, first: u16, kind: Kind) -> Result<Sketch, S::Error> {
    let mut sketch = Sketch::new(kind);
    for number in list(state, key, pane, first)? {
        let bytes = state.block(key, pane, first + 1 + number)?.ok_or_else(|| state.corrupt("a block of a sketch is missing"))?;
        let block = block_from(&bytes, kind).map_err(|_| state.corrupt(UNREADABLE))?;
        sketch.merge_block(number, block).map_err(|_| state.corrupt(UNREADABLE))?;
    }
    Ok(sketch)
}

/// The pane is gone.
pub fn remove<S: State>(state: &mut S, key: &[u8], pane: Pane, columns: &Columns) -> Result<(), S::Error> {
    for (first, _) in sketches(columns) {
        let listed = list(state, key, pane, first)?;
        if !listed.is_empty() {
            listed.iter().for_each(|number| state.put_block(key, pane, first + 1 + number, None));
            state.put_block(key, pane, first, None);
        }
    }
    state.put_pane(key, pane, None);
    Ok(())
}

const UNREADABLE: &str = "a block of a sketch is unreadable";

/// The first number of each sketch in state, and its kind.
fn sketches(columns: &Columns) -> impl Iterator<Item = (u16, Kind)> {
    columns.iter().flatten().scan(0, |next, kind| {
        let first = *next;
        *next += 1 + kind.blocks();
        Some((first, *kind))
    })
}

fn sketch_of(kept: &Kept) -> Option<&Sketch> {
    match kept {
        Kept::Sketch(sketch) => Some(sketch),
        Kept::Numbers(_) => None,
    }
}

/// The blocks that there are.
fn list<S: State>(state: &S, key: &[u8], pane: Pane, first: u16) -> Result<BTreeSet<u16>, S::Error> {
    let bits = state.block(key, pane, first)?.unwrap_or_default();
    let is_set = |number: &u16| bits[usize::from(number / 8)] & (1 << (number % 8)) != 0;
    let count = u16::try_from(bits.len() * 8).map_err(|_| state.corrupt("the list of a sketch's blocks is too long"))?;
    Ok((0..count).filter(is_set).collect())
}

fn stored<S: State>(state: &S, key: &[u8], pane: Pane, columns: &Columns) -> Result<Option<Stored>, S::Error> {
    state.pane(key, pane)?.map(|bytes| Stored::of(state, &bytes, columns)).transpose()
}

impl Stored {
    fn of<S: State>(state: &S, bytes: &[u8], columns: &Columns) -> Result<Stored, S::Error> {
        let stored = Stored::decode(bytes, columns).map_err(|_| state.corrupt("a pane is unreadable"))?;
        if stored.numbers.len() != columns.iter().filter(|column| column.is_none()).count() {
            return Err(state.corrupt("other values are kept than are declared"));
        }
        Ok(stored)
    }

    fn nothing(columns: &Columns) -> Stored {
        let numbers = columns.iter().filter(|column| column.is_none()).map(|_| Numbers::default());
        Stored { numbers: numbers.collect(), sketches: columns.iter().flatten().map(|kind| Some(Sketch::new(*kind))).collect() }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        avro::array(&self.numbers, Numbers::encode, &mut out);
        for sketch in &self.sketches {
            avro::optional(sketch.as_ref(), |sketch, out| out.extend(bytes_of_sketch(sketch)), &mut out);
        }
        out
    }

    fn decode(bytes: &[u8], columns: &Columns) -> Result<Stored, DecodeError> {
        let mut r = Reader::new(bytes);
        let numbers = r.array(Numbers::decode)?;
        let sketches = columns.iter().flatten().map(|kind| r.optional(|r| Sketch::decode(*kind, r)));
        let stored = Stored { numbers, sketches: sketches.collect::<Result<_, _>>()? };
        r.end()?;
        Ok(stored)
    }
}

fn bytes_of_sketch(sketch: &Sketch) -> Vec<u8> {
    let mut bytes = Vec::new();
    sketch.encode(&mut bytes);
    bytes
}

fn bytes_of(block: &Block) -> Vec<u8> {
    let mut bytes = Vec::new();
    block.encode(&mut bytes);
    bytes
}

fn block_from(bytes: &[u8], kind: Kind) -> Result<Block, DecodeError> {
    let mut r = Reader::new(bytes);
    let block = Block::decode(kind, &mut r)?;
    r.end()?;
    Ok(block)
}
