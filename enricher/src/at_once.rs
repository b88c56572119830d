//! The same work for several tasks at once: most of a start is waiting for the log's answers.

use crate::error::LaneError;
use forebay_schemas::limit;
use std::thread;

/// What `work` gives for each of `items`, in their order; the first error ends it.
pub fn at_once<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R, LaneError> + Sync) -> Result<Vec<R>, LaneError> {
    let mut results = Vec::with_capacity(items.len());
    for chunk in items.chunks(limit::TASKS_AT_ONCE) {
        thread::scope(|scope| {
            let threads: Vec<_> = chunk.iter().map(|item| scope.spawn(|| work(item))).collect();
            threads.into_iter().try_for_each(|thread| {
                results.push(thread.join().map_err(|_| LaneError::Panicked)??);
                Ok::<_, LaneError>(())
            })
        })?;
    }
    Ok(results)
}
