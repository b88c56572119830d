//! The object store as a bucket on S3, or on a server that speaks its protocol.
//!
//! Owns: names in the bucket, put-if-absent and its unknown outcomes (`put`), what an answer means (`failure`), patience (`retry`).
//! Does not own: what the objects are, the bucket itself and its rules.
//! Invariants: every write carries `If-None-Match: *`, and none is sent before the store has shown that it heeds that; a put ends
//! as `Created` or `Same` only after the store said so or gave the content's own checksum; every wait has a bound.

mod client;
mod failure;
mod put;
mod retry;

use super::{Content, ObjectInfo, Objects, ObjectsError, Put, check_name};
use aws_sdk_s3::Client;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use failure::Failure;
use forebay_schemas::limit;
use parking_lot::Mutex;
use retry::Patience;
use std::future::Future;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use tokio::runtime::{Builder, Runtime};

/// Where the bucket is and who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct S3Options {
    pub bucket: String,
    /// Before every object's name, with a `/` between; empty: nothing.
    pub prefix: String,
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub path_style: bool,
    /// `None`: by AWS's standard chain (environment, profile, web identity, container, instance).
    pub keys: Option<Keys>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keys {
    pub access_key_id: String,
    /// The secret alone; blanks around it are not part of it.
    pub secret_file: PathBuf,
}

impl S3Options {
    /// The same store and credentials, another bucket and prefix.
    pub fn at(&self, bucket: &str, prefix: &str) -> S3Options {
        S3Options { bucket: bucket.to_owned(), prefix: prefix.trim_matches('/').to_owned(), ..self.clone() }
    }
}

/// Blocks the calling thread, which may not be one that runs async tasks.
pub struct S3 {
    options: S3Options,
    patience: Patience,
    /// Taken when this goes.
    runtime: Option<Runtime>,
    /// Made at the first call, and anew after a refusal: credentials may have been put right meanwhile.
    client: Mutex<Option<Client>>,
    /// The store has shown that it does not overwrite.
    conditional: AtomicBool,
}

impl S3 {
    /// Asks nobody.
    pub fn new(options: S3Options) -> Result<S3, ObjectsError> {
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("forebay-s3").enable_all().build()?;
        let (client, conditional) = (Mutex::new(None), AtomicBool::new(false));
        Ok(S3 { options, patience: Patience::default(), runtime: Some(runtime), client, conditional })
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("taken by drop alone").block_on(work)
    }

    /// The name in the bucket.
    fn key(&self, name: &str) -> Result<String, ObjectsError> {
        check_name(name)?;
        let key = self.prefixed(name);
        if key.len() > limit::OBJECT_NAME_BYTES { Err(ObjectsError::BadName(key)) } else { Ok(key) }
    }

