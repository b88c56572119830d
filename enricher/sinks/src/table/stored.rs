//! The table as it stands: its metadata file, read whole, and the offsets in it.
//!
//! Owns: loading, creating and growing the table, and the refusals that a table by itself gives. Does not own: the
//! log (`offsets`), adding rows (`commit`).

use super::catalogue::{Catalogue, Next, Swap};
use super::columns;
use super::error::{Refusal, SinkError};
use super::hint;
use super::offsets::{Offsets, PROPERTY};
use super::warehouse::{Warehouse, now};
use iceberg::MetadataLocation;
use iceberg::io::FileIO;
use iceberg::spec::{
    FormatVersion, MAIN_BRANCH, SnapshotRef, SnapshotReference, SortOrder, TableMetadata, TableMetadataBuilder, Transform,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Older metadata files that are kept beside the current one.
const METADATA_FILES: usize = 20;

#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// Of the metadata file, as the catalogue has it.
    pub location: String,
    pub metadata: Arc<TableMetadata>,
    /// Branches and tags that others made, beside `main`.
    pub others: Arc<Vec<Reference>>,
}

/// A branch or tag: what `TableMetadata` holds but does not give out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reference {
    pub snapshot_id: i64,
    pub is_branch: bool,
}

impl Stored {
    pub(super) fn load(warehouse: &Warehouse, location: String) -> Result<Stored, SinkError> {
        let metadata = now(TableMetadata::read_from(&warehouse.scratch(&location)?, &location))?;
        Ok(Stored::of(location, metadata))
    }

    pub(super) fn of(location: String, metadata: TableMetadata) -> Stored {
        let others = Arc::new(others(&metadata));
        Stored { location, metadata: Arc::new(metadata), others }
    }

    /// Puts `metadata` as the first file of a table.
    pub(super) fn put_first(warehouse: &Warehouse, metadata: Arc<TableMetadata>) -> Result<Stored, SinkError> {
        put(warehouse, &MetadataLocation::new_with_metadata(metadata.location(), &metadata), metadata, Arc::default())
    }

    /// Puts `metadata` as the file that follows this one.
    pub(super) fn put_next(&self, warehouse: &Warehouse, metadata: Arc<TableMetadata>) -> Result<Stored, SinkError> {
        let location: MetadataLocation = self.location.parse()?;
        put(warehouse, &location.with_next_version(), metadata, self.others.clone())
    }

    /// The offsets that the table holds; `None` before the first commit. Refuses a table that two stories are told of.
    pub(super) fn offsets(&self) -> Result<Option<Offsets>, Refusal> {
        let property = self.metadata.properties().get(PROPERTY);
        let summary = self.ancestry().find_map(|snapshot| snapshot.summary().additional_properties.get(PROPERTY));
        match (property, summary) {
            (Some(property), Some(snapshot)) if property != snapshot => {
                Err(Refusal::RolledBack { snapshot: snapshot.clone(), property: property.clone() })
            }
            // Snapshots of others (a compaction by Spark) may be all that is kept.
            (Some(property), _) => Offsets::parse(property).map(Some),
            (None, _) if self.metadata.current_snapshot().is_some() => Err(Refusal::Foreign),
            (None, _) => Ok(None),
        }
    }

    /// The current snapshot and those before it that are kept, newest first.
    pub(super) fn ancestry(&self) -> impl Iterator<Item = &SnapshotRef> {
        let mut next = self.metadata.current_snapshot();
        std::iter::from_fn(move || {
            let snapshot = next?;
            next = snapshot.parent_snapshot_id().and_then(|parent| self.metadata.snapshot_by_id(parent));
            Some(snapshot)
        })
    }

