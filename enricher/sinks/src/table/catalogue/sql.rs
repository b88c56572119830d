//! A catalogue in SQL: one row of a SQLite file or a Postgres table names the table's current metadata file.
//!
//! Owns: the two tables of PyIceberg's `SqlCatalog` (same columns), reading and swapping the metadata location.
//! Invariant: `swap` replaces exactly the location that it is given, or nothing; its own statements instead of the
//! crate's SQL catalogue, which drops the error of a failed COMMIT.

use super::super::disk;
use super::super::error::{Refusal, SinkError};
use super::super::{CATALOGUE, NAMESPACE};
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection as _, PgConnection, SqliteConnection};
use std::path::Path;
use std::str::FromStr;
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
const LOCATION: &str = "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3";
const NAMESPACE_EXISTS: &str = "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
    VALUES ($1, $2, 'exists', 'true') ON CONFLICT DO NOTHING";
const REGISTER: &str = "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
    VALUES ($1, $2, $3, $4, 'TABLE') ON CONFLICT DO NOTHING";
const SWAP: &str = "UPDATE iceberg_tables SET metadata_location = $4, previous_metadata_location = $5
    WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3 AND metadata_location = $5";

pub(super) struct Sql {
    options: Options,
    table: &'static str,
    /// `None` after an error or a call that was given up: the next statement connects anew.
    connection: Option<Connection>,
}

enum Options {
    Sqlite(SqliteConnectOptions),
    Postgres(PgConnectOptions),
}

enum Connection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// The same statements for both: the connection's type decides whose they are.
macro_rules! on {
    ($connection:expr, $it:ident => $work:expr) => {
        match $connection {
            Connection::Sqlite($it) => $work,
            Connection::Postgres($it) => $work,
        }
    };
}

impl Sql {
    pub(super) fn sqlite(path: &Path, table: &'static str) -> Sql {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(BUSY)
            // One file alone, synced at each commit: it can be copied, and PyIceberg opens it as it is. Not read-only
            // for a look: what a killed process left half written must be rolled back before it can be read.
            .journal_mode(SqliteJournalMode::Delete)
            .synchronous(SqliteSynchronous::Full)
            .disable_statement_logging();
        Sql { options: Options::Sqlite(options), table, connection: None }
    }

    /// What the URL does not say comes from the environment (`PGPASSWORD`, `PGSSLMODE` …) and `~/.pgpass`.
    pub(super) fn postgres(url: &str, password_file: Option<&Path>, table: &'static str) -> Result<Sql, SinkError> {
        let mut options = PgConnectOptions::from_str(url)?.application_name("forebay").disable_statement_logging();
        if let Some(path) = password_file {
            options = options.password(disk::at(path, std::fs::read_to_string(path))?.trim_end_matches(['\r', '\n']));
        }
        Ok(Sql { options: Options::Postgres(options), table, connection: None })
    }

