//! A client of the SDK: credentials, region, address style. The SDK's own retries are off: `retry` has the patience.

use super::failure::{Failure, chain};
use super::{Keys, S3Options};
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::Builder;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use forebay_schemas::limit;
use std::time::Duration;

/// Where a store is told by its endpoint, the region is a word in signatures.
const REGION_OF_ENDPOINT: &str = "us-east-1";

pub async fn connect(options: &S3Options) -> Result<Client, Failure> {
    let mut loader = aws_config::defaults(BehaviorVersion::latest());
    let by_endpoint = options.endpoint.as_ref().map(|_| REGION_OF_ENDPOINT);
    if let Some(region) = options.region.as_deref().or(by_endpoint) {
        loader = loader.region(Region::new(region.to_owned()));
    }
    if let Some(keys) = &options.keys {
        loader = loader.credentials_provider(given(keys)?);
    }
    let shared = loader.load().await;
    if shared.region().is_none() {
        return Err(Failure::Refused("no region: set objects.region or AWS_REGION".to_owned()));
    }
    probe(shared.credentials_provider()).await?;
    let timeouts = TimeoutConfig::builder().connect_timeout(Duration::from_millis(limit::OBJECT_CONNECT_MS)).build();
    let mut config = Builder::from(&shared).force_path_style(options.path_style).retry_config(RetryConfig::disabled());
    config.set_timeout_config(Some(timeouts));
    if let Some(endpoint) = &options.endpoint {
        config.set_endpoint_url(Some(endpoint.clone()));
    }
    Ok(Client::from_conf(config.build()))
}

fn given(keys: &Keys) -> Result<Credentials, Failure> {
    let file = keys.secret_file.display();
    let secret = std::fs::read_to_string(&keys.secret_file)
        .map_err(|error| Failure::Refused(format!("objects.secret_access_key_file: {file} cannot be read: {error}")))?;
    Ok(Credentials::new(&keys.access_key_id, secret.trim(), None, None, "forebay"))
}

/// Whether there are credentials at all: later, the SDK tells their lack from a lost connection only in prose.
async fn probe(provider: Option<SharedCredentialsProvider>) -> Result<(), Failure> {
    let none = || {
        "there are no credentials: set objects.access_key_id and objects.secret_access_key_file, or AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, or an AWS profile"
            .to_owned()
    };
    let Some(provider) = provider else { return Err(Failure::Refused(none())) };
    match provider.provide_credentials().await {
        Ok(_) => Ok(()),
        Err(CredentialsError::CredentialsNotLoaded(_)) => Err(Failure::Refused(none())),
        Err(error @ CredentialsError::InvalidConfiguration(_)) => {
            Err(Failure::Refused(format!("the AWS configuration is wrong: {}", chain(&error))))
        }
        Err(error) => Err(Failure::Again(format!("credentials: {}", chain(&error)))),
    }
}
