//! A broker's `server.properties`.

use super::{Ports, Secured};
use std::path::Path;

pub fn text(id: usize, own: &Ports, all: &[Ports], folder: &Path, secured: Option<&Secured>, more: &[(String, String)]) -> String {
    let mut lines = vec![
        ("process.roles", "broker,controller".to_owned()),
        ("node.id", id.to_string()),
        ("controller.quorum.voters", voters(all)),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("inter.broker.listener.name", "PLAINTEXT".to_owned()),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL,MTLS:SSL".to_owned()),
        ("log.dirs", folder.join("data").display().to_string()),
    ];
    let (mut listeners, mut advertised) = (Vec::new(), Vec::new());
    let mut listen = |name: &str, at: String, said: Option<String>| {
        listeners.push(format!("{name}://{at}"));
        advertised.extend(said.map(|said| format!("{name}://{said}")));
    };
    listen("PLAINTEXT", own.client.address(), Some(own.client.address()));
    listen("CONTROLLER", own.controller.address(), None);
    if let Some((behind, proxy)) = &own.proxied {
        listen("PROXIED", behind.address(), Some(format!("127.0.0.1:{proxy}")));
    }
    for (name, port) in [("SASL", &own.sasl), ("MTLS", &own.mtls)] {
        if let Some(port) = port {
            listen(name, port.address(), Some(port.address()));
        }
    }
    lines.extend([("listeners", listeners.join(",")), ("advertised.listeners", advertised.join(","))]);
    for (copies, names) in [(all.len(), COPIES), (all.len().div_ceil(2), COPIES_MIN)] {
        lines.extend(names.iter().map(|name| (*name, copies.to_string())));
    }
    lines.extend(FIXED.iter().map(|(name, value)| (*name, (*value).to_owned())));
    if let Some(secured) = secured {
        lines.extend(secured.properties());
    }
    // The last of two lines of one name counts.
    let more = more.iter().map(|(name, value)| (name.as_str(), value.clone()));
    lines.into_iter().chain(more).map(|(name, value)| format!("{name}={value}\n")).collect()
}

fn voters(all: &[Ports]) -> String {
    let voter = |(i, ports): (usize, &Ports)| format!("{}@{}", i + 1, ports.controller.address());
    all.iter().enumerate().map(voter).collect::<Vec<_>>().join(",")
}

const COPIES: &[&str] = &[
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
];
const COPIES_MIN: &[&str] = &["min.insync.replicas", "transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr"];

const FIXED: &[(&str, &str)] = &[
    ("auto.create.topics.enable", "false"),
    ("num.partitions", "1"),
    ("offsets.topic.num.partitions", "5"),
    ("transaction.state.log.num.partitions", "5"),
    ("share.coordinator.state.topic.num.partitions", "5"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.min.session.timeout.ms", "500"),
    // Until the old session ends the controller refuses a broker that was killed: 9 s by default.
    ("broker.session.timeout.ms", "2000"),
    ("broker.heartbeat.interval.ms", "250"),
    // So that a short transaction timeout is soon seen: 10 s by default.
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500"),
    ("log.segment.bytes", "16777216"),
    ("log.cleaner.dedupe.buffer.size", "8388608"),
    ("log.retention.hours", "-1"),
    ("num.network.threads", "2"),
    ("num.io.threads", "4"),
    ("num.recovery.threads.per.data.dir", "2"),
];
