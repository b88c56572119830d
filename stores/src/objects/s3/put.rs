//! Put-if-absent: one conditional request, and what it came to when the answer does not say.
//!
//! Owns: the condition, the content's checksum, the comparison with what is there.
//! Invariant R1: a put that finds the name taken compares and never writes.

use super::S3;
use super::failure::Failure;
use crate::objects::folder::TEMP_PREFIX;
use crate::objects::{Content, Put};
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::{ByteStream, Length};
use aws_sdk_s3::types::ChecksumMode;
use aws_smithy_types::base64;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::Ordering;

/// A name that no object may have.
const PROBE: &str = "probe";
const STEP: usize = 64 << 10;

/// What is sent, with its checksum: the store compares it with what arrives, keeps it, and tells it when asked.
pub struct Body<'a> {
    source: Source<'a>,
    bytes: u64,
    sha256: String,
}

enum Source<'a> {
    File(&'a Path),
    Bytes(Bytes),
}

impl<'a> Body<'a> {
    pub fn read(content: Content<'a>) -> io::Result<Body<'a>> {
        let mut hash = Sha256::new();
        let (source, bytes) = match content {
            Content::Bytes(bytes) => {
                hash.update(bytes);
                (Source::Bytes(Bytes::copy_from_slice(bytes)), bytes.len() as u64)
            }
            Content::File(path) => {
                let mut file = File::open(path)?;
                let mut buffer = vec![0; STEP];
                let mut bytes = 0;
                loop {
                    let read = file.read(&mut buffer)?;
                    if read == 0 {
                        break (Source::File(path), bytes);
                    }
                    hash.update(&buffer[..read]);
                    bytes += read as u64;
                }
            }
        };
        Ok(Body { source, bytes, sha256: base64::encode(hash.finalize()) })
    }

    async fn stream(&self) -> Result<ByteStream, Failure> {
        match &self.source {
            Source::Bytes(bytes) => Ok(ByteStream::from(bytes.clone())),
            Source::File(path) => {
                let stream = ByteStream::read_from().path(path).length(Length::Exact(self.bytes)).buffer_size(STEP).build();
                stream.await.map_err(|error| Failure::Again(error.to_string()))
            }
        }
    }
}

impl S3 {
    pub(super) async fn put(&self, client: &Client, key: &str, body: &Body<'_>) -> Result<Put, Failure> {
        self.shown_conditional(client).await?;
        let why = match self.create(client, key, body).await {
            Ok(()) => return Ok(Put::Created),
            Err(Failure::Taken) => "PutObject: the name was taken and is free again".to_owned(),
            // The whole body is not sent again before it is known to be missing: a store that refuses early may cut the
            // connection under its own answer, each time.
            Err(Failure::Unknown(why)) => why,
            Err(Failure::NotFound) => return Err(Failure::Refused("PutObject: the store answers 404".to_owned())),
            Err(failure) => return Err(failure),
        };
        match self.compare(client, key, body).await {
            Err(Failure::NotFound) => Err(Failure::Again(why)),
            outcome => outcome,
        }
    }

    async fn create(&self, client: &Client, key: &str, body: &Body<'_>) -> Result<(), Failure> {
        let request = client.put_object().bucket(&self.options.bucket).key(key).if_none_match("*");
        let request = request.checksum_sha256(&body.sha256).body(body.stream().await?);
        self.ask("PutObject", body.bytes, request.send()).await.map(|_| ())
    }

    /// The object that has the name against the content. The store's checksum decides where it has one of the whole object.
    async fn compare(&self, client: &Client, key: &str, body: &Body<'_>) -> Result<Put, Failure> {
        let request = client.head_object().bucket(&self.options.bucket).key(key).checksum_mode(ChecksumMode::Enabled);
        let there = self.ask("HeadObject", 0, request.send()).await?;
        if there.content_length().map(i64::unsigned_abs) != Some(body.bytes) {
            return Ok(Put::Different);
        }
        let sha256 = match there.checksum_sha256().filter(|sum| !sum.contains('-')) {
            Some(sum) => sum.to_owned(),
            None => self.hash(client, key, body.bytes).await?,
        };
        Ok(if sha256 == body.sha256 { Put::Same } else { Put::Different })
    }

    async fn hash(&self, client: &Client, key: &str, bytes: u64) -> Result<String, Failure> {
        let mut body = self.open(client, key, None).await?.body;
        let read = async {
            let mut hash = Sha256::new();
            while let Some(chunk) = body.try_next().await.map_err(Failure::torn)? {
                hash.update(&chunk);
            }
            Ok(base64::encode(hash.finalize()))
        };
        self.within("GetObject", bytes, read).await
    }

    /// A store that does not know the condition overwrites and says nothing. It gets to see one that it can do no harm with.
    async fn shown_conditional(&self, client: &Client) -> Result<(), Failure> {
        if self.conditional.load(Ordering::Relaxed) {
            return Ok(());
        }
        let key = self.prefixed(&format!("{TEMP_PREFIX}{PROBE}"));
        let empty = Body::read(Content::Bytes(b"")).map_err(|error| Failure::Again(error.to_string()))?;
        for _ in 0..2 {
            match self.create(client, &key, &empty).await {
                Ok(()) => {}
                Err(Failure::Taken) => {
                    self.conditional.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::Refused("this store overwrites objects although it is asked not to (If-None-Match: *): use another".to_owned()))
    }
}
