//! The schema registry: which id stands for which schema on the topics.
//!
//! Owns: a topic's subject (`<name>-value`), the check that our schema can read what every version before it wrote, the
//! registration, the ids on the wire. Does not own: the protocol (`http`), the rules (`compatibility`), the framing (`wire`).
//! Invariants: inside the process values have the built-in ids. Nothing is asked before the first value; what was learned
//! is not asked again, so that a registry may be down once it was met. An id of another schema is refused, never skipped.

mod http;

use super::compatibility::{Schema, can_read};
use super::{KafkaOptions, RegistryOptions};
use crate::log::LogError;
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire;
use http::{Answer, Http};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// The registry's words for "no such subject".
const NO_SUBJECT: i64 = 40_401;
/// Where a framed value has its id.
const ID: std::ops::Range<usize> = 1..5;

pub struct Registry {
    url: String,
    /// One question at a time: whoever comes second finds it answered.
    http: Mutex<Http>,
    /// In the order of `Topic::ALL`.
    subjects: [Subject; Topic::ALL.len()],
}

struct Subject {
    topic: Topic,
    name: String,
    /// What we write with.
    ours: OnceLock<u32>,
    /// Others of the same schema: registries give one to each text of it.
    same: RwLock<BTreeSet<u32>>,
}

/// A schema as a registry has it.
struct Registered {
    id: u32,
    version: u64,
    text: String,
}

impl Registry {
    /// Asks nobody. Reads the certificates' file.
    pub fn new(options: &RegistryOptions, topics: &KafkaOptions) -> Result<Registry, LogError> {
        let subject = |topic: Topic| Subject {
            topic,
            name: format!("{}-value", topics.name(topic)),
            ours: OnceLock::new(),
            same: RwLock::new(BTreeSet::new()),
        };
        let http = Mutex::new(Http::new(options)?);
        Ok(Registry { url: options.url.clone(), http, subjects: Topic::ALL.map(subject) })
    }

    /// Gives a framed value of `topic` the registry's id. The first value of a topic has the schema checked and registered.
    pub fn outgoing(&self, topic: Topic, value: &mut [u8]) -> Result<(), LogError> {
        if get_id(value) == Some(topic.schema_id()) {
            put_id(value, self.id(topic)?);
        }
        Ok(())
    }

    /// Gives a value as it was read from `topic` the built-in id. One without framing is left as it is: its reader judges it.
    pub fn incoming(&self, topic: Topic, value: &mut [u8]) -> Result<(), LogError> {
        let Some(id) = get_id(value) else { return Ok(()) };
        let subject = self.subject(topic);
        if subject.ours.get() != Some(&id) && !subject.same.read().contains(&id) {
            self.recognise(subject, id)?;
        }
        put_id(value, topic.schema_id());
        Ok(())
    }

    /// Checks and registers the schemas of all topics.
    pub fn meet(&self) -> Result<(), LogError> {
        Topic::ALL.into_iter().try_for_each(|topic| self.id(topic).map(drop))
    }

    /// The id of `topic`'s schema, checked and registered.
    pub fn id(&self, topic: Topic) -> Result<u32, LogError> {
        let subject = self.subject(topic);
        if let Some(id) = subject.ours.get() {
            return Ok(*id);
        }
        let http = self.http.lock();
        if let Some(id) = subject.ours.get() {
            return Ok(*id);
        }
        let id = match self.find(&http, subject)? {
            Some(id) => id,
            None => self.register(&http, subject)?,
        };
        Ok(*subject.ours.get_or_init(|| id))
    }

    /// The id under which `topic`'s schema is registered, if it is. Registers nothing; fails as `id` does when a version
    /// before it cannot be read.
    pub fn registered(&self, topic: Topic) -> Result<Option<u32>, LogError> {
        self.find(&self.http.lock(), self.subject(topic))
    }

    fn subject(&self, topic: Topic) -> &Subject {
        &self.subjects[KafkaOptions::place(topic)]
    }

    fn find(&self, http: &Http, subject: &Subject) -> Result<Option<u32>, LogError> {
        let ours = subject.schema();
        let form = ours.form();
        let mut found = None;
        for version in self.versions(http, subject)? {
            let theirs = self.parse(subject, &version)?;
            can_read(&ours, &theirs).map_err(|e| {
                self.refused(&format!(
                    "{} version {} (id {}) cannot be read with this version's schema: {e}",
                    subject.name, version.version, version.id
                ))
            })?;
            if theirs.form() == form {
                found = Some(version.id);
            }
        }
        Ok(found)
    }

