//! Questions to a schema registry over HTTP, each bounded in time, size and tries.

use super::super::RegistryOptions;
use crate::log::LogError;
use forebay_schemas::limit;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Certificate, Client, Method, StatusCode};
use serde_json::Value;
use std::time::Duration;

const MEDIA: &str = "application/vnd.schemaregistry.v1+json, application/json";

pub struct Http {
    client: Client,
    url: String,
    user: Option<(String, Option<String>)>,
}

/// An answer that waiting does not change: not a 5xx.
pub struct Answer {
    pub status: u16,
    /// Null when it is no JSON.
    pub body: Value,
}

impl Http {
    pub fn new(options: &RegistryOptions) -> Result<Http, LogError> {
        let refused = |what: String| LogError::Refused(format!("schema registry {}: {what}", options.url));
        let millis = Duration::from_millis;
        let mut client = Client::builder()
            .connect_timeout(millis(limit::REGISTRY_CONNECT_MS))
            .timeout(millis(limit::REGISTRY_ANSWER_MS))
            // A connection lives as long as the runtime of its question.
            .pool_max_idle_per_host(0)
            .no_proxy();
        if let Some(file) = &options.ca_file {
            let pem = std::fs::read(file).map_err(|e| refused(format!("{} cannot be read: {e}", file.display())))?;
            let authorities = Certificate::from_pem_bundle(&pem).map_err(|e| refused(format!("{}: {}", file.display(), chain(&e))))?;
            client = authorities.into_iter().fold(client, reqwest::ClientBuilder::add_root_certificate);
        }
        Ok(Http {
            client: client.build().map_err(|e| refused(chain(&e)))?,
            url: options.url.clone(),
            user: options.username.clone().map(|name| (name, options.password.as_ref().map(|secret| secret.reveal().to_owned()))),
        })
    }

    pub fn get(&self, path: &str) -> Result<Answer, LogError> {
        self.ask(Method::GET, path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Result<Answer, LogError> {
        self.ask(Method::POST, path, Some(body.to_string()))
    }

    /// Asks again after a while when nobody answers, or the answer is that the registry cannot now.
    fn ask(&self, method: Method, path: &str, body: Option<String>) -> Result<Answer, LogError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| LogError::Io(e.to_string()))?;
        let mut wait = Duration::from_millis(limit::REGISTRY_BACKOFF_MS);
        let mut tries = 1;
        loop {
            let why = match runtime.block_on(self.once(&method, path, body.clone())) {
                Ok(answer) if answer.status < 500 && answer.status != StatusCode::TOO_MANY_REQUESTS.as_u16() => return Ok(answer),
                Ok(answer) => format!("{} {}", answer.status, answer.body["message"].as_str().unwrap_or_default()),
                Err(why) => why,
            };
            if tries == limit::REGISTRY_TRIES {
                return Err(LogError::Io(format!("schema registry {}{path}: {why}", self.url)));
            }
            tries += 1;
            std::thread::sleep(wait);
            wait *= 2;
        }
    }

    async fn once(&self, method: &Method, path: &str, body: Option<String>) -> Result<Answer, String> {
        let mut request = self.client.request(method.clone(), format!("{}{path}", self.url)).header(ACCEPT, MEDIA);
        if let Some((name, password)) = &self.user {
            request = request.basic_auth(name, password.as_ref());
        }
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/vnd.schemaregistry.v1+json").body(body);
        }
        let mut response = request.send().await.map_err(|e| chain(&e))?;
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| chain(&e))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > limit::REGISTRY_ANSWER_BYTES {
                return Err(format!("an answer of more than {} bytes", limit::REGISTRY_ANSWER_BYTES));
            }
        }
        Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or_default() })
    }
}

/// An error of `reqwest` hides what happened behind what it did.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
