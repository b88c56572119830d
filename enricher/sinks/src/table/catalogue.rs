//! The catalogue: who knows a table's current metadata.
//!
//! Owns: the three kinds of it behind one face, and a bound on how long each is waited for. Does not own: what the
//! metadata says (`stored`), what is done about a lost or unknown outcome (`commit`). Invariant: `commit` replaces
//! exactly the state of the table that it is given, or nothing.

mod rest;
mod sql;

use super::config::Config;
use super::disk::at;
use super::error::SinkError;
use super::place::CatalogueAt;
use super::shape::Shape;
use super::stored::Stored;
use super::warehouse::Warehouse;
use forebay_schemas::limit;
use iceberg::TableUpdate;
use iceberg::spec::{TableMetadata, TableMetadataBuildResult};
use rest::Rest;
use sql::Sql;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Catalogue {
    /// What the kinds wait on. Nothing of them runs between two calls.
    runtime: tokio::runtime::Runtime,
    kind: Kind,
}

enum Kind {
    Sql(Sql),
    Rest(Rest),
}

/// The table as a commit would leave it.
#[derive(Clone, Debug)]
pub(super) struct Next {
    pub metadata: Arc<TableMetadata>,
    /// The same as steps from the state before.
    changes: Vec<TableUpdate>,
    /// Metadata files that the next one no longer tells of.
    old_files: Vec<String>,
}

impl From<TableMetadataBuildResult> for Next {
    fn from(built: TableMetadataBuildResult) -> Next {
        let old_files = built.expired_metadata_logs.into_iter().map(|log| log.metadata_file).collect();
        Next { metadata: Arc::new(built.metadata), changes: built.changes, old_files }
    }
}

#[derive(Debug)]
pub(super) enum Swap {
    Done(Stored),
    /// The table was another one: somebody else committed. Nothing of ours is in it.
    Lost,
    /// It may have happened, or may happen yet: load the table and look.
    Unknown(SinkError),
}

impl Catalogue {
    /// Opens it for a sink, made if it is missing. It answers about the table of `shape`.
    pub(super) fn open(config: &Config, shape: &Shape) -> Result<Catalogue, SinkError> {
        let mut catalogue = Catalogue::of(config, shape)?;
        if let Kind::Sql(sql) = &mut catalogue.kind {
            catalogue.runtime.block_on(bounded(sql.prepare()))?;
        }
        Ok(catalogue)
    }

    /// Opens it to look something up. `None`: there is none.
    pub(super) fn look(config: &Config, shape: &Shape) -> Result<Option<Catalogue>, SinkError> {
        let missing = config.catalogue.file().is_some_and(|path| !path.is_file());
        if missing { Ok(None) } else { Catalogue::of(config, shape).map(Some) }
    }

    fn of(config: &Config, shape: &Shape) -> Result<Catalogue, SinkError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let kind = match &config.catalogue {
            CatalogueAt::File(path) => Kind::Sql(Sql::sqlite(path, shape.name)),
            CatalogueAt::Postgres(url) => Kind::Sql(Sql::postgres(url, config.catalogue_password_file.as_deref(), shape.name)?),
            CatalogueAt::Rest(url) => Kind::Rest(Rest::new(url, config, shape.name)?),
        };
        Ok(Catalogue { runtime: at(Path::new("catalogue"), runtime)?, kind })
    }

    /// The table as it is now; `None`: no such table.
    pub(super) fn load(&mut self, warehouse: &Warehouse) -> Result<Option<Stored>, SinkError> {
        match &mut self.kind {
            Kind::Sql(sql) => {
                let location = self.runtime.block_on(bounded(sql.location()))?;
                location.map(|location| Stored::load(warehouse, location)).transpose()
            }
            Kind::Rest(rest) => self.runtime.block_on(bounded(rest.load())),
        }
    }

    /// As `load`, also when the whole folder was moved after its writer stopped.
    pub(super) fn load_moved(&mut self, warehouse: &Warehouse) -> Result<Option<Stored>, SinkError> {
        let Kind::Sql(sql) = &mut self.kind else { return self.load(warehouse) };
        let location = self.runtime.block_on(bounded(sql.location()))?;
        location.map(|location| Stored::load(warehouse, warehouse.moved(location))).transpose()
    }

    /// Names a new table. `None`: somebody else named one meanwhile.
    pub(super) fn create(&mut self, warehouse: &Warehouse, metadata: TableMetadata) -> Result<Option<Stored>, SinkError> {
        match &mut self.kind {
            Kind::Sql(sql) => {
                let first = Stored::put_first(warehouse, Arc::new(metadata))?;
                if self.runtime.block_on(bounded(sql.register(&first.location)))? {
                    return Ok(Some(first));
                }
                warehouse.remove(&first.location);
                Ok(None)
            }
            Kind::Rest(rest) => self.runtime.block_on(bounded(rest.create(&metadata))),
        }
    }

    /// Compare and set. An error says that nothing has happened.
    pub(super) fn commit(&mut self, warehouse: &Warehouse, base: &Stored, next: &Next) -> Result<Swap, SinkError> {
        match &mut self.kind {
            Kind::Sql(sql) => {
                let table = base.put_next(warehouse, next.metadata.clone())?;
                forebay_schemas::failpoint::pass("sink.before_commit");
                match self.runtime.block_on(bounded(sql.swap(&base.location, &table.location))) {
                    Ok(true) => {
                        warehouse.remove_all(&next.old_files);
                        Ok(Swap::Done(table))
                    }
                    Ok(false) => {
                        warehouse.remove(&table.location);
                        Ok(Swap::Lost)
                    }
                    Err(error) if error.is_final() => {
                        warehouse.remove(&table.location);
                        Err(error)
                    }
                    Err(error) => Ok(Swap::Unknown(error)),
                }
            }
            Kind::Rest(rest) => {
                forebay_schemas::failpoint::pass("sink.before_commit");
                let committed = bounded(async { Ok(rest.commit(base, &next.changes).await) });
                self.runtime.block_on(committed).unwrap_or_else(|silent| Ok(Swap::Unknown(silent)))
            }
        }
    }

    /// Whether the metadata files are written, and so removed, by us. A REST catalogue writes its own.
    pub(super) fn is_by_files(&self) -> bool {
        matches!(self.kind, Kind::Sql(_))
    }

    pub(super) fn close(self) {
        if let Kind::Sql(sql) = self.kind {
            self.runtime.block_on(sql.close());
        }
    }
}

/// A catalogue that does not answer must not hold the sink for ever.
async fn bounded<T>(work: impl Future<Output = Result<T, SinkError>>) -> Result<T, SinkError> {
    let wait = Duration::from_millis(limit::CATALOGUE_ANSWER_MS);
    tokio::time::timeout(wait, work).await.unwrap_or(Err(SinkError::CatalogueSilent { seconds: wait.as_secs() }))
}
