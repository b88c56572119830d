//! A commit: files and offsets enter the table in one step, if the table says what the batch starts from.
//!
//! Owns: the new snapshot, the new metadata file, the swap in the catalogue, what to do when the swap is lost or its
//! outcome unknown. Does not own: manifests (`manifests`), which snapshots go (`expire`).
//! Invariants: rows and offsets are in the same metadata file; a lost swap is tried again only if the offsets still
//! stand; a commit that did not happen leaves no file; one that may have happened removes none.

use super::batch::{Written, remove_files};
use super::catalogue::{Catalogue, Swap};
use super::disk::{self, path_of};
use super::error::SinkError;
use super::expire::{self, Expired, Keep};
use super::manifests::{Change, Writer};
use super::offsets::{Offsets, PROPERTY};
use super::stored::{self, Stored};
use forebay_schemas::{failpoint, limit, time::Micros};
use iceberg::io::FileIO;
use iceberg::spec::{DataFile, MAIN_BRANCH, ManifestFile, ManifestListWriter, Operation, Snapshot, SnapshotSummaryCollector, Summary};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};
use uuid::Uuid;

/// Waits between reads of a catalogue that does not say how a commit ended.
const ASK_AGAIN: [Duration; 4] = [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5)];

#[derive(Debug)]
pub(super) enum Outcome {
    /// The table has it. `expired` is to be cleaned up.
    Committed { table: Stored, expired: Expired },
    /// The table's offsets are others by now: somebody else brought these rows. Nothing of the batch is in the table.
    Superseded { table: Stored },
}

/// What a commit needs beside the batch.
pub(super) struct Committer<'a> {
    pub catalogue: &'a mut Catalogue,
    pub io: &'a FileIO,
    pub keep: Keep,
    /// The table as it was last read.
    pub table: &'a Stored,
}

impl Committer<'_> {
    /// Adds the batch's files and its offsets.
    pub(super) async fn append(&mut self, written: &Written) -> Result<Outcome, SinkError> {
        let change = Change { added: written.files.clone(), removed: HashSet::new() };
        self.settle(&change, Operation::Append, written.from.as_ref(), &written.to).await
    }

    /// Takes rewritten files out and puts the new ones in; the offsets stay.
    pub(super) async fn replace(&mut self, change: &Change) -> Result<Outcome, SinkError> {
        let offsets = self.table.offsets()?.unwrap_or_default();
        self.settle(change, Operation::Replace, Some(&offsets), &offsets).await
    }

    async fn settle(&mut self, change: &Change, operation: Operation, from: Option<&Offsets>, to: &Offsets) -> Result<Outcome, SinkError> {
        let mut table = self.table.clone();
        for _ in 0..limit::SINK_COMMIT_ATTEMPTS {
            if table.offsets()?.as_ref() != from {
                remove_files(&change.added);
                return Ok(Outcome::Superseded { table });
            }
            let attempt = match Attempt::prepare(&table, self, change, operation.clone(), to).await {
                Ok(attempt) => attempt,
                // Files that were to be rewritten are no longer there: a rewrite of somebody else's.
                Err(Unprepared::Outdated) => {
                    remove_files(&change.added);
                    return Ok(Outcome::Superseded { table });
                }
                Err(Unprepared::Failed(error)) => {
                    remove_files(&change.added);
                    return Err(error);
                }
            };
            failpoint::pass("sink.before_commit");
            match self.swap(&table, &attempt).await {
                Ok(None) => {
                    failpoint::pass("sink.after_commit");
                    return Ok(Outcome::Committed { table: attempt.table, expired: attempt.expired });
                }
                Ok(Some(other)) => {
                    tracing::info!(operation = operation.as_str(), "another commit came first; looking at the table again");
                    attempt.remove();
                    table = other;
                }
                // Nobody could be asked. The files stay: the commit may have happened. A later sweep decides.
                Err(error) => return Err(error),
            }
        }
        remove_files(&change.added);
        Err(SinkError::Crowded { attempts: limit::SINK_COMMIT_ATTEMPTS, location: table.location })
    }

    /// `None`: the table is the attempt's now. `Some`: it is this other one.
    pub(super) async fn swap(&mut self, base: &Stored, attempt: &Attempt) -> Result<Option<Stored>, SinkError> {
        match self.catalogue.swap(&base.location, &attempt.table.location).await {
            Ok(Swap::Done) => return Ok(None),
            Ok(Swap::Lost) => {}
            Err(error) => tracing::warn!(%error, "outcome of a commit unknown; reading the catalogue"),
        }
        let location = self.ask().await?;
        if location == attempt.table.location {
            return Ok(None);
        }
        // Ours may have happened and have been built upon.
        let other = Stored::load(self.io, location).await?;
        let is_beneath = other.metadata.metadata_log().iter().any(|log| log.metadata_file == attempt.table.location)
            || other.metadata.snapshot_by_id(attempt.snapshot_id).is_some();
        Ok(if is_beneath { None } else { Some(other) })
    }

    async fn ask(&mut self) -> Result<String, SinkError> {
        let mut error = None;
        for wait in ASK_AGAIN {
            tokio::time::sleep(wait).await;
            match self.catalogue.location().await {
                Ok(Some(location)) => return Ok(location),
                Ok(None) => return Err(SinkError::Gone),
                Err(e) => error = Some(e),
            }
        }
        Err(error.expect("asked at least once"))
    }
}

