//! `[objects]` as it is written, and what it means.

use super::ConfigError;
use crate::objects::check_name;
use crate::objects::s3::{Keys, S3Options};
use serde::{Deserialize, Deserializer, Serialize};
use std::path::{Path, PathBuf};

#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectsConfig {
    pub kind: ObjectsKind,
    /// The folder. Default: `objects` in the data folder.
    pub dir: Option<PathBuf>,
    /// Of S3, as all keys from here on.
    pub bucket: Option<String>,
    /// What the names of all objects begin with. Default: nothing.
    pub prefix: Option<String>,
    /// `http://…` or `https://…` of a store that is not AWS.
    pub endpoint: Option<String>,
    /// Default: what AWS's environment says; `us-east-1` where an endpoint is given.
    pub region: Option<String>,
    /// The bucket's name in the path and not in the host's name. Default: where an endpoint is given.
    pub path_style: Option<bool>,
    /// Default: credentials by AWS's standard chain.
    pub access_key_id: Option<String>,
    pub secret_access_key_file: Option<PathBuf>,
}

/// Where objects are.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectsKind {
    #[default]
    Folder,
    S3,
}

impl ObjectsConfig {
    pub fn dir(&self, data: &Path) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| data.join("objects"))
    }

    pub fn check(&self) -> Result<(), ConfigError> {
        match self.kind {
            ObjectsKind::S3 if self.dir.is_some() => fail("objects.dir", "goes with objects.kind = \"folder\" alone: remove it"),
            ObjectsKind::S3 => self.s3().map(|_| ()),
            ObjectsKind::Folder => match self.first_of_s3() {
                Some(key) => fail(key, "goes with objects.kind = \"s3\" alone: remove it, or set the kind"),
                None => Ok(()),
            },
        }
    }

    /// What `kind = "s3"` needs to be opened.
    pub fn s3(&self) -> Result<S3Options, ConfigError> {
        let Some(bucket) = self.bucket.clone() else { return fail("objects.bucket", "kind = \"s3\" needs the bucket's name") };
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if bucket.is_empty() || !(bucket.chars().all(named) || bucket.starts_with("arn:")) {
            return fail("objects.bucket", "expected the bucket's name alone, like \"events\": no s3://, no /");
        }
        let prefix = self.prefix.as_deref().unwrap_or("").trim_matches('/').to_owned();
        if !prefix.is_empty() && check_name(&prefix).is_err() {
            return fail("objects.prefix", "expected parts with / between them, like \"forebay/prod\": none empty, \".\" or \"..\"");
        }
        if self
            .endpoint
            .as_deref()
            .is_some_and(|e| !["http://", "https://"].iter().any(|scheme| e.len() > scheme.len() && e.starts_with(scheme)))
        {
            return fail("objects.endpoint", "expected http://HOST:PORT or https://HOST");
        }
        let keys = match (self.access_key_id.clone(), self.secret_access_key_file.clone()) {
            (Some(access_key_id), Some(secret_file)) => Some(Keys { access_key_id, secret_file }),
            (None, None) => None,
            (Some(_), None) => return fail("objects.access_key_id", "needs objects.secret_access_key_file beside it"),
            (None, Some(_)) => return fail("objects.secret_access_key_file", "needs objects.access_key_id beside it"),
        };
        Ok(S3Options {
            bucket,
            prefix,
            endpoint: self.endpoint.clone(),
            region: self.region.clone(),
            path_style: self.path_style.unwrap_or(self.endpoint.is_some()),
            keys,
        })
    }

    fn first_of_s3(&self) -> Option<&'static str> {
        let keys = [
            ("objects.bucket", self.bucket.is_some()),
            ("objects.prefix", self.prefix.is_some()),
            ("objects.endpoint", self.endpoint.is_some()),
            ("objects.region", self.region.is_some()),
            ("objects.path_style", self.path_style.is_some()),
            ("objects.access_key_id", self.access_key_id.is_some()),
            ("objects.secret_access_key_file", self.secret_access_key_file.is_some()),
        ];
        keys.into_iter().find(|(_, set)| *set).map(|(key, _)| key)
    }
}

fn fail<T>(key: &'static str, what: &'static str) -> Result<T, ConfigError> {
    Err(ConfigError { key, what: what.to_owned() })
}

impl<'de> Deserialize<'de> for ObjectsKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ObjectsKind, D::Error> {
        super::kind(deserializer, &[("folder", ObjectsKind::Folder), ("s3", ObjectsKind::S3)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> ObjectsConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_bucket_is_read_with_its_defaults() {
        let own = config(
            "kind = \"s3\"\nbucket = \"events\"\nprefix = \"/forebay/prod/\"\nendpoint = \"http://127.0.0.1:7070\"\n\
             access_key_id = \"forebay\"\nsecret_access_key_file = \"/run/secrets/s3\"\n",
        );
        let keys = Keys { access_key_id: "forebay".into(), secret_file: "/run/secrets/s3".into() };
        let expected = S3Options {
            bucket: "events".into(),
            prefix: "forebay/prod".into(),
            endpoint: Some("http://127.0.0.1:7070".into()),
            region: None,
            path_style: true,
            keys: Some(keys),
        };
        assert_eq!((own.check(), own.s3()), (Ok(()), Ok(expected.clone())));
        assert_eq!(config(&toml::to_string(&own).unwrap()), own);
        let warehouse = expected.at("tables", "/w/");
        assert_eq!((&*warehouse.bucket, &*warehouse.prefix, &warehouse.endpoint), ("tables", "w", &expected.endpoint));

        let aws = config("kind = \"s3\"\nbucket = \"events\"\nregion = \"eu-central-1\"\n").s3().unwrap();
        assert_eq!((&*aws.prefix, aws.path_style, aws.region.as_deref(), aws.keys), ("", false, Some("eu-central-1"), None));
    }

    #[test]
    fn what_does_not_fit_is_said_with_its_key() {
        for (text, key) in [
            ("kind = \"s3\"", "objects.bucket"),
            ("kind = \"s3\"\nbucket = \"events\"\ndir = \"/srv\"", "objects.dir"),
            ("kind = \"s3\"\nbucket = \"s3://events\"", "objects.bucket"),
            ("kind = \"s3\"\nbucket = \"events/raw\"", "objects.bucket"),
            ("kind = \"s3\"\nbucket = \"events\"\nprefix = \"a//b\"", "objects.prefix"),
            ("kind = \"s3\"\nbucket = \"events\"\nprefix = \"a/../b\"", "objects.prefix"),
            ("kind = \"s3\"\nbucket = \"events\"\nendpoint = \"127.0.0.1:7070\"", "objects.endpoint"),
            ("kind = \"s3\"\nbucket = \"events\"\naccess_key_id = \"a\"", "objects.access_key_id"),
            ("kind = \"s3\"\nbucket = \"events\"\nsecret_access_key_file = \"a\"", "objects.secret_access_key_file"),
            ("bucket = \"events\"", "objects.bucket"),
            ("kind = \"folder\"\npath_style = true", "objects.path_style"),
        ] {
            assert_eq!(config(text).check().map_err(|e| e.key), Err(key), "{text}");
        }
    }
}
