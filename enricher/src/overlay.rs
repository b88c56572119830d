//! The writes of a task that are not yet known to be committed, over its backend: reads look here first.
//!
//! Owns: three layers, newest first: the record in work, the batch being filled, the batch being committed. The batch
//! *is* the delta: what is cut off here is what the log gets and what the backend applies.
//! Does not own: when to cut and when a commit is known (`lane`), ranges reclaimed in the backend (`seen`).
//! Invariants: a record's writes reach the batch together or not at all; absolute puts and deletes only.

use crate::state::{Backend, StateError};
use forebay_schemas::wire::delta::Op;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use std::sync::Arc;

pub struct Overlay {
    record: Vec<Op>,
    batch: Writes,
    in_flight: Writes<Arc<Vec<Op>>>,
    backend: Arc<dyn Backend>,
}

/// One write for each key.
#[derive(Default)]
struct Writes<Ops = Vec<Op>> {
    ops: Ops,
    /// Places in `ops`, found by their key's hash: nearly every event asks for a key that is not there.
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl<Ops: AsRef<Vec<Op>>> Writes<Ops> {
    fn find(&self, key: &[u8]) -> Option<&Op> {
        let ops = self.ops.as_ref();
        let place = self.places.find(self.hasher.hash_one(key), |place| ops[*place as usize].key == key)?;
        Some(&ops[*place as usize])
    }
}

impl Writes {
    fn insert(&mut self, op: Op) {
        let Writes { ops, places, hasher } = self;
        let hash = hasher.hash_one(op.key.as_slice());
        match places.find(hash, |place| ops[*place as usize].key == op.key) {
            Some(place) => ops[*place as usize] = op,
            None => {
                let place = u32::try_from(ops.len()).expect("a batch is bounded by limit::COMMIT_RECORDS");
                ops.push(op);
                places.insert_unique(hash, place, |place| hasher.hash_one(ops[*place as usize].key.as_slice()));
            }
        }
    }

    /// Puts the writes into the order of their keys.
    fn sort(&mut self) {
        let mut order: Vec<u32> = (0..self.ops.len() as u32).collect();
        order.sort_unstable_by(|a, b| self.ops[*a as usize].key.cmp(&self.ops[*b as usize].key));
        let mut moved = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, from)| moved[*from as usize] = to as u32);
        self.places.iter_mut().for_each(|place| *place = moved[*place as usize]);
        let mut unsorted = std::mem::take(&mut self.ops);
        let nothing = || Op { key: Vec::new(), value: None };
        self.ops.extend(order.iter().map(|from| std::mem::replace(&mut unsorted[*from as usize], nothing())));
    }
}

impl Overlay {
    pub fn new(backend: Arc<dyn Backend>) -> Overlay {
        Overlay { record: Vec::new(), batch: Writes::default(), in_flight: Writes::default(), backend }
    }