/// A metadata file that nobody names yet, with all that it names.
pub(super) struct Attempt {
    pub table: Stored,
    snapshot_id: i64,
    expired: Expired,
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
    pub(super) async fn prepare(
        base: &Stored,
        committer: &Committer<'_>,
        change: &Change,
        operation: Operation,
        to: &Offsets,
    ) -> Result<Attempt, Unprepared> {
        let commit = Uuid::now_v7();
        let snapshot_id = fresh_snapshot_id(base);
        let mut writer = Writer { table: base, io: committer.io, snapshot_id, commit, written: Vec::new() };
        let result = Attempt::write(&mut writer, committer, change, operation, to).await;
        let mut written = writer.written;
        match result {
            Ok((table, expired)) => {
                written.push(table.location.clone());
                Ok(Attempt { table, snapshot_id, expired, written })
            }
            Err(error) => {
                written.iter().for_each(|location| disk::remove(&path_of(location)));
                Err(error)
            }
        }
    }

    async fn write(
        writer: &mut Writer<'_>,
        committer: &Committer<'_>,
        change: &Change,
        operation: Operation,
        to: &Offsets,
    ) -> Result<(Stored, Expired), Unprepared> {
        let base = writer.table;
        let (manifests, removed) = writer.next(change).await?;
        if removed.len() != change.removed.len() {
            return Err(Unprepared::Outdated);
        }
        let list = write_list(writer, manifests).await?;
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
        let gone = expire::choose(base, committer.keep, now);
        let builder = gone.iter().fold(builder, |builder, id| builder.remove_statistics(*id).remove_partition_statistics(*id));
        let built = builder.remove_snapshots(&gone).build()?;
        let logs = built.expired_metadata_logs.into_iter().map(|log| log.metadata_file).collect();
        let table = stored::next(committer.io, base, built.metadata).await?;
        let snapshots = gone.iter().filter_map(|id| metadata.snapshot_by_id(*id).cloned()).collect();
        Ok((table, Expired { snapshots, metadata_files: logs }))
    }

    fn remove(self) {
        self.written.iter().for_each(|location| disk::remove(&path_of(location)));
    }
}

async fn write_list(writer: &mut Writer<'_>, manifests: Vec<ManifestFile>) -> Result<String, SinkError> {
    let metadata = &writer.table.metadata;
    let location = format!("{}/metadata/snap-{}-0-{}.avro", metadata.location(), writer.snapshot_id, writer.commit);
    writer.written.push(location.clone());
    let output = writer.io.new_output(location.clone())?.writer().await?;
    let mut list = ManifestListWriter::v2(output, writer.snapshot_id, metadata.current_snapshot_id(), metadata.next_sequence_number());
    list.add_manifests(manifests.into_iter())?;
    list.close().await?;
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
