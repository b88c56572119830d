//! One bound on the bytes of bodies in memory (law L1), shared by all requests.
//!
//! Owns: the count. Invariant: what is reserved is given back when its `Reserved` is dropped, on every way out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    bytes_max: usize,
}

impl Budget {
    pub fn new(bytes_max: usize) -> Arc<Budget> {
        Arc::new(Budget { used: AtomicUsize::new(0), bytes_max })
    }
    /// A reservation of nothing yet.
    pub fn open(self: &Arc<Budget>) -> Reserved {
        Reserved { budget: self.clone(), bytes: 0 }
    }
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
    fn take(&self, more: usize) -> bool {
        let fits = |used: usize| used.checked_add(more).filter(|sum| *sum <= self.bytes_max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

#[must_use]
#[derive(Debug)]
pub struct Reserved {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Reserved {
    /// Holds at least `bytes` from now on, or says that there is no room.
    pub fn reach(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits = more == 0 || self.budget.take(more);
        if fits {
            self.bytes = self.bytes.max(bytes);
        }
        fits
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_over_and_all_given_back() {
        let budget = Budget::new(100);
        let mut a = budget.open();
        let mut b = budget.open();
        assert!(a.reach(60) && !b.reach(41) && b.reach(40) && a.reach(10) && !a.reach(61));
        assert_eq!(budget.used(), 100);
        drop(a);
        assert!(b.reach(100) && !b.reach(usize::MAX));
        drop(b);
        assert_eq!(budget.used(), 0);
    }
}