    /// Nothing waits to be committed.
    pub fn is_clean(&self) -> bool {
        self.record.is_empty() && self.batch.ops.is_empty()
    }

    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.write(key, Some(value));
    }
    /// `None` deletes.
    pub fn write(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.record.push(Op { key, value });
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        if let Some(op) = self.record.iter().rev().find(|op| op.key == key) {
            return Ok(op.value.clone());
        }
        match self.pending(key) {
            Some(value) => Ok(value.map(<[u8]>::to_vec)),
            None => self.backend.get(key),
        }
    }

    /// `keys` ascend.
    pub fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, StateError> {
        let mut values = vec![None; keys.len()];
        let (mut places, mut wanted) = (Vec::new(), Vec::new());
        for (place, key) in keys.iter().enumerate() {
            let written = self.record.iter().rev().find(|op| op.key == *key).map(|op| op.value.as_deref());
            match written.or_else(|| self.pending(key)) {
                Some(value) => values[place] = value.map(<[u8]>::to_vec),
                None => {
                    places.push(place);
                    wanted.push(key.as_slice());
                }
            }
        }
        self.backend.get_many(&wanted, &mut |at, value| values[places[at]] = Some(value.to_vec()))?;
        Ok(values)
    }

    /// What the whole records before this one have written and the backend does not have yet: `Some(None)` is a delete.
    pub fn pending(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        let op = self.batch.find(key).or_else(|| self.in_flight.find(key))?;
        Some(op.value.as_deref())
    }

    /// The record is done: its writes join the batch.
    pub fn keep_record(&mut self) {
        for op in self.record.drain(..) {
            self.batch.insert(op);
        }
    }

    /// The record failed: its writes never were.
    pub fn drop_record(&mut self) {
        self.record.clear();
    }

    /// Ends the batch and hands it out in key order. `in_flight` gives it back for reads.
    pub fn cut(&mut self) -> Vec<Op> {
        assert!(self.record.is_empty(), "a batch is cut between records");
        assert!(self.in_flight.places.is_empty(), "one batch is committed at a time");
        let mut batch = std::mem::take(&mut self.batch);
        batch.sort();
        self.in_flight = Writes { ops: Arc::default(), places: batch.places, hasher: batch.hasher };
        batch.ops
    }

    /// The batch that was cut, unchanged.
    pub fn in_flight(&mut self, ops: Arc<Vec<Op>>) {
        assert_eq!(ops.len(), self.in_flight.places.len(), "the batch that was cut");
        self.in_flight.ops = ops;
    }

    /// The backend has the batch that was in flight.
    pub fn settled(&mut self) {
        self.in_flight = Writes::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Kind, Meta, Origin, Stores};

    #[test]
    fn the_newest_layer_answers_and_a_dropped_record_never_was() {
        let backend = Stores::new(Kind::Memory, std::path::Path::new(""), 1, crate::format::Format::writing(1)).open(0).expect("memory");
        let put = |key: &str, value: &str| Op { key: key.into(), value: Some(value.into()) };
        let origin = Origin { harvested: "h".into(), delta: "d".into(), partitions: 1 };
        backend
            .apply(&[put("a", "0"), put("b", "0"), put("c", "0"), put("d", "0")], &Meta { seq: 1, offset: 1, origin, deltas_from: None })
            .expect("memory");
        let mut overlay = Overlay::new(backend);
        let shown = |overlay: &Overlay| {
            let read = |key: &str| overlay.get(key.as_bytes()).expect("memory").map_or("-".into(), |v| String::from_utf8(v).expect("text"));
            let one_by_one = ["a", "b", "c", "d"].map(read).concat();
            let keys = ["a", "b", "c", "d", "e"].map(|key| key.as_bytes().to_vec());
            let at_once =
                overlay.get_many(&keys).expect("memory").into_iter().map(|v| v.map_or("-".into(), |v| String::from_utf8(v).expect("text")));
            assert_eq!(at_once.collect::<String>(), format!("{one_by_one}-"));
            one_by_one
        };
        overlay.put(b"b".to_vec(), b"1".to_vec());
        overlay.put(b"c".to_vec(), b"1".to_vec());
        overlay.keep_record();
        assert_eq!(shown(&overlay), "0110");
        let ops = Arc::new(overlay.cut());
        overlay.in_flight(ops.clone());
        assert_eq!(shown(&overlay), "0110");
        overlay.put(b"c".to_vec(), b"2".to_vec());
        assert_eq!(shown(&overlay), "0120");
        overlay.drop_record();
        assert_eq!(shown(&overlay), "0110");
        overlay.put(b"d".to_vec(), b"3".to_vec());
        overlay.put(b"d".to_vec(), b"4".to_vec());
        overlay.keep_record();
        assert_eq!(shown(&overlay), "0114");
        overlay.settled();
        assert_eq!(shown(&overlay), "0004");
        assert_eq!(overlay.cut(), [put("d", "4")]);
        assert_eq!(*ops, [put("b", "1"), put("c", "1")]);
    }
}
