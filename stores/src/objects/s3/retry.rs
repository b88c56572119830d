//! Patience: how long one answer may take, and how often and how long a question is asked again.

use super::failure::Failure;
use super::{S3, client};
use crate::objects::ObjectsError;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::RequestId;
use forebay_schemas::limit;
use std::error::Error;
use std::future::Future;
use std::io;
use std::time::{Duration, Instant};
use uuid::Uuid;

pub struct Patience {
    /// For an answer, beside the time that its bytes need.
    pub answer: Duration,
    /// No question is asked again after this.
    pub whole: Duration,
    /// Between two questions; doubles from the first to the last.
    pub first: Duration,
    pub last: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            answer: Duration::from_millis(limit::OBJECT_ANSWER_MS),
            whole: Duration::from_millis(limit::OBJECT_PATIENCE_MS),
            first: Duration::from_millis(limit::OBJECT_BACKOFF_MS_MIN),
            last: Duration::from_millis(limit::OBJECT_BACKOFF_MS_MAX),
        }
    }
}

impl S3 {
    /// Asks until there is an answer that stands, or patience is at its end.
    pub(super) async fn patiently<T>(&self, name: &str, ask: impl AsyncFn(&Client) -> Result<T, Failure>) -> Result<T, ObjectsError> {
        let begun = Instant::now();
        let mut wait = self.patience.first;
        loop {
            let failure = match self.client().await {
                Ok(client) => match ask(&client).await {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            let why = match failure {
                Failure::Unknown(why) | Failure::Again(why) => why,
                Failure::NotFound => return Err(ObjectsError::NotFound(name.to_owned())),
                Failure::Refused(why) => {
                    *self.client.lock() = None;
                    return Err(ObjectsError::Refused(why));
                }
                Failure::Taken | Failure::OutOfRange => return Err(ObjectsError::Refused("an answer that was not asked for".to_owned())),
            };
            let rest = jittered(wait);
            if begun.elapsed() + rest > self.patience.whole {
                return Err(io::Error::other(why).into());
            }
            tracing::debug!(object = name, why, "asked again");
            tokio::time::sleep(rest).await;
            wait = (wait * 2).min(self.patience.last);
        }
    }

    /// One request, whose answer may take `bytes` long.
    pub(super) async fn ask<T, E>(
        &self,
        operation: &str,
        bytes: u64,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> Result<T, Failure>
    where
        E: ProvideErrorMetadata + RequestId + Error + Send + Sync + 'static,
    {
        let answer = async { request.await.map_err(|error| Failure::of(operation, &self.options.bucket, &error)) };
        self.within(operation, bytes, answer).await
    }

    /// `work`, unless it takes longer than any store needs for that many bytes.
    pub(super) async fn within<T>(
        &self,
        operation: &str,
        bytes: u64,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let bound = self.patience.answer + Duration::from_secs(bytes / limit::OBJECT_BYTES_PER_S);
        let late = || Err(Failure::Unknown(format!("{operation}: no answer within {bound:?}")));
        tokio::time::timeout(bound, work).await.unwrap_or_else(|_| late())
    }

    async fn client(&self) -> Result<Client, Failure> {
        if let Some(client) = self.client.lock().clone() {
            return Ok(client);
        }
        let client = client::connect(&self.options).await?;
        Ok(self.client.lock().insert(client).clone())
    }
}

/// Between half of it and all of it, so that those who failed together do not come back together.
fn jittered(wait: Duration) -> Duration {
    let random = Uuid::new_v4().as_fields().0;
    wait.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}
