//! The table as it stands: its metadata file, read whole, and the offsets in it.
//!
//! Owns: loading, creating and growing the table, and the refusals that a table by itself gives. Does not own: the
//! log (`offsets`), adding rows (`commit`).

use super::catalogue::{Catalogue, Swap};
use super::columns;
use super::disk::{self, path_of};
use super::error::{Refusal, SinkError};
use super::offsets::{Offsets, PROPERTY};
use super::{NAMESPACE, TABLE, hint};
use iceberg::MetadataLocation;
use iceberg::io::FileIO;
use iceberg::spec::{
    FormatVersion, MAIN_BRANCH, SnapshotRef, SnapshotReference, SortOrder, TableMetadata, TableMetadataBuilder, Transform,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Older metadata files that are kept beside the current one.
const METADATA_FILES: usize = 20;

#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// Path of the metadata file as the catalogue has it.
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
    pub(super) async fn load(io: &FileIO, location: String) -> Result<Stored, SinkError> {
        let metadata = TableMetadata::read_from(io, &location).await?;
        let others = Arc::new(others(&metadata));
        Ok(Stored { location, metadata: Arc::new(metadata), others })
    }

    /// The folder of the table.
    pub(super) fn folder(&self) -> PathBuf {
        path_of(self.metadata.location())
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

    fn check(&self, folder: &Path) -> Result<(), Refusal> {
        if self.folder() != folder {
            return Err(Refusal::Moved { found: self.metadata.location().to_owned(), expected: folder.display().to_string() });
        }
        if self.metadata.format_version() != FormatVersion::V2 {
            return Err(Refusal::Format(self.metadata.format_version().to_string()));
        }
        let source = self.metadata.current_schema().field_id_by_name(columns::RECEIVED_AT);
        match self.metadata.default_partition_spec().fields() {
            [day] if day.transform == Transform::Day && Some(day.source_id) == source => Ok(()),
            _ => Err(Refusal::Partitions),
        }
    }
}

/// Loads the table, or makes it, and adds the columns that it lacks.
pub(super) async fn open(catalogue: &mut Catalogue, io: &FileIO, warehouse: &Path) -> Result<Stored, SinkError> {
    let folder = warehouse.join(NAMESPACE).join(TABLE);
    loop {
        let stored = match catalogue.location().await? {
            None => match create(catalogue, io, &folder).await? {
                Some(stored) => stored,
                None => continue,
            },
            Some(location) => Stored::load(io, location).await?,
        };
        stored.check(&folder)?;
        stored.offsets()?;
        let Some(schema) = columns::with_missing(stored.metadata.current_schema(), stored.metadata.last_column_id())? else {
            return Ok(stored);
        };
        tracing::info!(schema = schema.schema_id(), "adding columns to the table");
        let builder = stored.metadata.as_ref().clone().into_builder(Some(stored.location.clone())).add_current_schema(schema)?;
        let grown = next(io, &stored, builder.build()?.metadata).await?;
        match catalogue.swap(&stored.location, &grown.location).await? {
            Swap::Done => return Ok(grown),
            Swap::Lost => disk::remove(&path_of(&grown.location)),
        }
    }
}

/// Writes `metadata` as the file that follows `base`, on disk when this returns.
pub(super) async fn next(io: &FileIO, base: &Stored, metadata: TableMetadata) -> Result<Stored, SinkError> {
    let location: MetadataLocation = base.location.parse()?;
    write(io, &location.with_next_version(), metadata, base.others.clone()).await
}

fn others(metadata: &TableMetadata) -> Vec<Reference> {
    let mut json = serde_json::to_value(metadata).expect("metadata is JSON");
    let refs: HashMap<String, SnapshotReference> = serde_json::from_value(json["refs"].take()).unwrap_or_default();
    let others = refs.into_iter().filter(|(name, _)| name != MAIN_BRANCH);
    others.map(|(_, reference)| Reference { snapshot_id: reference.snapshot_id, is_branch: reference.is_branch() }).collect()
}

async fn create(catalogue: &mut Catalogue, io: &FileIO, folder: &Path) -> Result<Option<Stored>, SinkError> {
    // Without this, a lost catalogue would turn a table's files into orphans, and a sweep would take them.
    if folder.join(hint::FILE).exists() {
        return Err(Refusal::Uncatalogued { folder: folder.display().to_string() }.into());
    }
    disk::create_dirs(&folder.join("metadata"))?;
    disk::create_dirs(&folder.join("data"))?;
    let schema = columns::schema()?;
    let spec = columns::partitions(&schema)?;
    let location = folder.to_str().ok_or_else(|| SinkError::Io {
        path: folder.to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path of a warehouse must be UTF-8"),
    })?;
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
    let metadata =
        TableMetadataBuilder::new(schema, spec, SortOrder::unsorted_order(), location.to_owned(), FormatVersion::V2, properties)?
            .build()?
            .metadata;
    let stored = write(io, &MetadataLocation::new_with_metadata(location, &metadata), metadata, Arc::default()).await?;
    match catalogue.register(&stored.location).await? {
        Swap::Done => Ok(Some(stored)),
        Swap::Lost => {
            disk::remove(&path_of(&stored.location));
            Ok(None)
        }
    }
}

async fn write(
    io: &FileIO,
    location: &MetadataLocation,
    metadata: TableMetadata,
    others: Arc<Vec<Reference>>,
) -> Result<Stored, SinkError> {
    let location = location.with_new_metadata(&metadata);
    metadata.write_to(io, &location).await?;
    let location = location.to_string();
    disk::sync_file(&path_of(&location))?;
    Ok(Stored { location, metadata: Arc::new(metadata), others })
}
