//! Once a minute: drop what is older than its topic's retention and no consumer needs any more.

use super::committed;
use crate::config::Config;
use forebay_schemas::topic::Topic;
use forebay_stores::log::embedded::EmbeddedLog;
use forebay_stores::log::{Log, TopicPartition};
use forebay_stores::objects::Objects;
use std::collections::BTreeMap;
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
                let in_tables = in_tables(&config, &warehouse).await;
                let retained = tokio::task::spawn_blocking(move || {
                    log.retain(SystemTime::now().into(), &|at| keep_from(&config, &*log, &in_tables, at))
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
fn keep_from(config: &Config, log: &dyn Log, in_tables: &InTables, at: TopicPartition) -> Option<i64> {
    match at.topic {
        Topic::Harvested | Topic::Repartition => Some(committed(log, config, at)),
        // `None` where no table is filled from it.
        Topic::Trusted | Topic::Windows => in_tables.get(&at.topic).map(|reached| reached.get(&at.partition).copied().unwrap_or(0)),
        // These have no consumer of ours; deltas are kept as long as recovery may need them, which is their retention.
        Topic::Bad | Topic::Delta | Topic::Late => None,
    }
}

/// By topic and partition, the offset that the topic's table has reached; none where it cannot be told.
pub(super) type InTables = BTreeMap<Topic, BTreeMap<i32, i64>>;

pub(super) async fn in_tables(config: &Config, warehouse: &Arc<dyn Objects>) -> InTables {
    let mut reached = InTables::new();
    for table in config.tables() {
        reached.insert(table.topic(), forebay_sinks::reached(&config.table, table, warehouse).await.unwrap_or_default());
    }
    reached
}
