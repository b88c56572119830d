//! What a table has, from the catalogue and the metadata file alone: for `explain`, and for what the log need not keep.

use super::catalogue::Catalogue;
use super::config::Config;
use super::error::SinkError;
use super::offsets::{Offsets, PROPERTY};
use super::shape::Table;
use super::stored::Stored;
use super::warehouse::Warehouse;
use forebay_schemas::time::Micros;
use forebay_stores::objects::Objects;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the table says of one record of the trusted topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lookup {
    /// `forebay.trusted_events`.
    pub table: String,
    /// The current metadata file.
    pub metadata: String,
    /// Id of the trusted topic that the table is filled from: another than the log's means other records.
    pub topic: String,
    /// Offsets of the record's partition below this are in the table.
    pub next: i64,
    pub has_it: bool,
    /// The oldest kept snapshot that has the record.
    pub snapshot: Option<Snapshot>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    pub id: i64,
    pub committed_at: Micros,
    /// The record came with this snapshot or with an expired one before it.
    pub or_before: bool,
}

/// Asks the table about the record of trusted partition `partition` at `offset`. `None`: there is no table, or nothing
/// was committed to it. Works while the sink runs and on a stopped folder. `objects` has the root of `config.warehouse`.
pub async fn lookup(config: &Config, objects: &Arc<dyn Objects>, partition: i32, offset: i64) -> Result<Option<Lookup>, SinkError> {
    let (config, objects) = (config.clone(), objects.clone());
    // Catalogue and object store block.
    let asked = tokio::task::spawn_blocking(move || look(&config, objects, partition, offset));
    asked.await.map_err(|_| SinkError::Ended)?
}

/// Offsets of the table's topic, by partition, below which all is in the table; none where there is no table yet.
pub async fn reached(config: &Config, table: Table, objects: &Arc<dyn Objects>) -> Result<BTreeMap<i32, i64>, SinkError> {
    let (config, objects) = (config.clone(), objects.clone());
    let asked = tokio::task::spawn_blocking(move || load(&config, table, objects));
    Ok(asked.await.map_err(|_| SinkError::Ended)??.map_or_else(BTreeMap::new, |(_, offsets)| offsets.next))
}

fn load(config: &Config, table: Table, objects: Arc<dyn Objects>) -> Result<Option<(Stored, Offsets)>, SinkError> {
    let Some(mut catalogue) = Catalogue::look(config, table.shape())? else { return Ok(None) };
    let warehouse = Warehouse::look(&config.warehouse, objects, table.shape())?;
    let table = catalogue.load_moved(&warehouse);
    catalogue.close();
    let Some(table) = table? else { return Ok(None) };
    Ok(table.offsets()?.map(|offsets| (table, offsets)))
}

fn look(config: &Config, objects: Arc<dyn Objects>, partition: i32, offset: i64) -> Result<Option<Lookup>, SinkError> {
    let Some((table, offsets)) = load(config, Table::TrustedEvents, objects)? else { return Ok(None) };
    let has_it = offsets.covers(partition, offset);
    Ok(Some(Lookup {
        table: Table::TrustedEvents.shape().to_string(),
        metadata: table.location.clone(),
        topic: offsets.topic,
        next: offsets.next.get(&partition).copied().unwrap_or(0),
        has_it,
        snapshot: if has_it { first_with(&table, partition, offset) } else { None },
    }))
}

fn first_with(table: &Stored, partition: i32, offset: i64) -> Option<Snapshot> {
    let mut first = None;
    for snapshot in table.ancestry() {
        // A snapshot of another writer says nothing of offsets.
        let Some(summary) = snapshot.summary().additional_properties.get(PROPERTY) else { continue };
        let or_before = snapshot.parent_snapshot_id().is_some();
        if Offsets::parse(summary).is_ok_and(|offsets| offsets.covers(partition, offset)) {
            let committed_at = Micros(snapshot.timestamp_ms() * 1_000);
            first = Some(Snapshot { id: snapshot.snapshot_id(), committed_at, or_before });
        } else {
            return first.map(|first| Snapshot { or_before: false, ..first });
        }
    }
    first
}
