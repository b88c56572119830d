//! A commit: files and offsets enter the table in one step, if the table says what the batch starts from.
//!
//! Owns: the new snapshot, the next state of the table, what to do when the swap is lost or its outcome unknown. Does not
//! own: manifests (`manifests`), which snapshots go (`expire`), the swap (`catalogue`).
//! Invariants: rows and offsets are in the same metadata; a lost swap is tried again only if the offsets still stand; a
//! commit that did not happen leaves no file; one that may have happened, or may happen yet, removes none.

use super::batch::{Written, remove_files};
use super::catalogue::{Catalogue, Next, Swap};
use super::error::SinkError;
use super::expire::{self, Keep};
use super::manifests::{Change, Writer};
use super::offsets::{Offsets, PROPERTY};
use super::stored::Stored;
use super::warehouse::{Warehouse, now};
use forebay_schemas::{failpoint, limit, time::Micros};
use iceberg::io::FileIO;
use iceberg::spec::{
    DataFile, MAIN_BRANCH, ManifestFile, ManifestListWriter, Operation, Snapshot, SnapshotRef, SnapshotSummaryCollector, Summary,
};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};
use uuid::Uuid;

/// Waits before reads of a catalogue that does not say how a commit ended.
pub(super) const ASK_AGAIN: [Duration; 4] = [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5)];

#[derive(Debug)]
pub(super) enum Outcome {
    /// The table has it. What only the `expired` snapshots name is to be cleaned up.
    Committed { table: Stored, expired: Vec<SnapshotRef> },
    /// The table's offsets are others by now: somebody else brought these rows. Nothing of the batch is in the table.
    Superseded { table: Stored },
}

/// What a commit needs beside the batch.
pub(super) struct Committer<'a> {
    pub catalogue: &'a mut Catalogue,
    pub warehouse: &'a Warehouse,
    pub keep: Keep,
    pub ask_again: [Duration; 4],
    /// The table as it was last read.
    pub table: &'a Stored,
}

impl Committer<'_> {
    /// Adds the batch's files and its offsets.
    pub(super) fn append(&mut self, written: &Written) -> Result<Outcome, SinkError> {
        let change = Change { added: written.files.clone(), removed: HashSet::new() };
        self.settle(&change, Operation::Append, written.from.as_ref(), &written.to)
    }

    /// Takes rewritten files out and puts the new ones in; the offsets stay.
    pub(super) fn replace(&mut self, change: &Change) -> Result<Outcome, SinkError> {
        let offsets = self.table.offsets()?.unwrap_or_default();
        self.settle(change, Operation::Replace, Some(&offsets), &offsets)
    }

    fn settle(&mut self, change: &Change, operation: Operation, from: Option<&Offsets>, to: &Offsets) -> Result<Outcome, SinkError> {
        let mut table = self.table.clone();
        // Attempts of unknown outcome: each may have come through, or may yet, and names the change's files.
        let mut in_doubt: Vec<Attempt> = Vec::new();
        let warehouse = self.warehouse;
        let give_up = |in_doubt: &[Attempt]| {
            if in_doubt.is_empty() {
                remove_files(warehouse, &change.added);
            }
        };
        for _ in 0..limit::SINK_COMMIT_ATTEMPTS {
            if table.offsets()?.as_ref() != from {
                give_up(&in_doubt);
                return Ok(Outcome::Superseded { table });
            }
            let attempt = match Attempt::prepare(&table, self, change, operation.clone(), to) {
                Ok(attempt) => attempt,
                // Files that were to be rewritten are no longer there: a rewrite of somebody else's.
                Err(Unprepared::Outdated) => {
                    give_up(&in_doubt);
                    return Ok(Outcome::Superseded { table });
                }
                Err(Unprepared::Failed(error)) => {
                    give_up(&in_doubt);
                    return Err(error);
                }
            };
            match self.catalogue.commit(warehouse, &table, &attempt.next) {
                Ok(Swap::Done(table)) => {
                    failpoint::pass("sink.after_commit");
                    return Ok(Outcome::Committed { table, expired: attempt.expired });
                }
                Ok(Swap::Lost) => {
                    tracing::info!(operation = operation.as_str(), "another commit came first; looking at the table again");
                    attempt.remove(warehouse);
                }
                Ok(Swap::Unknown(error)) => {
                    tracing::warn!(%error, "outcome of a commit unknown; looking at the table");
                    in_doubt.push(attempt);
                }
                Err(error) => {
                    attempt.remove(warehouse);
                    give_up(&in_doubt);
                    return Err(error);
                }
            }
            // An error leaves the files where they are: nobody could be asked. A later sweep decides.
            table = self.ask()?;
            let ours = |attempt: &Attempt| table.metadata.snapshot_by_id(attempt.snapshot_id).is_some();
            if let Some(found) = in_doubt.iter().position(ours) {
                return Ok(Outcome::Committed { table, expired: in_doubt.swap_remove(found).expired });
            }
        }
        give_up(&in_doubt);
        Err(SinkError::Crowded { attempts: limit::SINK_COMMIT_ATTEMPTS, location: table.location })
    }

    fn ask(&mut self) -> Result<Stored, SinkError> {
        let mut error = None;
        for wait in self.ask_again {
            std::thread::sleep(wait);
            match self.catalogue.load(self.warehouse) {
                Ok(Some(table)) => return Ok(table),
                Ok(None) => return Err(SinkError::Gone),
                Err(e) => error = Some(e),
            }
        }
        Err(error.expect("asked at least once"))
    }
}

