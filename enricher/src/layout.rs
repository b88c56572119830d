//! Which tasks make a lane, and under which names lanes commit.
//!
//! Owns: the one rule of both. Does not own: who holds a task at the moment (`custody`), which lanes run here (`config`).
//! Invariant: the rule and the names are persisted, in offsets, deltas and fences.

/// How the partitions of one job fall into lanes: partition p belongs to lane p mod lanes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    job: String,
    lanes: i32,
    partitions: i32,
}

impl Layout {
    /// No more lanes than partitions, at least one.
    pub fn new(job: &str, lanes: u32, partitions: i32) -> Layout {
        Layout { job: job.to_owned(), lanes: i32::try_from(lanes).unwrap_or(i32::MAX).min(partitions).max(1), partitions }
    }

    pub fn job(&self) -> &str {
        &self.job
    }
    pub fn lanes(&self) -> i32 {
        self.lanes
    }
    pub fn partitions(&self) -> i32 {
        self.partitions
    }

    /// The tasks of a lane.
    pub fn tasks(&self, lane: i32) -> Vec<i32> {
        (0..self.partitions).filter(|partition| partition % self.lanes == lane).collect()
    }

    /// The name under which this layout's lane of `task` commits.
    pub fn id(&self, task: i32) -> String {
        lane_id(&self.job, task % self.lanes)
    }

    /// The name that holds a task whose last commit was made under a layout of `lanes`; `None`: nobody has committed it.
    pub fn holder(&self, task: i32, lanes: Option<i32>) -> String {
        match lanes {
            Some(lanes) => lane_id(&self.job, task % lanes.max(1)),
            None => format!("{}/unclaimed", self.job),
        }
    }
}

/// The name under which a lane commits: of its offsets and of its fence.
pub fn lane_id(job: &str, lane: i32) -> String {
    format!("{job}/{lane}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Persisted: these names never change.
    #[test]
    fn golden_names() {
        let layout = Layout::new("job", 3, 5);
        assert_eq!((0..3).map(|lane| layout.tasks(lane)).collect::<Vec<_>>(), [vec![0, 3], vec![1, 4], vec![2]]);
        assert_eq!([0, 1, 2, 3, 4].map(|task| layout.id(task)), ["job/0", "job/1", "job/2", "job/0", "job/1"]);
        assert_eq!(layout.holder(4, Some(3)), "job/1");
        assert_eq!(layout.holder(4, Some(2)), "job/0");
        assert_eq!(layout.holder(4, None), "job/unclaimed");
        let more_lanes_than_partitions = Layout::new("job", 9, 2);
        assert_eq!((more_lanes_than_partitions.lanes(), more_lanes_than_partitions.tasks(1)), (2, vec![1]));
    }
}
