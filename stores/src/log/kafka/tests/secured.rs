//! Brokers that ask who comes, and allow little.

use super::*;
use crate::log::{CommitError, Transaction};
use forebay_services::{KafkaSpec, Secured};

const ACL: &str = "org.apache.kafka.tools.AclCommand";

fn refused<T>(result: Result<T, LogError>, said: &str) {
    match result {
        Err(LogError::Refused(text)) => assert!(text.contains(said), "{text}"),
        Err(other) => panic!("{said}: {other}"),
        Ok(_) => panic!("{said}: it was allowed"),
    }
}

#[test]
fn only_what_is_allowed_is_done_and_the_rest_is_named() {
    let kafka = Kafka::start(KafkaSpec { secured: true, proxied: false, ..KafkaSpec::default() }).unwrap();
    let files = kafka.secured().unwrap();
    let (user, password) = Secured::USER;
    let sasl = |mechanism: &str, password: &str| {
        format!(
            "tls.ca_file = {:?}\nsasl = {{ mechanism = \"{mechanism}\", username = \"{user}\", password = \"{password}\" }}\n",
            files.ca_file
        )
    };
    let own = options_at(&kafka.brokers(), 2, "");
    topics::apply(&own, false).unwrap();
    let with = |brokers: String, more: &str| {
        let options = KafkaOptions { topics: own.topics.clone(), ..options_at(&brokers, 2, more) };
        KafkaLog::connect(options).unwrap()
    };
    refused(with(kafka.sasl(), &sasl("SCRAM-SHA-256", "wrong")).bounds(HARVESTED), "log.sasl");

    let log = with(kafka.sasl(), &sasl("SCRAM-SHA-512", password));
    refused(log.append(vec![(HARVESTED, entry("x"))]), "of [log.topics]");
    refused(log.bounds(HARVESTED), "of [log.topics]");
    let principal = format!("User:{user}");
    let allow = |args: &[&str]| {
        kafka.tool(ACL, &[&["--add", "--allow-principal", &principal, "--operation", "Describe"], args].concat()).unwrap();
    };
    let prefix = own.name(Topic::Harvested).split('.').next().unwrap();
    allow(&["--operation", "Read", "--topic", prefix, "--resource-pattern-type", "prefixed"]);
    assert_eq!(log.bounds(HARVESTED).unwrap().end, 0);
    refused(log.append(vec![(HARVESTED, entry("x"))]), "of [log.topics]");
    refused(log.lane("job/0"), "transactional ids that begin with enricher.job");
    refused(log.committed("job/0", HARVESTED), "groups that begin with enricher.job");

    allow(&["--operation", "Write", "--topic", own.name(Topic::Harvested)]);
    allow(&["--operation", "Write", "--transactional-id", "job/", "--resource-pattern-type", "prefixed"]);
    log.append(vec![(HARVESTED, entry("x"))]).unwrap();
    let mut lane = log.lane("job/0").unwrap();
    let outputs = vec![(TRUSTED, entry("y"))];
    let commit = Transaction { outputs: outputs.clone(), offsets: vec![(HARVESTED, committed(1, "seq=1"))] };
    let denied = |result: Result<(), CommitError>| assert!(matches!(&result, Err(CommitError::Refused(_))), "{result:?}");
    denied(lane.commit(commit.clone()));
    allow(&["--operation", "Write", "--topic", own.name(Topic::Trusted)]);
    denied(log.lane("job/0").unwrap().commit(commit.clone()));
    allow(&["--operation", "Read", "--group", "job/", "--resource-pattern-type", "prefixed"]);
    let mut lane = log.lane("job/0").unwrap();
    assert_eq!(lane.committed(HARVESTED).unwrap(), None, "nothing of what was refused");
    lane.commit(commit).unwrap();

    // The same user by another mechanism, and by a certificate.
    let certificate =
        format!("tls = {{ ca_file = {:?}, cert_file = {:?}, key_file = {:?} }}\n", files.ca_file, files.cert_file, files.key_file);
    for log in [with(kafka.sasl(), &sasl("PLAIN", password)), with(kafka.mtls(), &certificate)] {
        assert_eq!(log.committed("job/0", HARVESTED).unwrap(), Some(committed(1, "seq=1")));
        assert_eq!((values(&read_all(&log, HARVESTED)), values(&read_all(&log, TRUSTED))), (vec!["x".to_owned()], vec!["y".to_owned()]));
    }
    // Who signed the brokers' certificates is not known.
    let unknown = with(kafka.mtls(), "tls = {}\n").bounds(HARVESTED);
    assert!(matches!(&unknown, Err(LogError::Io(text)) if text.contains("certificate")), "{unknown:?}");
}
