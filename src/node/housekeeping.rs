//! Once a minute: drop what is older than its topic's retention and no consumer needs any more.

use super::committed;
use crate::config::Config;
use forebay_schemas::topic::Topic;
use forebay_stores::log::embedded::EmbeddedLog;
use forebay_stores::log::{Log, TopicPartition};
use forebay_stores::objects::Objects;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const EVERY: Duration = Duration::from_secs(60);

pub struct Housekeeping(tokio::task::JoinHandle<()>);

impl Housekeeping {
    pub fn start(config: Config, log: Arc<EmbeddedLog>, warehouse: Arc<dyn Objects>) -> Housekeeping {
        Housekeeping(tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let (config, log) = (config.clone(), log.clone());
                let in_table = in_table(&config, &*log, &warehouse).await;
                let retained = tokio::task::spawn_blocking(move || {
                    log.retain(SystemTime::now().into(), &|at| keep_from(&config, &*log, &in_table, at))
                })
                .await;
                match retained {
                    Ok(Ok(0)) => {}
                    Ok(Ok(dropped)) => tracing::info!(dropped, "records past their retention were dropped"),
                    Ok(Err(error)) => tracing::warn!(%error, "records past their retention are not dropped"),
                    Err(error) => tracing::error!(%error, "housekeeping failed"),
                }
            }
        }))
    }
    pub fn stop(&self) {
        self.0.abort();
    }
}

/// What the slowest consumer of a partition still needs.
fn keep_from(config: &Config, log: &dyn Log, in_table: &[i64], at: TopicPartition) -> Option<i64> {
    match at.topic {
        Topic::Harvested | Topic::Repartition => Some(committed(log, config, at)),
        Topic::Trusted => Some(usize::try_from(at.partition).ok().and_then(|n| in_table.get(n)).copied().unwrap_or(0)),
        // These have no consumer of ours; deltas are kept as long as recovery may need them, which is their retention.
        Topic::Bad | Topic::Delta | Topic::Windows | Topic::Late => None,
    }
}

/// Offsets of the trusted partitions that the table has reached; 0 where it cannot be told.
pub(super) async fn in_table(config: &Config, log: &dyn Log, warehouse: &Arc<dyn Objects>) -> Vec<i64> {
    let mut reached = Vec::new();
    for partition in 0..log.partitions(Topic::Trusted) {
        let found = forebay_sinks::lookup(&config.table, warehouse, partition, 0).await.ok().flatten();
        reached.push(found.map_or(0, |found| found.next));
    }
    reached
}