/// The next state of the table, which nobody names yet, with all that it names.
#[derive(Debug)]
pub(super) struct Attempt {
    pub next: Next,
    snapshot_id: i64,
    expired: Vec<SnapshotRef>,
    written: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Unprepared {
    Outdated,
    Failed(SinkError),
}

impl<E: Into<SinkError>> From<E> for Unprepared {
    fn from(error: E) -> Unprepared {
        Unprepared::Failed(error.into())
    }
}

impl Attempt {
    pub(super) fn prepare(
        base: &Stored,
        committer: &Committer<'_>,
        change: &Change,
        operation: Operation,
        to: &Offsets,
    ) -> Result<Attempt, Unprepared> {
        let snapshot_id = fresh_snapshot_id(base);
        let (warehouse, scratch) = (committer.warehouse, FileIO::new_with_memory());
        let mut writer = Writer { table: base, warehouse, snapshot_id, commit: Uuid::now_v7(), scratch, written: Vec::new() };
        let result = Attempt::write(&mut writer, committer.keep, change, operation, to);
        let written = writer.written;
        match result {
            Ok((next, expired)) => Ok(Attempt { next, snapshot_id, expired, written }),
            Err(error) => {
                warehouse.remove_all(&written);
                Err(error)
            }
        }
    }

    fn write(
        writer: &mut Writer<'_>,
        keep: Keep,
        change: &Change,
        operation: Operation,
        to: &Offsets,
    ) -> Result<(Next, Vec<SnapshotRef>), Unprepared> {
        let base = writer.table;
        let (manifests, removed) = writer.next(change)?;
        if removed.len() != change.removed.len() {
            return Err(Unprepared::Outdated);
        }
        let list = put_list(writer, manifests)?;
        let metadata = &base.metadata;
        let now = now_ms(base);
        let snapshot = Snapshot::builder()
            .with_manifest_list(list)
            .with_snapshot_id(writer.snapshot_id)
            .with_parent_snapshot_id(metadata.current_snapshot_id())
            .with_sequence_number(metadata.next_sequence_number())
            .with_summary(summary(base, change, &removed, operation, to))
            .with_schema_id(metadata.current_schema_id())
            .with_timestamp_ms(now)
            .build();
        let builder = metadata
            .as_ref()
            .clone()
            .into_builder(Some(base.location.clone()))
            .set_branch_snapshot(snapshot, MAIN_BRANCH)?
            .set_properties(HashMap::from([(PROPERTY.to_owned(), to.to_text())]))?;
        let gone = expire::choose(base, keep, now);
        let builder = gone.iter().fold(builder, |builder, id| builder.remove_statistics(*id).remove_partition_statistics(*id));
        let built = builder.remove_snapshots(&gone).build()?;
        let expired = gone.iter().filter_map(|id| metadata.snapshot_by_id(*id).cloned()).collect();
        Ok((Next::from(built), expired))
    }

    fn remove(self, warehouse: &Warehouse) {
        warehouse.remove_all(&self.written);
    }
}

fn put_list(writer: &mut Writer<'_>, manifests: Vec<ManifestFile>) -> Result<String, SinkError> {
    let metadata = &writer.table.metadata;
    let location = format!("{}/metadata/snap-{}-0-{}.avro", metadata.location(), writer.snapshot_id, writer.commit);
    let output = now(writer.scratch.new_output(&location)?.writer())?;
    let mut list = ManifestListWriter::v2(output, writer.snapshot_id, metadata.current_snapshot_id(), metadata.next_sequence_number());
    list.add_manifests(manifests.into_iter())?;
    now(list.close())?;
    writer.keep(&location)?;
    Ok(location)
}

fn fresh_snapshot_id(table: &Stored) -> i64 {
    loop {
        let id = i64::from_be_bytes(Uuid::new_v4().as_u128().to_be_bytes()[..8].try_into().expect("eight bytes")) & i64::MAX;
        if id != 0 && table.metadata.snapshot_by_id(id).is_none() {
            return id;
        }
    }
}

/// Now, but never before what the table says: a clock set back must not stop commits.
fn now_ms(table: &Stored) -> i64 {
    let last = table.metadata.history().last().map_or(0, |entry| entry.timestamp_ms());
    Micros::from(SystemTime::now()).millis().max(table.metadata.last_updated_ms()).max(last)
}

fn summary(base: &Stored, change: &Change, removed: &[DataFile], operation: Operation, to: &Offsets) -> Summary {
    let mut collector = SnapshotSummaryCollector::default();
    let schema = base.metadata.current_schema();
    let spec = base.metadata.default_partition_spec();
    for file in &change.added {
        collector.add_file(file, schema.clone(), spec.clone());
    }
    for file in removed {
        collector.remove_file(file, schema.clone(), spec.clone());
    }
    let mut properties = collector.build();
    let before = base.metadata.current_snapshot().map(|snapshot| &snapshot.summary().additional_properties);
    for (total, added, taken) in TOTALS {
        let number = |properties: &HashMap<String, String>, key| properties.get(key).and_then(|n| n.parse::<u64>().ok());
        // A snapshot of another writer may lack a total; then it stays unknown.
        let Some(last) = before.map_or(Some(0), |before| number(before, total)) else { continue };
        let sum = (last + number(&properties, added).unwrap_or(0)).saturating_sub(number(&properties, taken).unwrap_or(0));
        properties.insert(total.to_owned(), sum.to_string());
    }
    properties.insert(PROPERTY.to_owned(), to.to_text());
    Summary { operation, additional_properties: properties }
}

const TOTALS: [(&str, &str, &str); 6] = [
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
];
