//! What is left on disk of a drain that is cut short: looked up at that moment, beside the parts that still run.
//!
//! Does not own: finishing it; the next start does that.

use super::{behind, housekeeping, shown};
use crate::config::Config;
use crate::stores::Stores;
use forebay_gateway::find::{self, Place};
use forebay_schemas::topic::Topic;
use forebay_stores::log::embedded::EmbeddedLog;
use forebay_stores::log::{Log, TopicPartition};
use forebay_stores::objects::folder::Folder;

pub struct Remaining {
    pub(super) config: Config,
    pub(super) stores: Stores,
}

impl Remaining {
    /// One sentence each; never none, for the parts were not asked.
    pub async fn told(&self) -> super::Leftovers {
        // Another's log is not asked by somebody who does not wait.
        let mut left = match &self.stores.embedded {
            Some(log) => self.in_folder(log).await,
            None => super::Leftovers::new(),
        };
        left.push(format!("what was under way, in {}", shown(&self.config.data)));
        left
    }

    async fn in_folder(&self, log: &EmbeddedLog) -> super::Leftovers {
        let mut left = super::Leftovers::new();
        let objects = Folder::new(self.config.objects_dir());
        let spooled: Vec<u64> = find::segments(&self.config.spool_dir(), &objects, None, None)
            .unwrap_or_default()
            .into_iter()
            .filter(|segment| matches!(segment.place, Place::Spool(_)))
            .map(|segment| segment.bytes)
            .collect();
        if !spooled.is_empty() {
            left.push(format!("{} spool segments ({} bytes)", spooled.len(), spooled.iter().sum::<u64>()));
        }
        let waiting = behind(log, &self.config);
        if waiting > 0 {
            left.push(format!("at least {waiting} events in the log that are not judged"));
        }
        for (topic, reached) in housekeeping::in_tables(&self.config, &self.stores.warehouse).await {
            let of_partition = |partition: i32| {
                let bounds = log.bounds(TopicPartition { topic, partition }).ok()?;
                Some(bounds.end - reached.get(&partition).copied().unwrap_or(0).max(bounds.start))
            };
            let rows: i64 = (0..log.partitions(topic)).filter_map(of_partition).sum();
            let what = if topic == Topic::Windows { "window results that their table" } else { "trusted events that the table" };
            if rows > 0 {
                left.push(format!("{rows} {what} does not have"));
            }
        }
        left
    }
}
