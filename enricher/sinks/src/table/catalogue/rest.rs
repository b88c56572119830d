//! A catalogue that speaks Iceberg's REST protocol. It writes the metadata files itself, from the steps that it is sent.
//!
//! Owns: the requests (configuration, load, create, commit), who we are (a token, or OAuth2 client credentials), and
//! what an answer means for a commit. Invariants: a commit names the table, its `main` snapshot, schema and partitions
//! that it stands on, so that the server refuses it on any others; no answer, or one that tells of the server's trouble,
//! says nothing about the outcome; neither token nor credential is in an error.

use super::super::NAMESPACE;
use super::super::config::{self, Config};
use super::super::disk::at;
use super::super::error::{Refusal, SinkError};
use super::super::stored::Stored;
use super::Swap;
use forebay_schemas::limit;
use iceberg::spec::{MAIN_BRANCH, TableMetadata};
use iceberg::{TableRequirement, TableUpdate};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::error::Error as _;
use std::time::{Duration, Instant};

pub(super) struct Rest {
    base: String,
    table: &'static str,
    config: config::Rest,
    client: reqwest::Client,
    /// After `/v1`, once the catalogue has been asked: empty, or with a `/` before it.
    prefix: Option<String>,
    /// What the credential was exchanged for, and until when it is good.
    token: Option<(String, Instant)>,
}

struct Answer {
    status: StatusCode,
    body: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Loaded {
    metadata_location: String,
    metadata: TableMetadata,
}

impl Rest {
    pub(super) fn new(base: &str, config: &Config, table: &'static str) -> Result<Rest, SinkError> {
        // A connection for each request: one that lay idle may be dead, and then a commit's outcome is unknown for nothing.
        let mut client = reqwest::Client::builder()
            .user_agent(concat!("forebay/", env!("CARGO_PKG_VERSION")))
            .pool_max_idle_per_host(0)
            .timeout(Duration::from_millis(limit::CATALOGUE_ANSWER_MS));
        if let Some(path) = &config.rest.ca_file {
            let pem = at(path, std::fs::read(path))?;
            for certificate in reqwest::Certificate::from_pem_bundle(&pem).map_err(silent)? {
                client = client.add_root_certificate(certificate);
            }
        }
        let client = client.build().map_err(silent)?;
        Ok(Rest { base: base.to_owned(), table, config: config.rest.clone(), client, prefix: None, token: None })
    }

    /// The table as it is now; `None`: no such table.
    pub(super) async fn load(&mut self) -> Result<Option<Stored>, SinkError> {
        let answer = self.ask(Method::GET, &self.path(), None).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        answer.expected()?.table().map(Some)
    }

    /// Makes the table. `None`: somebody else made one meanwhile.
    pub(super) async fn create(&mut self, metadata: &TableMetadata) -> Result<Option<Stored>, SinkError> {
        let namespace = self.ask(Method::POST, "/namespaces", Some(json!({"namespace": [NAMESPACE], "properties": {}}))).await?;
        // There already; or not ours to make, and then the table tells.
        if !matches!(namespace.status, StatusCode::CONFLICT | StatusCode::FORBIDDEN) {
            namespace.expected()?;
        }
        let mut properties = metadata.properties().clone();
        properties.insert("format-version".to_owned(), (metadata.format_version() as u8).to_string());
        let table = json!({
            "name": self.table,
            "location": metadata.location(),
            "schema": &**metadata.current_schema(),
            "partition-spec": &**metadata.default_partition_spec(),
            "properties": properties,
            "stage-create": false,
        });
        let answer = self.ask(Method::POST, &format!("/namespaces/{NAMESPACE}/tables"), Some(table)).await?;
        if answer.status == StatusCode::CONFLICT {
            return Ok(None);
        }
        answer.expected()?.table().map(Some)
    }

