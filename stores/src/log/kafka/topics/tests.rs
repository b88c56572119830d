use super::*;
use crate::config::LogConfig;
use forebay_services::{Kafka, KafkaSpec, Secured};

/// Topics of this test alone, whose names begin with `name`.
fn options(kafka: &Kafka, name: &str, more: &str) -> KafkaOptions {
    let names: String = Topic::ALL.iter().map(|topic| format!("topics.{}.name = \"{name}.{}\"\n", topic.word(), topic.word())).collect();
    let text = format!("kind = \"kafka\"\nbrokers = [\"{}\"]\nreplicas = 1\nmin_insync_replicas = 1\n{names}{more}", kafka.brokers());
    toml::from_str::<LogConfig>(&text).unwrap().kafka().unwrap()
}

fn not_good(options: &KafkaOptions) -> Vec<(String, &'static str, Option<String>)> {
    let findings = check(options, &Topic::ALL).unwrap().into_iter();
    findings.filter(|finding| finding.verdict != Verdict::Good).map(|finding| (finding.name, finding.setting, finding.found)).collect()
}

#[test]
fn missing_topics_are_told_and_made() {
    let kafka = Kafka::shared();
    let options = options(kafka, "made", "partitions = 3\ntopics.bad.max_bytes = \"3GiB\"\n");
    let missing: Vec<_> = Topic::ALL.iter().map(|topic| (format!("made.{}", topic.word()), "topic", None)).collect();
    assert_eq!(not_good(&options), missing);

    let would = apply(&options, true).unwrap();
    assert!(would.len() == Topic::ALL.len() && would.iter().all(|finding| finding.changeable));
    assert_eq!(not_good(&options), missing);

    assert_eq!(apply(&options, false).unwrap(), would);
    assert_eq!(not_good(&options), []);
    assert_eq!(apply(&options, false).unwrap(), []);
    let told = kafka.tool("org.apache.kafka.tools.TopicCommand", &["--describe", "--topic", "made.bad"]).unwrap();
    for wanted in [
        "PartitionCount: 3",
        "cleanup.policy=delete",
        "message.timestamp.type=LogAppendTime",
        "retention.ms=2592000000",
        "retention.bytes=1073741824",
        "max.message.bytes=8454144",
        "unclean.leader.election.enable=false",
        "min.insync.replicas=1",
        "compression.type=producer",
        "segment.ms=86400000",
    ] {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
}

#[test]
fn what_is_wrong_is_refused_and_only_what_may_be_is_set() {
    let kafka = Kafka::shared();
    let options = options(kafka, "wrong", "");
    for (topic, partitions, configs) in [
        ("wrong.harvested", 4, &["retention.ms=3600000", "segment.ms=86400000", "min.insync.replicas=1", "max.message.bytes=8454144"][..]),
        ("wrong.trusted", 5, &[]),
        ("wrong.bad", 4, &["cleanup.policy=compact"]),
        ("wrong.delta", 4, &["unclean.leader.election.enable=true", "retention.ms=518400000", "delete.retention.ms=1234567"]),
    ] {
        kafka.create_topic(topic, partitions, configs).unwrap();
    }
    let refused = |finding: &Finding| matches!(finding.verdict, Verdict::Refused(_)).then(|| (finding.name.clone(), finding.setting));
    let made = [Topic::Harvested, Topic::Trusted, Topic::Bad, Topic::Delta];
    let all: Vec<_> = check(&options, &made).unwrap().iter().filter_map(refused).collect();
    let of = |name: &str, settings: &[&'static str]| settings.iter().map(|setting| (format!("wrong.{name}"), *setting)).collect::<Vec<_>>();
    let wrong = [
        of("harvested", &["message.timestamp.type", "retention.ms"]),
        of("trusted", &["partitions", "message.timestamp.type", "max.message.bytes"]),
        of("bad", &["cleanup.policy", "message.timestamp.type", "max.message.bytes"]),
        // A delta is needed for the whole of the retention that is configured: seven days.
        of("delta", &["message.timestamp.type", "unclean.leader.election.enable", "max.message.bytes", "retention.ms"]),
    ];
    assert_eq!(all, wrong.concat());

    apply(&options, false).unwrap();
    let left: Vec<_> = not_good(&options).into_iter().map(|(name, setting, found)| (name, setting, found.unwrap())).collect();
    let stays = |name: &str, setting, found: &str| (format!("wrong.{name}"), setting, found.to_owned());
    assert_eq!(left, [stays("trusted", "partitions", "5"), stays("bad", "cleanup.policy", "compact")]);
    // What the table does not speak of stays as somebody has set it.
    let told = kafka.tool("org.apache.kafka.tools.TopicCommand", &["--describe", "--topic", "wrong.delta"]).unwrap();
    assert!(told.contains("delete.retention.ms=1234567") && told.contains("retention.ms=604800000"), "{told}");
}

#[test]
fn a_longer_retention_is_kept() {
    let kafka = Kafka::shared();
    let long = options(kafka, "long", "topics.harvested.retention = \"30d\"\n");
    apply(&long, false).unwrap();
    let short = options(kafka, "long", "topics.harvested.retention = \"2d\"\n");
    assert_eq!(apply(&short, false).unwrap(), []);
    assert_eq!(not_good(&long), []);
}

#[test]
fn more_replicas_than_brokers_are_refused() {
    let options = options(Kafka::shared(), "replicas", "");
    let options = KafkaOptions { replicas: 3, min_insync_replicas: 2, ..options };
    assert!(
        matches!(apply(&options, false), Err(LogError::Refused(said)) if said.contains("replicas.harvested cannot be made") && said.contains("fewer brokers"))
    );
}

/// A broker that would make a topic of any name that it hears is given none to make.
#[test]
fn asking_makes_no_topic() {
    let properties = vec![("auto.create.topics.enable".to_owned(), "true".to_owned())];
    let kafka = Kafka::start(KafkaSpec { properties, proxied: false, ..KafkaSpec::default() }).unwrap();
    let options = options(&kafka, "asked", "");
    assert_eq!(not_good(&options).len(), Topic::ALL.len());
    let list = kafka.tool("org.apache.kafka.tools.TopicCommand", &["--list"]).unwrap();
    assert!(!list.contains("asked."), "{list}");
}

#[test]
fn no_broker_is_no_answer() {
    let port = forebay_services::Port::free().unwrap();
    let options = options(Kafka::shared(), "nobody", "");
    let options = KafkaOptions { brokers: vec![port.address()], ..options };
    assert!(matches!(check(&options, &Topic::ALL), Err(LogError::Io(_))));
}

/// H11: what is denied is said before anything is written, and what may not be read is not taken for good.
#[test]
fn rights_that_are_missing_are_said() {
    let kafka = Kafka::start(KafkaSpec { secured: true, proxied: false, ..KafkaSpec::default() }).unwrap();
    let as_user = |password: &str| {
        let (user, ca) = (Secured::USER.0, &kafka.secured().unwrap().ca_file);
        let more =
            format!("tls.ca_file = {ca:?}\nsasl = {{ mechanism = \"SCRAM-SHA-256\", username = \"{user}\", password = \"{password}\" }}\n");
        KafkaOptions { brokers: vec![kafka.sasl()], ..options(&kafka, "denied", &more) }
    };
    let user = as_user(Secured::USER.1);
    apply(&options(&kafka, "denied", ""), false).unwrap();
    let refused = |options: &KafkaOptions| match check(options, &Topic::ALL) {
        Err(LogError::Refused(said)) => said,
        other => panic!("{other:?}"),
    };
    let said = refused(&as_user("wrong"));
    assert!(said.contains("see log.sasl") && !said.contains("wrong"), "{said}");
    assert!(refused(&user).contains("denied.harvested"));

    let allow = |operation: &str| {
        let args = [
            "--add",
            "--allow-principal",
            "User:forebay",
            "--operation",
            operation,
            "--topic",
            "denied.",
            "--resource-pattern-type",
            "prefixed",
        ];
        kafka.tool("org.apache.kafka.tools.AclCommand", &args).unwrap();
    };
    allow("Describe");
    let unreadable: Vec<_> =
        Topic::ALL.map(|topic| (format!("denied.{}", topic.word()), "settings", Some("not readable".to_owned()))).into();
    assert_eq!(not_good(&user), unreadable);
    allow("DescribeConfigs");
    assert_eq!(not_good(&user), []);
    let more = KafkaOptions { min_insync_replicas: 2, ..user };
    assert!(
        matches!(apply(&more, false), Err(LogError::Refused(said)) if said.contains("denied.harvested: min.insync.replicas was not taken"))
    );
}

#[test]
fn schemas_are_registered_with_the_topics() {
    let server = forebay_services::Registry::start().unwrap();
    let options = options(Kafka::shared(), "registered", &format!("registry.url = \"{}\"\n", server.url()));
    let schemas = |verdict: Verdict| {
        let findings = check(&options, &Topic::ALL).unwrap();
        let of: Vec<&Finding> = findings.iter().filter(|finding| finding.setting == "schema").collect();
        assert!(of.len() == Topic::ALL.len() && of.iter().all(|finding| finding.verdict == verdict), "{of:?}");
    };
    schemas(Verdict::Differs);
    assert_eq!(apply(&options, true).unwrap().len(), 2 * Topic::ALL.len());
    schemas(Verdict::Differs);
    apply(&options, false).unwrap();
    schemas(Verdict::Good);
    assert_eq!(apply(&options, false).unwrap(), []);
    // Parts start without it.
    server.kill();
    schemas(Verdict::Unknown);
}