    /// The newest ones, oldest first.
    fn versions(&self, http: &Http, subject: &Subject) -> Result<Vec<Registered>, LogError> {
        let path = format!("/subjects/{}/versions", subject.name);
        let numbers = match http.get(&path)? {
            Answer { status: 200, body } => serde_json::from_value::<Vec<u64>>(body).map_err(|e| self.odd(&path, &e.to_string()))?,
            Answer { status: 404, body } if body["error_code"] == NO_SUBJECT => Vec::new(),
            answer => return Err(self.denied(&path, &answer)),
        };
        let newest = numbers.len().saturating_sub(limit::REGISTRY_VERSIONS);
        let ask = |number: &u64| {
            let path = format!("{path}/{number}");
            match http.get(&path)? {
                Answer { status: 200, body } => {
                    let id = body["id"].as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(|| self.odd(&path, "it has no id"))?;
                    Ok(Registered { id, version: *number, text: self.text(&path, &body)? })
                }
                answer => Err(self.denied(&path, &answer)),
            }
        };
        numbers[newest..].iter().map(ask).collect()
    }

    fn register(&self, http: &Http, subject: &Subject) -> Result<u32, LogError> {
        let path = format!("/subjects/{}/versions", subject.name);
        match http.post(&path, &json!({"schema": wire::schema(subject.topic)}))? {
            Answer { status: 200, body } => {
                let id = body["id"].as_u64().and_then(|id| u32::try_from(id).ok());
                id.ok_or_else(|| self.odd(&path, "it has no id"))
            }
            answer => Err(self.denied(&path, &answer)),
        }
    }

    /// Learns whether `id`, met on the topic, stands for the schema that this version knows.
    fn recognise(&self, subject: &Subject, id: u32) -> Result<(), LogError> {
        let http = self.http.lock();
        if subject.same.read().contains(&id) {
            return Ok(());
        }
        let path = format!("/schemas/ids/{id}?subject={}", subject.name);
        let text = match http.get(&path)? {
            Answer { status: 200, body } => self.text(&path, &body)?,
            Answer { status: 404, .. } => {
                return Err(self.refused(&format!("a value names schema id {id}, which is not registered for {}", subject.name)));
            }
            answer => return Err(self.denied(&path, &answer)),
        };
        let theirs = self.parse(subject, &Registered { id, version: 0, text })?;
        if theirs.form() != subject.schema().form() {
            let what = format!("a value of {} names schema id {id}, which is none that this version of Forebay reads", subject.name);
            return Err(self.refused(&what));
        }
        subject.same.write().insert(id);
        Ok(())
    }

    fn parse(&self, subject: &Subject, registered: &Registered) -> Result<Schema, LogError> {
        Schema::parse(&registered.text).map_err(|e| self.refused(&format!("{}, id {}: {e}", subject.name, registered.id)))
    }

    fn text(&self, path: &str, body: &Value) -> Result<String, LogError> {
        match (body["schemaType"].as_str(), body["schema"].as_str()) {
            (None | Some("AVRO"), Some(text)) => Ok(text.to_owned()),
            (Some(kind), _) if kind != "AVRO" => Err(self.refused(&format!("{path} is a schema of kind {kind}, not of Avro"))),
            _ => Err(self.odd(path, "it has no schema")),
        }
    }

    fn odd(&self, path: &str, why: &str) -> LogError {
        self.refused(&format!("{path}: an answer that no schema registry gives: {why}"))
    }

    fn denied(&self, path: &str, answer: &Answer) -> LogError {
        let said = answer.body["message"].as_str().unwrap_or_default();
        self.refused(&format!("{path}: {} {said}", answer.status))
    }

    fn refused(&self, what: &str) -> LogError {
        LogError::Refused(format!("schema registry {}: {what}", self.url))
    }
}

impl Subject {
    fn schema(&self) -> Schema {
        Schema::parse(wire::schema(self.topic)).expect("our own schema")
    }
}

fn get_id(value: &[u8]) -> Option<u32> {
    let id = value.get(ID).filter(|_| value[0] == 0)?;
    id.try_into().ok().map(u32::from_be_bytes)
}

fn put_id(value: &mut [u8], id: u32) {
    if let Some(bytes) = value.get_mut(ID) {
        bytes.copy_from_slice(&id.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
