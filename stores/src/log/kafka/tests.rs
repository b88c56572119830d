//! The suite of every log, on a real broker, and what is this form's own (`tests/`).

mod own;
mod faults;
mod secured;

use super::*;
use crate::config::LogConfig;
use crate::log::conformance::{self, Opened, at, committed, entry, read_all, values};
use forebay_services::Kafka;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::{Offset, TopicPartitionList};
use std::sync::atomic::{AtomicU32, Ordering};

/// Options for topics that no other test has, at these brokers (`host:port,…`), with lines of `[log]` beside.
fn options_at(brokers: &str, partitions: i32, more: &str) -> KafkaOptions {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let prefix = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let brokers: Vec<&str> = brokers.split(',').collect();
    let names: String = Topic::ALL.map(|topic| format!("topics.{0}.name = \"{prefix}.{0}\"\n", topic.word())).concat();
    let text =
        format!("kind = \"kafka\"\nbrokers = {brokers:?}\npartitions = {partitions}\nreplicas = 1\nmin_insync_replicas = 1\n{names}{more}");
    toml::from_str::<LogConfig>(&text).unwrap().kafka().unwrap()
}

/// Made topics and a log on them.
fn fresh_at(brokers: &str) -> (KafkaOptions, KafkaLog) {
    let options = options_at(brokers, 2, "");
    topics::apply(&options, false).unwrap();
    let log = KafkaLog::connect(options.clone()).unwrap();
    (options, log)
}

fn drop_before(options: &KafkaOptions, at: TopicPartition, offset: i64) {
    let admin: AdminClient<DefaultClientContext> = options.client_config().create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(options.name(at.topic), at.partition, Offset::Offset(offset)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let deleted = runtime.block_on(admin.delete_records(&list, &AdminOptions::new())).unwrap();
    deleted.elements().iter().for_each(|element| element.error().unwrap());
}

struct Form(&'static Kafka);

struct OnBroker {
    options: KafkaOptions,
    log: Option<KafkaLog>,
}

impl conformance::Form for Form {
    fn fresh(&self) -> Box<dyn Opened> {
        let (options, log) = fresh_at(&self.0.brokers());
        Box::new(OnBroker { options, log: Some(log) })
    }
    fn cases(&self) -> u32 {
        4
    }
}

impl Opened for OnBroker {
    fn log(&self) -> &dyn Log {
        self.log.as_ref().unwrap()
    }
    fn reopen(&mut self) {
        self.log = None;
        self.log = Some(KafkaLog::connect(self.options.clone()).unwrap());
    }
    fn drop_before(&self, at: TopicPartition, offset: i64) {
        drop_before(&self.options, at, offset);
    }
    fn is_local(&self) -> bool {
        false
    }
}

const HARVESTED: TopicPartition = TopicPartition { topic: Topic::Harvested, partition: 0 };
const TRUSTED: TopicPartition = TopicPartition { topic: Topic::Trusted, partition: 1 };

#[test]
fn conforms() {
    conformance::suite(&Form(Kafka::shared()));
}