    fn check(&self, warehouse: &Warehouse) -> Result<(), Refusal> {
        if !warehouse.is_table(self.metadata.location()) {
            return Err(Refusal::Moved { found: self.metadata.location().to_owned(), expected: warehouse.table_location() });
        }
        if self.metadata.format_version() != FormatVersion::V2 {
            return Err(Refusal::Format(self.metadata.format_version().to_string()));
        }
        let source = self.metadata.current_schema().field_id_by_name(warehouse.shape.instant);
        match self.metadata.default_partition_spec().fields() {
            [day] if day.transform == Transform::Day && Some(day.source_id) == source => Ok(()),
            _ => Err(Refusal::Partitions { column: warehouse.shape.instant }),
        }
    }
}

/// Loads the table, or makes it, and adds the columns that it lacks.
pub(super) fn open(catalogue: &mut Catalogue, warehouse: &Warehouse) -> Result<Stored, SinkError> {
    loop {
        let stored = match catalogue.load(warehouse)? {
            None => match create(catalogue, warehouse)? {
                Some(stored) => stored,
                None => continue,
            },
            Some(stored) => stored,
        };
        stored.check(warehouse)?;
        stored.offsets()?;
        let metadata = &stored.metadata;
        let missing = columns::with_missing(warehouse.shape, metadata.current_schema(), metadata.last_column_id())?;
        let Some(schema) = missing else { return Ok(stored) };
        tracing::info!(table = %warehouse.shape, schema = schema.schema_id(), "adding columns to the table");
        let builder = stored.metadata.as_ref().clone().into_builder(Some(stored.location.clone())).add_current_schema(schema)?;
        match catalogue.commit(warehouse, &stored, &Next::from(builder.build()?))? {
            Swap::Done(grown) => return Ok(grown),
            Swap::Lost => {}
            Swap::Unknown(error) => return Err(error),
        }
    }
}

fn others(metadata: &TableMetadata) -> Vec<Reference> {
    let mut json = serde_json::to_value(metadata).expect("metadata is JSON");
    let refs: HashMap<String, SnapshotReference> = serde_json::from_value(json["refs"].take()).unwrap_or_default();
    let others = refs.into_iter().filter(|(name, _)| name != MAIN_BRANCH);
    others.map(|(_, reference)| Reference { snapshot_id: reference.snapshot_id, is_branch: reference.is_branch() }).collect()
}

fn create(catalogue: &mut Catalogue, warehouse: &Warehouse) -> Result<Option<Stored>, SinkError> {
    // Without this, a lost catalogue would turn a table's files into orphans, and a sweep would take them.
    if hint::is_there(warehouse) || warehouse.has_rows()? {
        return Err(Refusal::Uncatalogued { table: warehouse.shape.to_string(), place: warehouse.table_location() }.into());
    }
    let schema = columns::schema(warehouse.shape)?;
    let spec = columns::partitions(warehouse.shape, &schema)?;
    let properties = HashMap::from(
        [
            ("write.format.default", "parquet"),
            ("write.parquet.compression-codec", "zstd"),
            ("write.metadata.delete-after-commit.enabled", "true"),
            ("write.metadata.previous-versions-max", &METADATA_FILES.to_string()),
            // A writer that meets another's commit must look at the offsets again, not append on top.
            ("commit.retry.num-retries", "0"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    let (sort, location) = (SortOrder::unsorted_order(), warehouse.table_location());
    let built = TableMetadataBuilder::new(schema, spec, sort, location, FormatVersion::V2, properties)?.build()?;
    catalogue.create(warehouse, built.metadata)
}

/// On an error, what may have been put of it is removed again: nobody names it.
fn put(
    warehouse: &Warehouse,
    location: &MetadataLocation,
    metadata: Arc<TableMetadata>,
    others: Arc<Vec<Reference>>,
) -> Result<Stored, SinkError> {
    let location = location.with_new_metadata(&metadata);
    let scratch = FileIO::new_with_memory();
    now(metadata.write_to(&scratch, &location))?;
    let location = location.to_string();
    let bytes = now(scratch.new_input(&location)?.read())?;
    if let Err(error) = warehouse.put(&location, &bytes) {
        warehouse.remove(&location);
        return Err(error);
    }
    Ok(Stored { location, metadata, others })
}
