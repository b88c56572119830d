//! What an answer that is not the one hoped for means: whether it was done, and whether asking again can help.

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::RequestId;
use aws_sdk_s3::primitives::ByteStreamError;
use std::error::Error;

#[derive(Debug)]
pub enum Failure {
    /// No answer, or half of one: it may have been done.
    Unknown(String),
    /// Not done; another time it may be.
    Again(String),
    /// Waiting does not help.
    Refused(String),
    NotFound,
    /// The name is taken.
    Taken,
    /// The object ends before the range begins.
    OutOfRange,
}

impl Failure {
    pub fn of<E>(operation: &str, bucket: &str, error: &SdkError<E, HttpResponse>) -> Failure
    where
        E: ProvideErrorMetadata + RequestId + Error + Send + Sync + 'static,
    {
        let SdkError::ServiceError(answer) = error else {
            return Failure::Unknown(format!("{operation}: {}", chain(error)));
        };
        let (raw, error) = (answer.raw(), answer.err());
        let (status, code) = (raw.status().as_u16(), error.code().unwrap_or(""));
        let told = || {
            let id = error.request_id().map(|id| format!(", request {id}")).unwrap_or_default();
            let message = error.message().unwrap_or("no message");
            format!("{operation} on bucket {bucket}: {status} {code}: {message}{id}")
        };
        match (status, code) {
            (412, _) => Failure::Taken,
            (416, _) => Failure::OutOfRange,
            // Other things can be missing, too: the bucket, or whoever asks.
            (404, "NoSuchKey" | "NotFound" | "") => Failure::NotFound,
            // The SDK has read the store's clock from the answer and signs the next request by it.
            (_, "RequestTimeTooSkewed") => Failure::Again(told()),
            (409, "ConditionalRequestConflict" | "OperationAborted") => Failure::Again(told()),
            (400, "BadDigest" | "IncompleteBody" | "RequestTimeout") | (408 | 429, _) => Failure::Again(told()),
            (500.., _) if status != 501 => Failure::Again(told()),
            _ => Failure::Refused(format!("{}: {}", told(), advice(status, code, raw.headers().get("x-amz-bucket-region")))),
        }
    }

    /// An answer whose body did not come whole.
    pub fn torn(error: ByteStreamError) -> Failure {
        Failure::Unknown(format!("GetObject: {}", chain(&error)))
    }
}

/// An error and what caused it.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn advice(status: u16, code: &str, region: Option<&str>) -> String {
    let text = match (status, code, region) {
        (_, "NoSuchBucket", _) => "create the bucket, or put objects.bucket right",
        (_, "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken", _) => {
            "the store does not take these credentials: check the access key and its secret"
        }
        (301 | 307, _, Some(region)) => return format!("set objects.region to {region:?}"),
        (301 | 307, ..) | (_, "AuthorizationHeaderMalformed", _) => "put objects.region right",
        (403, ..) => "let these credentials get, put and list objects in the bucket",
        (405 | 501, ..) => "this store cannot do what Forebay needs of it (put with If-None-Match)",
        _ => "the store does not take this request",
    };
    text.to_owned()
}
