//! The topics as they are on the brokers, against what they must be.
//!
//! Owns: `check`, which says of each setting what was found and whether the laws bear it, and `apply`, which makes topics,
//! sets what may be set and registers schemas. Does not own: the table (`schemas::topic`), records.
//! Invariants: nothing is ever shrunk, deleted or given other partitions: a key's events would go to another task. No
//! question here makes a broker create a topic by itself.

mod judge;
mod subjects;

pub use judge::{Finding, Verdict};

use super::client::Context;
use super::{KafkaOptions, error};
use crate::log::LogError;
use forebay_schemas::limit;
use forebay_schemas::topic::Topic;
use judge::{Found, Plan, judge, missing};
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ConfigSource, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

const ANSWER: Duration = Duration::from_millis(limit::LOG_ANSWER_MS);
/// What `apply` needs.
const RIGHTS: &str = "let this user create topics, describe and alter their settings, or have an operator do this";
/// Between two looks at what was changed.
const SPREAD: Duration = Duration::from_millis(50);
/// What a client has heard is told within this.
const HEAR: Duration = Duration::from_millis(100);

/// What is there of `topics`, setting by setting, in the order of the table; others are not asked for, since a part may have no
/// right to them. A part must not start on a topic of which one is `Refused`. Blocks; not for a thread that runs async tasks.
pub fn check(options: &KafkaOptions, topics: &[Topic]) -> Result<Vec<Finding>, LogError> {
    let plans: Vec<Plan> = topics.iter().map(|topic| Plan::new(options, *topic)).collect();
    let mut findings = Brokers::connect(options)?.look(&plans)?;
    findings.extend(subjects::check(options, topics)?);
    Ok(findings)
}

/// Makes the topics that are missing, sets what may be set, registers what is not registered; gives what it found before, good settings left out. What is
/// not `changeable` stays as it is. `dry`: the brokers only say whether they would.
pub fn apply(options: &KafkaOptions, dry: bool) -> Result<Vec<Finding>, LogError> {
    let (brokers, plans) = (Brokers::connect(options)?, Topic::ALL.map(|topic| Plan::new(options, topic)));
    let mut found = brokers.look(&plans)?;
    found.retain(|finding| finding.verdict != Verdict::Good);
    for plan in &plans {
        let of_topic: Vec<&Finding> = found.iter().filter(|finding| finding.topic == plan.topic && finding.changeable).collect();
        if of_topic.iter().any(|finding| finding.found.is_none()) {
            brokers.create(plan, dry)?;
        } else if !of_topic.is_empty() {
            brokers.alter(plan, &of_topic, dry)?;
        }
    }
    let mut schemas = subjects::check(options, &Topic::ALL)?;
    schemas.retain(|finding| finding.verdict != Verdict::Good);
    if !dry {
        brokers.wait_until_done(&plans)?;
        subjects::register(options, &schemas)?;
    }
    found.extend(schemas);
    Ok(found)
}

struct Brokers {
    admin: AdminClient<DefaultClientContext>,
    /// Tells why nobody answers and what is denied, which the other cannot.
    asker: BaseConsumer<Context>,
}

/// Values, and whether they were set for this topic.
type Settings = BTreeMap<String, (String, bool)>;

impl Brokers {
    fn connect(options: &KafkaOptions) -> Result<Brokers, LogError> {
        let admin = options.client_config().create().map_err(|e| error::of_config(&e))?;
        let asker = options.reader_config().create_with_context(Context::default()).map_err(|e| error::of_config(&e))?;
        Ok(Brokers { admin, asker })
    }

    fn look(&self, plans: &[Plan]) -> Result<Vec<Finding>, LogError> {
        let mut findings = Vec::new();
        for plan in plans {
            findings.extend(match self.find(plan)? {
                Some(found) => judge(plan, &found),
                None => vec![missing(plan)],
            });
        }
        Ok(findings)
    }

