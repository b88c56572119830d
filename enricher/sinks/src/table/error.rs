//! What can go wrong, and what a refusal tells the operator to do.

use forebay_schemas::wire::avro::DecodeError;
use forebay_stores::log::LogError;
use forebay_stores::objects::ObjectsError;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("{topic} partition {partition}, offset {offset}: {source}")]
    Decode { topic: &'static str, partition: i32, offset: i64, source: DecodeError },
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{location}: {source}")]
    Objects { location: String, source: ObjectsError },
    #[error(
        "{location} lies outside the warehouse {warehouse}: another program put a file of the table there, which the sink does not read"
    )]
    Outside { location: String, warehouse: String },
    #[error("catalogue: {0}")]
    Catalogue(sqlx::Error),
    #[error("catalogue: {0}")]
    Rest(String),
    #[error("catalogue: no answer within {seconds} s")]
    CatalogueSilent { seconds: u64 },
    #[error("table: {0}")]
    Iceberg(#[from] iceberg::Error),
    #[error("parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    #[error("columns: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("{attempts} commits in a row met a commit of somebody else (now at {location})")]
    Crowded { attempts: usize, location: String },
    #[error("the table is no longer in the catalogue")]
    Gone,
    #[error("the sink's thread ended early")]
    Ended,
}

/// A sink that did not start.
#[derive(Debug, thiserror::Error)]
#[error("{table}: {source}")]
pub struct StartError {
    /// The table that could not be opened.
    pub table: String,
    pub source: Box<SinkError>,
}

impl SinkError {
    /// Trying again cannot help.
    pub fn is_final(&self) -> bool {
        match self {
            SinkError::Refused(_) | SinkError::Decode { .. } | SinkError::Metrics(_) | SinkError::Gone | SinkError::Ended => true,
            SinkError::Log(LogError::Fenced(_) | LogError::Refused(_)) | SinkError::Outside { .. } => true,
            SinkError::Objects { source: ObjectsError::Refused(_) | ObjectsError::BadName(_), .. } => true,
            SinkError::Objects { source: ObjectsError::NotFound(_) | ObjectsError::Io(_), .. } => false,
            // A beginning anew says what of the table and the log does not fit, with the way out.
            SinkError::Log(LogError::OffsetOutOfRange { .. } | LogError::TooLarge { .. } | LogError::Io(_)) => false,
            SinkError::Catalogue(_) | SinkError::Rest(_) | SinkError::CatalogueSilent { .. } => false,
            SinkError::Iceberg(_) | SinkError::Parquet(_) | SinkError::Arrow(_) => false,
            SinkError::Io { .. } | SinkError::Crowded { .. } => false,
        }
    }
}

impl From<sqlx::Error> for SinkError {
    /// Postgres: a password or a right that is not given (28…, 42501), a database that is not there (3D000).
    fn from(error: sqlx::Error) -> SinkError {
        match &error {
            sqlx::Error::Database(told)
                if told.code().is_some_and(|code| code.starts_with("28") || matches!(&*code, "3D000" | "42501")) =>
            {
                Refusal::Catalogue(told.message().to_owned()).into()
            }
            sqlx::Error::Configuration(told) => Refusal::Catalogue(told.to_string()).into(),
            _ => SinkError::Catalogue(error),
        }
    }
}

/// The table and the log do not fit. Nothing was written; each message names the way out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error(
        "the table was filled from topic {stored}, but the log's {of} topic is {found}, created anew: bring the old log back, \
         or set sink.table.adopt_topic = \"{found}\" to go on with the new one from its start (rows already in the table are recognised)"
    )]
    OtherTopic { of: &'static str, stored: String, found: String },
    #[error(
        "the table holds {of} partition {partition} up to offset {stored}, but the log ends at {end}: the log lost records or is an older copy; \
         bring the newer log back, or set sink.table.adopt_topic = \"{topic}\" to read it again from its start (rows already in the table are recognised)"
    )]
    PastEnd { of: &'static str, topic: String, partition: i32, stored: i64, end: i64 },
    #[error(
        "the table needs {of} partition {partition} from offset {stored}, but the log begins at {start}: retention removed records that the table \
         never got; restore them, or set sink.table.adopt_topic = \"{topic}\" to go on without them"
    )]
    BelowStart { of: &'static str, topic: String, partition: i32, stored: i64, start: i64 },
    #[error(
        "the current snapshot says offsets {snapshot}, the table property forebay.offsets says {property}: the table was rolled back or the property \
         edited; set the property to the snapshot's value to read the rest again, or roll forward"
    )]
    RolledBack { snapshot: String, property: String },
    #[error("the table has rows but no forebay.offsets: another program made it; name another warehouse, or move the table away")]
    Foreign,
    #[error("forebay.offsets of the table cannot be read ({0}): a newer version wrote it, or it was edited")]
    Unreadable(String),
    #[error(
        "the catalogue names a table at {found}, but sink.table.warehouse stands for {expected}: Iceberg keeps absolute paths, so a moved folder \
         cannot be continued; move it back, or remove the catalogue and the warehouse and let the sink fill them again from the log"
    )]
    Moved { found: String, expected: String },
    #[error(
        "{place} holds a table that the catalogue does not name: bring the catalogue back (or register the newest metadata file in it as {table}; \
         in a folder, metadata/version-hint.text tells which that is), or move the table away to begin a new one"
    )]
    Uncatalogued { table: String, place: String },
    #[error("column {column} of the table is {found}, this version writes {expected}: rename or drop it, or run the version that made it")]
    Column { column: String, found: String, expected: String },
    #[error(
        "the catalogue {path} is no SQLite database: bring its copy back, or move it and the warehouse away and let the sink fill them again \
         from the log"
    )]
    NoCatalogue { path: String },
    #[error(
        "the catalogue refuses: {0}; look at sink.table.catalogue, at who the sink is to it (catalogue_password_file, PGPASSWORD, rest.token_file, \
         rest.credential_file) and at what that one may do"
    )]
    Catalogue(String),
    #[error("the table has format version {0}; this version writes format version 2")]
    Format(String),
    #[error("the table is no longer partitioned by day({column}); this version writes no other partitions")]
    Partitions { column: &'static str },
}
