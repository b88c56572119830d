use super::*;
use crate::config::{SaslMechanism, Secret};

fn config(text: &str) -> Result<LogConfig, ConfigError> {
    let config: LogConfig = toml::from_str(text).unwrap();
    config.check().map(|()| config)
}

#[test]
fn a_cluster_is_read_with_its_defaults() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "open sesame\n").unwrap();
    let text = format!(
        "kind = \"kafka\"\nbrokers = [\"a:9092\", \"[::1]:9093\"]\npartitions = 100\ntopics.bad = {{ name = \"rejects\", retention = \"90d\" }}\n\
         tls = {{}}\nsasl = {{ mechanism = \"SCRAM-SHA-512\", username = \"forebay\", password_file = {file:?} }}\n\
         registry.url = \"http://registry:8081/\"\n[client]\nlinger.ms = 3\n\"client.id\" = \"gw-1\"\nsocket.keepalive.enable = true\n"
    );
    let read = config(&text).unwrap();
    let options = read.kafka().unwrap();
    assert_eq!((options.partitions, options.replicas, options.min_insync_replicas), (100, 3, 2));
    let names: Vec<&str> = Topic::ALL.iter().map(|topic| options.name(*topic)).collect();
    let rest = ["forebay.delta", "forebay.windows", "forebay.late", "forebay.repartition"];
    assert_eq!(names, [["forebay.harvested", "forebay.trusted", "rejects"].as_slice(), &rest].concat());
    assert_eq!(options.topics[2].retention, Duration::from_secs(90 * 86_400));
    assert_eq!(options.tls, Some(TlsConfig::default()));
    let sasl = options.sasl.clone().unwrap();
    assert_eq!((sasl.mechanism, &*sasl.username, sasl.password.reveal()), (SaslMechanism::ScramSha512, "forebay", "open sesame"));
    assert_eq!(options.registry.clone().unwrap().url, "http://registry:8081");
    let client: Vec<(&str, &str)> = options.client.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(client, [("client.id", "gw-1"), ("linger.ms", "3"), ("socket.keepalive.enable", "true")]);
    assert_eq!(read.files(), [("log.sasl.password_file", &*file)]);
    assert_eq!(config(&toml::to_string(&read).unwrap()), Ok(read));

    std::fs::remove_file(&file).unwrap();
    assert_eq!(config(&text).unwrap().kafka().unwrap_err().key, "log.sasl.password_file");
}

#[test]
fn a_password_is_shown_to_nobody() {
    let text = "kind = \"kafka\"\nbrokers = [\"a:1\"]\nsasl = { mechanism = \"PLAIN\", username = \"u\", password = \"sesame\" }\n";
    let read = config(text).unwrap();
    let options = read.kafka().unwrap();
    assert_eq!(options.sasl.as_ref().map(|sasl| sasl.password.clone()), Some(Secret::new("sesame".to_owned())));
    for shown in [format!("{read:?}"), format!("{options:?}"), toml::to_string(&read).unwrap()] {
        assert!(shown.contains("hidden") && !shown.contains("sesame"), "{shown}");
    }
}

#[test]
fn what_does_not_fit_is_said_with_its_key() {
    let kafka = "kind = \"kafka\"\nbrokers = [\"a:1\"]\n";
    for (text, key) in [
        ("partitions = 65", "log.partitions"),
        ("brokers = [\"a:1\"]", "log.brokers"),
        ("kind = \"kafka\"", "log.brokers"),
        ("kind = \"kafka\"\nbrokers = [\"a\"]", "log.brokers"),
        ("kind = \"kafka\"\nbrokers = [\"a:1\", \"PLAINTEXT://b:1\"]", "log.brokers"),
        ("kind = \"kafka\"\nbrokers = [\"a:1,b:1\"]", "log.brokers"),
        (&format!("{kafka}replicas = 0"), "log.replicas"),
        (&format!("{kafka}replicas = 1"), "log.min_insync_replicas"),
        (&format!("{kafka}tls.cert_file = \"a\""), "log.tls"),
        (&format!("{kafka}sasl = {{ mechanism = \"PLAIN\", username = \"u\" }}"), "log.sasl.password_file"),
        (&format!("{kafka}registry.url = \"registry:8081\""), "log.registry.url"),
        (&format!("{kafka}registry = {{ url = \"http://r\", password = \"x\" }}"), "log.registry.username"),
        (&format!("{kafka}topics.bad.name = \"a b\""), "log.topics.bad.name"),
        (&format!("{kafka}topics.delta.name = \"forebay.bad\""), "log.topics.delta.name"),
    ] {
        assert_eq!(config(text).map_err(|e| e.key), Err(key), "{text}");
    }
    let both = "sasl = { mechanism = \"PLAIN\", username = \"u\", password = \"x\", password_file = \"y\" }";
    assert_eq!(config(&format!("{kafka}{both}")).unwrap().kafka().unwrap_err().key, "log.sasl.password");
}

#[test]
fn properties_that_the_laws_need_are_not_to_be_set() {
    for (line, said) in [
        ("acks = \"0\"", "acks is fixed by what Forebay promises"),
        ("enable.idempotence = false", "enable.idempotence is fixed"),
        ("isolation.level = \"read_uncommitted\"", "isolation.level is fixed"),
        ("auto.offset.reset = \"latest\"", "auto.offset.reset is fixed"),
        ("sasl.password = \"x\"", "sasl.password is set by log.sasl"),
        ("ssl.key.password = \"x\"", "ssl.key.password is set by log.tls"),
        ("bootstrap.servers = \"x\"", "bootstrap.servers is set by log.brokers"),
        ("linger.msec = 1", "librdkafka says: No such configuration property: \"linger.msec\""),
        ("linger.ms = \"soon\"", "librdkafka says: Invalid value for configuration property"),
        ("linger = [1]", "a property of librdkafka: text, a number or a truth"),
    ] {
        let error = toml::from_str::<LogConfig>(&format!("kind = \"kafka\"\n[client]\n{line}\n")).unwrap_err().to_string();
        assert!(error.contains(said), "{line}: {error}");
    }
}