    fn prefixed(&self, name: &str) -> String {
        if self.options.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.options.prefix) }
    }

    /// An object's bytes, or those of `range`, which is not empty.
    async fn read(&self, name: &str, range: Option<Range<u64>>) -> Result<Vec<u8>, ObjectsError> {
        let key = self.key(name)?;
        self.patiently(name, async |client| {
            let answer = match self.open(client, &key, range.as_ref()).await {
                Err(Failure::OutOfRange) => return Ok(Vec::new()),
                answer => answer?,
            };
            let bytes = answer.content_length().map_or(0, i64::unsigned_abs);
            let body = self.within("GetObject", bytes, async { answer.body.collect().await.map_err(Failure::torn) }).await?;
            Ok(body.to_vec())
        })
        .await
    }

    /// Begins to read; the body is still to come.
    async fn open(&self, client: &Client, key: &str, range: Option<&Range<u64>>) -> Result<GetObjectOutput, Failure> {
        let range = range.map(|range| format!("bytes={}-{}", range.start, range.end - 1));
        let request = client.get_object().bucket(&self.options.bucket).key(key).set_range(range);
        self.ask("GetObject", 0, request.send()).await
    }

    /// A page of what lies below `prefix`, both in the bucket's names; whether there is more after its last key.
    async fn page(&self, client: &Client, prefix: &str, after: Option<String>, max: usize) -> Result<(Vec<(String, u64)>, bool), Failure> {
        let request = client.list_objects_v2().bucket(&self.options.bucket).prefix(prefix).set_start_after(after.clone());
        let answer = self.ask("ListObjectsV2", 0, request.max_keys(i32::try_from(max).unwrap_or(i32::MAX)).send()).await?;
        let more = answer.is_truncated() == Some(true);
        let entry = |object: aws_sdk_s3::types::Object| Some((object.key?, object.size.map_or(0, i64::unsigned_abs)));
        let page: Vec<_> = answer.contents.unwrap_or_default().into_iter().filter_map(entry).collect();
        let ascends = page.windows(2).all(|pair| pair[0].0 < pair[1].0) && page.first().is_none_or(|(key, _)| Some(key) > after.as_ref());
        if !ascends || (more && page.is_empty()) {
            return Err(Failure::Refused("this store does not list objects in the order of their names".to_owned()));
        }
        Ok((page, more))
    }

    async fn pages(&self, prefix: &str, start_after: Option<&str>, max: usize) -> Result<Vec<ObjectInfo>, ObjectsError> {
        let (root, below) = (self.prefixed(""), self.prefixed(prefix));
        let mut after = start_after.map(|name| self.prefixed(name));
        let mut found = Vec::new();
        while found.len() < max {
            let wanted = (max - found.len()).min(PAGE);
            let (page, more) = self.patiently(prefix, async |client| self.page(client, &below, after.clone(), wanted).await).await?;
            after = page.last().map(|(key, _)| key.clone());
            let ours = page.into_iter().map(|(key, bytes)| ObjectInfo { name: key[root.len()..].to_owned(), bytes });
            found.extend(ours.filter(|object| check_name(&object.name).is_ok()));
            if !more {
                break;
            }
        }
        Ok(found)
    }
}

/// Keys in one answer, as S3 bounds it.
const PAGE: usize = 1_000;

impl Objects for S3 {
    fn put_if_absent(&self, name: &str, content: Content<'_>) -> Result<Put, ObjectsError> {
        let key = self.key(name)?;
        let body = put::Body::read(content)?;
        self.wait(self.patiently(name, async |client| self.put(client, &key, &body).await))
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, ObjectsError> {
        self.wait(self.read(name, None))
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, ObjectsError> {
        if range.is_empty() {
            return self.size(name).map(|_| Vec::new());
        }
        self.wait(self.read(name, Some(range)))
    }

    /// By a read of one byte: unlike `HeadObject`'s, its refusals say why.
    fn size(&self, name: &str) -> Result<u64, ObjectsError> {
        let key = self.key(name)?;
        let size = async |client: &Client| match self.open(client, &key, Some(&(0..1))).await {
            Err(Failure::OutOfRange) => Ok(0),
            answer => {
                let answer = answer?;
                let total = answer.content_range().and_then(|range| range.rsplit('/').next()?.parse().ok());
                total.ok_or_else(|| Failure::Refused("this store does not answer for a part of an object".to_owned()))
            }
        };
        self.wait(self.patiently(name, size))
    }

    fn list(&self, prefix: &str, start_after: Option<&str>, max: usize) -> Result<Vec<ObjectInfo>, ObjectsError> {
        self.wait(self.pages(prefix, start_after, max))
    }

    fn delete(&self, name: &str) -> Result<(), ObjectsError> {
        let key = self.key(name)?;
        let delete = async |client: &Client| {
            let request = client.delete_object().bucket(&self.options.bucket).key(&key);
            match self.ask("DeleteObject", 0, request.send()).await {
                Ok(_) | Err(Failure::NotFound) => Ok(()),
                Err(failure) => Err(failure),
            }
        };
        self.wait(self.patiently(name, delete))
    }
}

impl Drop for S3 {
    /// Not where it stands: the last owner may be an async task, which may not wait.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests;
