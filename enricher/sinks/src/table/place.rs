//! Where the table's files and its catalogue are, as `[sink.table]` says it.
//!
//! Owns: the forms of `warehouse` and `catalogue`, and their text. Does not own: opening them. Invariant: no password is
//! in the text, so the configuration can be shown.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What the files of all tables lie below: a folder, or a bucket under a prefix.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Warehouse {
    Folder(PathBuf),
    /// `prefix` has no `/` at its ends; it may be empty.
    Bucket {
        bucket: String,
        prefix: String,
    },
}

/// Who knows the table's current metadata file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum CatalogueAt {
    /// A SQLite file.
    File(PathBuf),
    /// A `postgres://…` URL.
    Postgres(String),
    /// The `http(s)://…` URL of an Iceberg REST catalogue, without `/` at its end and without `/v1`.
    Rest(String),
}

impl TryFrom<String> for Warehouse {
    type Error = String;

    fn try_from(text: String) -> Result<Warehouse, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return if text.is_empty() {
                Err("expected a folder or \"s3://bucket/prefix\"".into())
            } else {
                Ok(Warehouse::Folder(text.into()))
            };
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let part = |part: &str| !part.is_empty() && part != "." && part != "..";
        if scheme != "s3" || bucket.is_empty() || !(prefix.is_empty() || prefix.split('/').all(part)) {
            return Err(format!("{text:?}: expected a folder or \"s3://bucket/prefix\""));
        }
        Ok(Warehouse::Bucket { bucket: bucket.into(), prefix: prefix.into() })
    }
}

impl From<Warehouse> for String {
    fn from(warehouse: Warehouse) -> String {
        match warehouse {
            Warehouse::Folder(path) => path.display().to_string(),
            Warehouse::Bucket { bucket, prefix } if prefix.is_empty() => format!("s3://{bucket}"),
            Warehouse::Bucket { bucket, prefix } => format!("s3://{bucket}/{prefix}"),
        }
    }
}

impl CatalogueAt {
    /// The SQLite file, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            CatalogueAt::File(path) => Some(path),
            CatalogueAt::Postgres(_) | CatalogueAt::Rest(_) => None,
        }
    }
}

impl TryFrom<String> for CatalogueAt {
    type Error = String;

    fn try_from(text: String) -> Result<CatalogueAt, String> {
        const FORMS: &str =
            "expected the path of a SQLite file, \"postgres://user@host/database\" or the \"https://…\" of a REST catalogue";
        let Some((scheme, rest)) = text.split_once("://") else {
            return if text.is_empty() { Err(FORMS.into()) } else { Ok(CatalogueAt::File(text.into())) };
        };
        let authority = rest.split(['/', '?']).next().unwrap_or("");
        let has_password = authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
            || rest.split_once('?').is_some_and(|(_, query)| query.split('&').any(|pair| pair.starts_with("password=")));
        match scheme {
            // Not repeated: it would be printed.
            _ if has_password => {
                Err("a password does not stand in the URL: name a file by catalogue_password_file, or set PGPASSWORD".into())
            }
            "postgres" | "postgresql" => Ok(CatalogueAt::Postgres(text)),
            "http" | "https" if !authority.is_empty() => {
                let base = text.trim_end_matches('/');
                Ok(CatalogueAt::Rest(base.strip_suffix("/v1").unwrap_or(base).into()))
            }
            _ => Err(format!("{text:?}: {FORMS}")),
        }
    }
}

impl From<CatalogueAt> for String {
    fn from(at: CatalogueAt) -> String {
        match at {
            CatalogueAt::File(path) => path.display().to_string(),
            CatalogueAt::Postgres(url) | CatalogueAt::Rest(url) => url,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(bucket: &str, prefix: &str) -> Result<Warehouse, String> {
        Ok(Warehouse::Bucket { bucket: bucket.into(), prefix: prefix.into() })
    }

    #[test]
    fn warehouses_are_folders_or_buckets() {
        let warehouse = |text: &str| Warehouse::try_from(text.to_owned());
        assert_eq!(warehouse("a/b c"), Ok(Warehouse::Folder("a/b c".into())));
        assert_eq!(warehouse("s3://events"), bucket("events", ""));
        assert_eq!(warehouse("s3://events/a/b/"), bucket("events", "a/b"));
        for text in ["s3://events", "s3://events/a/b", "/srv/warehouse"] {
            assert_eq!(String::from(warehouse(text).unwrap()), text);
        }
        for text in ["", "s3://", "s3:///a", "s3://b/a//c", "s3://b/../c", "gs://b/a"] {
            assert!(warehouse(text).unwrap_err().contains("expected a folder or \"s3://bucket/prefix\""), "{text}");
        }
    }

    #[test]
    fn catalogues_are_told_by_their_scheme_and_have_no_password() {
        let catalogue = |text: &str| CatalogueAt::try_from(text.to_owned());
        assert_eq!(catalogue("x/catalog.sqlite"), Ok(CatalogueAt::File("x/catalog.sqlite".into())));
        let url = "postgres://forebay@db:5433/lake?sslmode=verify-full";
        assert_eq!(catalogue(url), Ok(CatalogueAt::Postgres(url.into())));
        for text in ["https://lake/api/catalog", "https://lake/api/catalog/", "https://lake/api/catalog/v1", "https://lake/api/catalog/v1/"]
        {
            assert_eq!(catalogue(text), Ok(CatalogueAt::Rest("https://lake/api/catalog".into())));
        }
        for text in ["", "mysql://db/x", "http://"] {
            assert!(catalogue(text).unwrap_err().contains("expected the path of a SQLite file"), "{text}");
        }
        for text in ["postgres://u:secret@db/x", "postgres://db/x?user=u&password=secret", "https://u:secret@lake"] {
            let error = catalogue(text).unwrap_err();
            assert!(error.contains("catalogue_password_file") && !error.contains("secret"), "{error}");
        }
    }
}
