//! The topics' schemas in the registry, where one is configured.

use super::judge::{Finding, Verdict};
use crate::log::LogError;
use crate::log::kafka::KafkaOptions;
use crate::log::kafka::registry::Registry;
use forebay_schemas::topic::Topic;

const SETTING: &str = "schema";

/// Registers nothing. A registry that does not answer is `Unknown`: parts start without it.
pub(super) fn check(options: &KafkaOptions, topics: &[Topic]) -> Result<Vec<Finding>, LogError> {
    let Some(registry) = of(options)? else { return Ok(Vec::new()) };
    let judge = |&topic: &Topic| {
        let (found, verdict) = match registry.registered(topic) {
            Ok(Some(id)) => (format!("id {id}"), Verdict::Good),
            Ok(None) => ("not registered".to_owned(), Verdict::Differs),
            Err(error @ LogError::Io(_)) => (error.to_string(), Verdict::Unknown),
            Err(error) => (error.to_string(), Verdict::Refused("what is on the topic, or is written to it, could not be read")),
        };
        let name = options.name(topic).to_owned();
        let (wanted, changeable) = ("registered, and able to read all before it".to_owned(), verdict == Verdict::Differs);
        Finding { topic, name, setting: SETTING, found: Some(found), wanted, verdict, changeable }
    };
    Ok(topics.iter().map(judge).collect())
}

/// Registers what `found` says is not.
pub(super) fn register(options: &KafkaOptions, found: &[Finding]) -> Result<(), LogError> {
    let Some(registry) = of(options)? else { return Ok(()) };
    found.iter().filter(|finding| finding.changeable).try_for_each(|finding| registry.id(finding.topic).map(drop))
}

fn of(options: &KafkaOptions) -> Result<Option<Registry>, LogError> {
    options.registry.as_ref().map(|own| Registry::new(own, options)).transpose()
}