    /// Makes the file and the tables that are missing.
    pub(super) async fn prepare(&mut self) -> Result<(), SinkError> {
        // Who may not make tables there may still use those that are made.
        if matches!(self.options, Options::Postgres(_)) && self.location().await.is_ok() {
            return Ok(());
        }
        let file = if let Options::Sqlite(options) = &mut self.options {
            let file = options.get_filename().to_owned();
            disk::create_dirs(file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
            *options = options.clone().create_if_missing(true);
            Some(file)
        } else {
            None
        };
        let mut connection = self.connected().await.map_err(|error| about(error, file.as_deref()))?;
        for table in [TABLES, NAMESPACES] {
            let made = on!(&mut connection, c => sqlx::query(table).execute(c).await.map(drop));
            if let Err(error) = made
                // Postgres: of two that make a table at once, one is told that its name is taken.
                && !error.as_database_error().is_some_and(|e| e.is_unique_violation())
            {
                return Err(about(error, file.as_deref()));
            }
        }
        self.connection = Some(connection);
        Ok(())
    }

    /// The current metadata file; `None`: no such table.
    pub(super) async fn location(&mut self) -> Result<Option<String>, SinkError> {
        let mut connection = self.connected().await?;
        let row: Option<(Option<String>,)> = on!(&mut connection, c => {
            sqlx::query_as(LOCATION).bind(CATALOGUE).bind(NAMESPACE).bind(self.table).fetch_optional(c).await?
        });
        self.connection = Some(connection);
        Ok(row.and_then(|(location,)| location))
    }

    /// Names a new table. `false`: somebody else named one meanwhile.
    pub(super) async fn register(&mut self, location: &str) -> Result<bool, SinkError> {
        let mut connection = self.connected().await?;
        let rows = on!(&mut connection, c => {
            let mut transaction = c.begin().await?;
            sqlx::query(NAMESPACE_EXISTS).bind(CATALOGUE).bind(NAMESPACE).execute(&mut *transaction).await?;
            let register = sqlx::query(REGISTER).bind(CATALOGUE).bind(NAMESPACE).bind(self.table).bind(location);
            let done = register.execute(&mut *transaction).await?;
            transaction.commit().await?;
            done.rows_affected()
        });
        self.connection = Some(connection);
        Ok(rows == 1)
    }

    /// Compare and set. `false`: the location was another one. An error says nothing about the outcome.
    pub(super) async fn swap(&mut self, from: &str, to: &str) -> Result<bool, SinkError> {
        let mut connection = self.connected().await?;
        let rows = on!(&mut connection, c => {
            let mut transaction = c.begin().await?;
            let swap = sqlx::query(SWAP).bind(CATALOGUE).bind(NAMESPACE).bind(self.table).bind(to).bind(from);
            let done = swap.execute(&mut *transaction).await?;
            transaction.commit().await?;
            done.rows_affected()
        });
        self.connection = Some(connection);
        Ok(rows == 1)
    }

    pub(super) async fn close(mut self) {
        let closed = match self.connection.take() {
            Some(connection) => on!(connection, c => c.close().await),
            None => Ok(()),
        };
        if let Err(error) = closed {
            tracing::warn!(%error, "the catalogue did not close cleanly");
        }
    }

    /// The connection, taken out: only who comes to a good end puts it back, so nothing old is in flight on it.
    async fn connected(&mut self) -> Result<Connection, sqlx::Error> {
        match (self.connection.take(), &self.options) {
            (Some(connection), _) => Ok(connection),
            (None, Options::Sqlite(options)) => options.connect().await.map(Connection::Sqlite),
            (None, Options::Postgres(options)) => options.connect().await.map(Connection::Postgres),
        }
    }
}

/// Names the file where it is not what SQLite takes for its own: SQLITE_CORRUPT (11) and SQLITE_NOTADB (26).
fn about(error: sqlx::Error, file: Option<&Path>) -> SinkError {
    let code = error.as_database_error().and_then(|error| error.code());
    match file {
        Some(path) if code.is_some_and(|code| matches!(&*code, "11" | "26")) => {
            Refusal::NoCatalogue { path: path.display().to_string() }.into()
        }
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn swaps_exactly_the_location_it_is_given() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("sub dir/cat?a%20.sqlite");
        let (one, two) = (Sql::sqlite(&path, "t"), Sql::sqlite(&path, "t"));
        swaps(one, two).await;
    }

    /// The same with any two connections to one catalogue.
    pub(super) async fn swaps(mut one: Sql, mut two: Sql) {
        one.prepare().await.expect("prepares");
        assert_eq!(one.location().await.expect("read"), None);
        two.prepare().await.expect("prepares");
        assert!(one.register("/a").await.expect("register"));
        assert!(!two.register("/b").await.expect("register"));
        assert!(two.swap("/a", "/c").await.expect("swap"));
        assert!(!one.swap("/a", "/d").await.expect("swap"));
        one.close().await;
        assert_eq!(two.location().await.expect("read"), Some("/c".into()));
    }
}
