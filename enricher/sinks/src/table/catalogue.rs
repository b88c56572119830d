//! The catalogue: one row of a SQLite file that names the table's current metadata file.
//!
//! Owns: the two tables of PyIceberg's `SqlCatalog` (same columns), reading and swapping the metadata location.
//! Does not own: what the metadata says. Invariant: `swap` replaces exactly the location that it is given, or
//! nothing; its own statements instead of the crate's SQL catalogue, which drops the error of a failed COMMIT.

use super::disk;
use super::error::{Refusal, SinkError};
use super::{CATALOGUE, NAMESPACE, TABLE};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a statement waits for another process that holds the file's lock.
const BUSY: Duration = Duration::from_secs(10);

const TABLES: &str = "CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL,
    table_namespace VARCHAR(255) NOT NULL,
    table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000),
    previous_metadata_location VARCHAR(1000),
    iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name))";
const NAMESPACES: &str = "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name VARCHAR(255) NOT NULL,
    namespace VARCHAR(255) NOT NULL,
    property_key VARCHAR(255) NOT NULL,
    property_value VARCHAR(1000) NOT NULL,
    PRIMARY KEY (catalog_name, namespace, property_key))";

pub(super) struct Catalogue {
    path: PathBuf,
    options: SqliteConnectOptions,
    /// `None` after an error: the next statement opens the file anew, so that nothing of the old one is in flight.
    connection: Option<SqliteConnection>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Swap {
    Done,
    /// The location was another one: somebody else committed.
    Lost,
}

impl Catalogue {
    /// Opens the file of a sink, made if it is missing.
    pub(super) async fn open(path: &Path) -> Result<Catalogue, SinkError> {
        disk::create_dirs(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .busy_timeout(BUSY)
            // One file alone, synced at each commit: it can be copied, and PyIceberg opens it as it is.
            .journal_mode(SqliteJournalMode::Delete)
            .synchronous(SqliteSynchronous::Full)
            .disable_statement_logging();
        let mut catalogue = Catalogue { path: path.to_owned(), options, connection: None };
        match catalogue.prepare().await {
            Err(SinkError::Catalogue(error)) if is_no_database(&error) => {
                Err(Refusal::NoCatalogue { path: path.display().to_string() }.into())
            }
            other => other.map(|()| catalogue),
        }
    }

    async fn prepare(&mut self) -> Result<(), SinkError> {
        let connection = self.connection().await?;
        sqlx::query(TABLES).execute(&mut *connection).await?;
        sqlx::query(NAMESPACES).execute(&mut *connection).await?;
        Ok(())
    }

    /// Opens an existing file to look something up. `None`: there is no such file.
    pub(super) fn look(path: &Path) -> Option<Catalogue> {
        // Not read-only: what a killed process left half written must be rolled back before it can be read.
        let options = SqliteConnectOptions::new().filename(path).busy_timeout(BUSY).disable_statement_logging();
        path.is_file().then(|| Catalogue { path: path.to_owned(), options, connection: None })
    }

    /// The current metadata file; `None`: no such table.
    pub(super) async fn location(&mut self) -> Result<Option<String>, SinkError> {
        let sql = "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?";
        let connection = self.connection().await?;
        let row: Result<Option<(Option<String>,)>, _> =
            sqlx::query_as(sql).bind(CATALOGUE).bind(NAMESPACE).bind(TABLE).fetch_optional(connection).await;
        Ok(self.checked(row)?.and_then(|(location,)| location))
    }

    /// Names a new table. `Lost`: somebody else named one meanwhile.
    pub(super) async fn register(&mut self, location: &str) -> Result<Swap, SinkError> {
        let connection = self.connection().await?;
        let result = async {
            let mut transaction = connection.begin().await?;
            sqlx::query("INSERT OR IGNORE INTO iceberg_namespace_properties VALUES (?, ?, 'exists', 'true')")
                .bind(CATALOGUE)
                .bind(NAMESPACE)
                .execute(&mut *transaction)
                .await?;
            let done = sqlx::query("INSERT OR IGNORE INTO iceberg_tables VALUES (?, ?, ?, ?, NULL, 'TABLE')")
                .bind(CATALOGUE)
                .bind(NAMESPACE)
                .bind(TABLE)
                .bind(location)
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await?;
            Ok(if done.rows_affected() == 1 { Swap::Done } else { Swap::Lost })
        }
        .await;
        self.checked(result)
    }

    /// Compare and set. An error says nothing about the outcome: read `location` then.
    pub(super) async fn swap(&mut self, from: &str, to: &str) -> Result<Swap, SinkError> {
        let sql = "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?
                   WHERE catalog_name = ? AND table_namespace = ? AND table_name = ? AND metadata_location = ?";
        let connection = self.connection().await?;
        let result = async {
            let mut transaction = connection.begin().await?;
            let done = sqlx::query(sql)
                .bind(to)
                .bind(from)
                .bind(CATALOGUE)
                .bind(NAMESPACE)
                .bind(TABLE)
                .bind(from)
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await?;
            Ok(if done.rows_affected() == 1 { Swap::Done } else { Swap::Lost })
        }
        .await;
        self.checked(result)
    }

    pub(super) async fn close(mut self) {
        if let Some(connection) = self.connection.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, path = %self.path.display(), "catalogue did not close cleanly");
        }
    }

    async fn connection(&mut self) -> Result<&mut SqliteConnection, SinkError> {
        if self.connection.is_none() {
            self.connection = Some(self.options.connect().await?);
        }
        Ok(self.connection.as_mut().expect("opened above"))
    }

    fn checked<T>(&mut self, result: Result<T, sqlx::Error>) -> Result<T, SinkError> {
        if result.is_err() {
            self.connection = None;
        }
        Ok(result?)
    }
}

/// SQLite's SQLITE_CORRUPT (11) and SQLITE_NOTADB (26).
fn is_no_database(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| matches!(&*code, "11" | "26"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn swaps_exactly_the_location_it_is_given() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("sub dir/cat?a%20.sqlite");
        assert!(Catalogue::look(&path).is_none());
        let mut one = Catalogue::open(&path).await.expect("open");
        assert_eq!(one.location().await.expect("read"), None);
        let mut two = Catalogue::open(&path).await.expect("open");
        assert_eq!(one.register("/a").await.expect("register"), Swap::Done);
        assert_eq!(two.register("/b").await.expect("register"), Swap::Lost);
        assert_eq!(two.swap("/a", "/c").await.expect("swap"), Swap::Done);
        assert_eq!(one.swap("/a", "/d").await.expect("swap"), Swap::Lost);
        one.close().await;
        assert_eq!(Catalogue::look(&path).expect("there").location().await.expect("read"), Some("/c".into()));
    }
}
