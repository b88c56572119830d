//! State in memory: gone when the process ends, rebuilt from the deltas at each start.

use super::{Backend, Each, Meta, StateError};
use forebay_schemas::wire::delta::Op;
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// What an entry takes beside its bytes, about.
const ENTRY_BYTES: u64 = 64;

#[derive(Default)]
pub struct Memory {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    meta: Option<Meta>,
    bytes: u64,
}

impl Inner {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.remove(key);
        self.bytes += weight(key, value);
        self.map.insert(key.to_vec(), value.to_vec());
    }
    fn remove(&mut self, key: &[u8]) {
        if let Some((key, value)) = self.map.remove_entry(key) {
            self.bytes -= weight(&key, &value);
        }
    }
}

fn weight(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64 + ENTRY_BYTES
}

impl Backend for Memory {
    fn meta(&self) -> Result<Option<Meta>, StateError> {
        Ok(self.inner.read().meta.clone())
    }
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        Ok(self.inner.read().map.get(key).cloned())
    }
    fn get_many(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), StateError> {
        let inner = self.inner.read();
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = inner.map.get(*key) {
                found(place, value);
            }
        }
        Ok(())
    }
    fn scan(&self, from: &[u8], to: &[u8], each: &mut Each<'_>) -> Result<(), StateError> {
        let inner = self.inner.read();
        for (key, value) in inner.map.range(from.to_vec()..to.to_vec()) {
            if each(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
    fn apply(&self, ops: &[Op], meta: &Meta) -> Result<(), StateError> {
        let mut inner = self.inner.write();
        for op in ops {
            match &op.value {
                Some(value) => inner.put(&op.key, value),
                None => inner.remove(&op.key),
            }
        }
        inner.meta = Some(meta.clone());
        Ok(())
    }
    fn reclaim(&self, ranges: &[(Vec<u8>, Vec<u8>)]) -> Result<(), StateError> {
        let mut inner = self.inner.write();
        for (from, to) in ranges {
            let gone: Vec<Vec<u8>> = inner.map.range(from.clone()..to.clone()).map(|(key, _)| key.clone()).collect();
            gone.iter().for_each(|key| inner.remove(key));
        }
        Ok(())
    }
    fn flush(&self) -> Result<(), StateError> {
        Ok(())
    }
    fn bytes(&self) -> u64 {
        self.inner.read().bytes
    }
}