    /// Asked by a consumer: a producer that asks for a topic may have it made by the broker.
    fn find(&self, plan: &Plan) -> Result<Option<Found>, LogError> {
        let what = format!("topic {}", plan.name);
        let metadata = self.asker.fetch_metadata(Some(&plan.name), ANSWER).map_err(|e| {
            // What was heard meanwhile is told by polling alone; there is no record to come.
            let _ = self.asker.poll(HEAR);
            error::of(&what, &e, self.asker.context())
        })?;
        let Some(topic) = metadata.topics().first() else { return Ok(None) };
        match topic.error().map(Code::from) {
            None => {}
            Some(Code::UnknownTopicOrPartition) => return Ok(None),
            Some(code) => return Err(error::of_code(&what, code)),
        }
        let settings = self.settings(plan)?.map(|settings| settings.into_iter().map(|(name, (value, _))| (name, value)).collect());
        Ok(Some(Found {
            partitions: topic.partitions().len(),
            replicas: topic.partitions().iter().map(|partition| partition.replicas().len()).min().unwrap_or(0),
            settings,
        }))
    }

    /// `None`: they may not be read. librdkafka's Rust face gives an empty list then.
    fn settings(&self, plan: &Plan) -> Result<Option<Settings>, LogError> {
        let described = wait(self.admin.describe_configs(&[ResourceSpecifier::Topic(&plan.name)], &patience()))?;
        let entries = described.into_iter().flatten().flat_map(|described| described.entries);
        let settings: Settings =
            entries.filter_map(|entry| Some((entry.name, (entry.value?, entry.source == ConfigSource::DynamicTopic)))).collect();
        Ok(Some(settings).filter(|settings| !settings.is_empty()))
    }

    fn create(&self, plan: &Plan, dry: bool) -> Result<(), LogError> {
        let settings = plan.settings();
        let mut topic = NewTopic::new(&plan.name, plan.partitions, TopicReplication::Fixed(plan.replicas));
        for setting in &settings {
            topic = topic.set(setting.name, &setting.value);
        }
        for created in wait(self.admin.create_topics([&topic], &patience().validate_only(dry)))? {
            match created {
                // Somebody else was quicker: what they made is judged as any other.
                Ok(_) | Err((_, Code::TopicAlreadyExists)) => {}
                Err((name, code)) => return Err(not_done(&format!("topic {name} cannot be made"), code)),
            }
        }
        Ok(())
    }

    /// Kafka's older way of setting, the one that librdkafka's Rust face has, takes away what is not named: so what was set
    /// for this topic is named again.
    fn alter(&self, plan: &Plan, changes: &[&Finding], dry: bool) -> Result<(), LogError> {
        let unreadable = || LogError::Refused(format!("topic {}: its settings may not be read; {RIGHTS}", plan.name));
        let found = self.settings(plan)?.ok_or_else(unreadable)?;
        let mut alteration = AlterConfig::new(ResourceSpecifier::Topic(&plan.name));
        for (name, (value, of_topic)) in &found {
            if *of_topic {
                alteration = alteration.set(name, value);
            }
        }
        for change in changes {
            alteration = alteration.set(change.setting, &change.wanted);
        }
        wait(self.admin.alter_configs([&alteration], &patience().validate_only(dry))).map(drop)
    }

    /// Brokers learn of a change a moment after the controller; and librdkafka's Rust face does not tell what was denied.
    fn wait_until_done(&self, plans: &[Plan]) -> Result<(), LogError> {
        let started = Instant::now();
        loop {
            let mut left = self.look(plans)?;
            left.retain(|finding| finding.changeable && finding.verdict != Verdict::Good);
            let Some(Finding { name, setting, .. }) = left.first() else { return Ok(()) };
            if started.elapsed() > ANSWER {
                let what = format!("topic {name}: {setting} was not taken by the brokers; {RIGHTS}");
                return Err(LogError::Refused(what));
            }
            std::thread::sleep(SPREAD);
        }
    }
}

fn patience() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ANSWER)).operation_timeout(Some(ANSWER))
}

fn wait<T>(answer: impl Future<Output = Result<T, KafkaError>>) -> Result<T, LogError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|e| LogError::Io(e.to_string()))?;
    runtime.block_on(answer).map_err(|e| match e.rdkafka_error_code() {
        Some(code) => error::of_code("the brokers", code),
        None => LogError::Io(e.to_string()),
    })
}

fn not_done(what: &str, code: Code) -> LogError {
    match code {
        Code::InvalidReplicationFactor => LogError::Refused(format!("{what}: {code}; there are fewer brokers than log.replicas")),
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => LogError::Refused(format!("{what}: {code}; {RIGHTS}")),
        code => error::of_code(what, code),
    }
}

#[cfg(test)]
mod tests;