    /// Compare and set. An error says that nothing has happened.
    pub(super) async fn commit(&mut self, base: &Stored, changes: &[TableUpdate]) -> Result<Swap, SinkError> {
        let metadata = &base.metadata;
        let requirements = [
            TableRequirement::UuidMatch { uuid: metadata.uuid() },
            TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id: metadata.current_snapshot_id() },
            TableRequirement::CurrentSchemaIdMatch { current_schema_id: metadata.current_schema_id() },
            TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: metadata.last_column_id() },
            TableRequirement::DefaultSpecIdMatch { default_spec_id: metadata.default_partition_spec_id() },
        ];
        let body = json!({
            "identifier": {"namespace": [NAMESPACE], "name": self.table},
            "requirements": requirements,
            "updates": changes,
        });
        self.prefix().await?;
        let answer = match self.ask(Method::POST, &self.path(), Some(body)).await {
            Ok(answer) => answer,
            Err(error) if error.is_final() => return Err(error),
            Err(error) => return Ok(Swap::Unknown(error)),
        };
        if answer.status == StatusCode::CONFLICT {
            return Ok(Swap::Lost);
        }
        if answer.status.is_server_error() {
            return Ok(Swap::Unknown(answer.trouble()));
        }
        let answer = answer.expected()?;
        // It said yes; what it says beside that can be asked again.
        Ok(answer.table().map_or_else(Swap::Unknown, Swap::Done))
    }

    fn path(&self) -> String {
        format!("/namespaces/{NAMESPACE}/tables/{}", self.table)
    }

    async fn prefix(&mut self) -> Result<String, SinkError> {
        if let Some(prefix) = &self.prefix {
            return Ok(prefix.clone());
        }
        #[derive(Deserialize)]
        struct Configuration {
            #[serde(default)]
            defaults: HashMap<String, Value>,
            #[serde(default)]
            overrides: HashMap<String, Value>,
        }
        let path = match &self.config.warehouse {
            Some(warehouse) => format!("{}/v1/config?warehouse={}", self.base, percent(warehouse)),
            None => format!("{}/v1/config", self.base),
        };
        let answer = self.send(Method::GET, &path, None).await?.expected()?;
        let mut told: Configuration = answer.read()?;
        let of = |values: &mut HashMap<String, Value>| values.remove("prefix").and_then(|v| v.as_str().map(str::to_owned));
        let prefix = of(&mut told.overrides).or_else(|| self.config.prefix.clone()).or_else(|| of(&mut told.defaults));
        let prefix = prefix.filter(|prefix| !prefix.is_empty()).map_or_else(String::new, |prefix| format!("/{}", prefix.trim_matches('/')));
        self.prefix = Some(prefix.clone());
        Ok(prefix)
    }

    async fn ask(&mut self, method: Method, path: &str, body: Option<Value>) -> Result<Answer, SinkError> {
        let prefix = self.prefix().await?;
        let url = format!("{}/v1{prefix}{path}", self.base);
        self.send(method, &url, body).await
    }

    async fn send(&mut self, method: Method, url: &str, body: Option<Value>) -> Result<Answer, SinkError> {
        loop {
            let (token, is_fresh) = self.bearer().await?;
            let mut request = self.client.request(method.clone(), url);
            if let Some(token) = &token {
                request = request.bearer_auth(token);
            }
            if let Some(body) = &body {
                request = request.json(body);
            }
            let answer = receive(request).await?;
            // A token may end before its time. Refused so, nothing was done.
            if answer.status == StatusCode::UNAUTHORIZED && !is_fresh && self.token.take().is_some() {
                continue;
            }
            return Ok(answer);
        }
    }

    /// The token to show, and whether it was got just now.
    async fn bearer(&mut self) -> Result<(Option<String>, bool), SinkError> {
        if let Some(path) = &self.config.token_file {
            return Ok((Some(at(path, std::fs::read_to_string(path))?.trim().to_owned()), true));
        }
        let Some(path) = &self.config.credential_file else { return Ok((None, true)) };
        if let Some((token, until)) = &self.token
            && Instant::now() < *until
        {
            return Ok((Some(token.clone()), false));
        }
        #[derive(Deserialize)]
        struct Granted {
            access_token: String,
            expires_in: Option<u64>,
        }
        let credential = at(path, std::fs::read_to_string(path))?;
        let (id, secret) = credential.trim().split_once(':').unwrap_or(("", credential.trim()));
        let mut form = format!(
            "grant_type=client_credentials&client_secret={}&scope={}",
            percent(secret),
            percent(self.config.scope.as_deref().unwrap_or("catalog"))
        );
        if !id.is_empty() {
            form.push_str(&format!("&client_id={}", percent(id)));
        }
        let server = self.config.oauth2_server.clone().unwrap_or_else(|| format!("{}/v1/oauth/tokens", self.base));
        let request = self.client.post(server).header("Content-Type", "application/x-www-form-urlencoded").body(form);
        let granted: Granted = receive(request).await?.expected()?.read()?;
        // Renewed in good time before it ends.
        let good = Duration::from_secs(granted.expires_in.unwrap_or(limit::CATALOGUE_TOKEN_S)) * 4 / 5;
        self.token = Some((granted.access_token.clone(), Instant::now() + good));
        Ok((Some(granted.access_token), true))
    }
}

async fn receive(request: reqwest::RequestBuilder) -> Result<Answer, SinkError> {
    let mut response = request.send().await.map_err(silent)?;
    let (status, mut body) = (response.status(), Vec::new());
    while let Some(chunk) = response.chunk().await.map_err(silent)? {
        body.extend_from_slice(&chunk);
        if body.len() > limit::CATALOGUE_ANSWER_BYTES {
            return Err(SinkError::Rest("the answer is over the limit".to_owned()));
        }
    }
    Ok(Answer { status, body })
}

/// With its causes, of which the first says the least; without the URL, which may have a credential in its query one day.
fn silent(error: reqwest::Error) -> SinkError {
    let error = error.without_url();
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    SinkError::Rest(causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}")))
}

impl Answer {
    /// A 2xx; else what kind of error it is.
    fn expected(self) -> Result<Answer, SinkError> {
        if self.status.is_success() {
            return Ok(self);
        }
        let may_pass = self.status.is_server_error()
            || matches!(self.status, StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS);
        if may_pass { Err(self.trouble()) } else { Err(Refusal::Catalogue(self.message()).into()) }
    }

    fn trouble(&self) -> SinkError {
        SinkError::Rest(self.message())
    }

    /// What the server says of an error, cut to a sentence or two.
    fn message(&self) -> String {
        let told = serde_json::from_slice::<Value>(&self.body).ok();
        let told = told.as_ref().map(|told| &told["error"]).and_then(|error| error["message"].as_str().or(error.as_str()));
        let text: String = told.unwrap_or("no reason is given").chars().take(limit::CATALOGUE_REASON_CHARS).collect();
        format!("{} {text}", self.status.as_u16())
    }

    fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, SinkError> {
        serde_json::from_slice(&self.body).map_err(|error| SinkError::Rest(format!("the answer cannot be read: {error}")))
    }

    fn table(&self) -> Result<Stored, SinkError> {
        let loaded: Loaded = self.read()?;
        Ok(Stored::of(loaded.metadata_location, loaded.metadata))
    }
}

/// A value in a query or a form.
fn percent(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
