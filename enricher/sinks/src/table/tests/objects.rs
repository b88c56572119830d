//! A bucket in memory, and an object store in which something happens at the nth call.

use forebay_stores::objects::{Content, ObjectInfo, Objects, ObjectsError, Put};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A clone is the same bucket; `copy` is another one.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Memory {
    pub fn copy(&self) -> Memory {
        Memory(Arc::new(Mutex::new(self.0.lock().expect("lock").clone())))
    }
    pub fn names(&self) -> Vec<String> {
        self.0.lock().expect("lock").keys().cloned().collect()
    }
}

impl Objects for Memory {
    fn put_if_absent(&self, name: &str, content: Content<'_>) -> Result<Put, ObjectsError> {
        let Content::Bytes(bytes) = content else { unreachable!("the sink puts bytes") };
        let mut objects = self.0.lock().expect("lock");
        match objects.get(name) {
            Some(there) => Ok(if there == bytes { Put::Same } else { Put::Different }),
            None => {
                objects.insert(name.to_owned(), bytes.to_owned());
                Ok(Put::Created)
            }
        }
    }
    fn get(&self, name: &str) -> Result<Vec<u8>, ObjectsError> {
        self.0.lock().expect("lock").get(name).cloned().ok_or_else(|| ObjectsError::NotFound(name.to_owned()))
    }
    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, ObjectsError> {
        let bytes = self.get(name)?;
        let at = |offset: u64| usize::try_from(offset).expect("small").min(bytes.len());
        Ok(bytes[at(range.start)..at(range.end)].to_owned())
    }
    fn size(&self, name: &str) -> Result<u64, ObjectsError> {
        Ok(self.get(name)?.len() as u64)
    }
    fn list(&self, prefix: &str, start_after: Option<&str>, max: usize) -> Result<Vec<ObjectInfo>, ObjectsError> {
        let objects = self.0.lock().expect("lock");
        let found = objects.iter().filter(|(name, _)| name.starts_with(prefix) && start_after.is_none_or(|after| name.as_str() > after));
        Ok(found.take(max).map(|(name, bytes)| ObjectInfo { name: name.clone(), bytes: bytes.len() as u64 }).collect())
    }
    fn delete(&self, name: &str) -> Result<(), ObjectsError> {
        self.0.lock().expect("lock").remove(name);
        Ok(())
    }
}

/// What happens at a call.
pub enum Event {
    Pass,
    /// An error; nothing was done.
    FailBefore,
    /// It was done, and its answer is lost.
    FailAfter,
}

/// `at` is asked at each call, with the number of calls before it.
pub struct Hooked<F> {
    pub inner: Memory,
    pub calls: Arc<AtomicUsize>,
    pub at: F,
}

impl<F: Fn(usize) -> Event + Send + Sync> Hooked<F> {
    fn call<T>(&self, work: impl FnOnce(&Memory) -> Result<T, ObjectsError>) -> Result<T, ObjectsError> {
        let failed = || Err(ObjectsError::Io(std::io::Error::other("the store has trouble")));
        match (self.at)(self.calls.fetch_add(1, Ordering::SeqCst)) {
            Event::Pass => work(&self.inner),
            Event::FailBefore => failed(),
            Event::FailAfter => work(&self.inner).and_then(|_| failed()),
        }
    }
}

impl<F: Fn(usize) -> Event + Send + Sync> Objects for Hooked<F> {
    fn put_if_absent(&self, name: &str, content: Content<'_>) -> Result<Put, ObjectsError> {
        self.call(|inner| inner.put_if_absent(name, content))
    }
    fn get(&self, name: &str) -> Result<Vec<u8>, ObjectsError> {
        self.call(|inner| inner.get(name))
    }
    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, ObjectsError> {
        self.call(|inner| inner.get_range(name, range))
    }
    fn size(&self, name: &str) -> Result<u64, ObjectsError> {
        self.call(|inner| inner.size(name))
    }
    fn list(&self, prefix: &str, start_after: Option<&str>, max: usize) -> Result<Vec<ObjectInfo>, ObjectsError> {
        self.call(|inner| inner.list(prefix, start_after, max))
    }
    fn delete(&self, name: &str) -> Result<(), ObjectsError> {
        self.call(|inner| inner.delete(name))
    }
}
