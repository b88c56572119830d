//! Each service starts, answers clients that others wrote, and comes back from what is done to it.

use forebay_services::{Kafka, KafkaSpec, Registry, S3, Secured, Toxiproxy, java};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const LIST: [&str; 5] = ["-L", "-t", "events", "-m", "5"];
const LEADER: &str = "partition 0, leader 1";

fn kcat(brokers: &str, args: &[&str], input: &str) -> Result<String, String> {
    let mut command = Command::new("kcat");
    command.args(["-b", brokers]).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kcat starts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("an end");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn kafka_keeps_what_it_took_through_a_cut_and_a_kill() {
    let kafka = Kafka::start(KafkaSpec::default()).unwrap();
    kafka.create_topic("events", 1, &["cleanup.policy=delete"]).unwrap();
    let through = kafka.proxied();
    kcat(&through, &["-P", "-t", "events", "-X", "acks=all"], "one\n").unwrap();
    kafka.cut(1).unwrap();
    kcat(&through, &["-P", "-t", "events", "-X", "message.timeout.ms=500"], "lost\n").unwrap_err();
    kafka.heal(1).unwrap();
    kcat(&through, &["-P", "-t", "events", "-X", "acks=all"], "two\n").unwrap();
    kafka.kill(1).unwrap();
    kafka.restart(1).unwrap();
    assert_eq!(kcat(&kafka.brokers(), &["-C", "-t", "events", "-e", "-q"], "").unwrap(), "one\ntwo\n");
}

#[test]
fn three_nodes_lose_one_and_take_more() {
    let kafka = Kafka::start(KafkaSpec { nodes: 3, ..KafkaSpec::default() }).unwrap();
    kafka.create_topic("events", 3, &[]).unwrap();
    kafka.kill(2).unwrap();
    let lines = (0..30).map(|i| format!("{i}:{i}\n")).collect::<String>();
    kcat(&kafka.brokers(), &["-P", "-t", "events", "-K:", "-X", "acks=all"], &lines).unwrap();
    kafka.restart(2).unwrap();
    let read = kcat(&kafka.brokers(), &["-C", "-t", "events", "-e", "-q"], "").unwrap();
    assert_eq!(read.lines().count(), 30);
}

#[test]
fn a_secured_kafka_knows_its_users() {
    let kafka = Kafka::start(KafkaSpec { secured: true, proxied: false, ..KafkaSpec::default() }).unwrap();
    kafka.create_topic("events", 1, &[]).unwrap();
    let secured = kafka.secured().unwrap();
    let ca = format!("ssl.ca.location={}", secured.ca_file.display());
    let list = |(user, password): (&str, &str)| {
        let user = format!("sasl.username={user}");
        let password = format!("sasl.password={password}");
        let settings = [&ca, "security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", &user, &password];
        let args = settings.into_iter().flat_map(|setting| ["-X", setting]).chain(LIST).collect::<Vec<_>>();
        kcat(&kafka.sasl(), &args, "")
    };
    assert!(list(Secured::ADMIN).unwrap().contains(LEADER));
    assert!(!list(Secured::USER).unwrap().contains(LEADER));
    list(("forebay", "guess")).unwrap_err();
    let may = ["--add", "--allow-principal", "User:forebay", "--operation", "All", "--topic", "events"];
    kafka.tool("org.apache.kafka.tools.AclCommand", &may).unwrap();
    assert!(list(Secured::USER).unwrap().contains(LEADER));

    // Debian's librdkafka and Kafka do not agree on SCRAM.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("client.properties");
    let module = "org.apache.kafka.common.security.scram.ScramLoginModule required username=forebay password=\"forebay-secret\";";
    let tls = format!("ssl.truststore.type=PEM\nssl.truststore.location={}\nsecurity.protocol=SASL_SSL\n", secured.ca_file.display());
    std::fs::write(&file, format!("{tls}sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={module}\n")).unwrap();
    let mut command = java::class("org.apache.kafka.tools.TopicCommand", 128).unwrap();
    command.args(["--list", "--bootstrap-server", &kafka.sasl(), "--command-config"]).arg(file);
    assert_eq!(java::run(command).unwrap(), "events\n");

    let settings = [
        ca.clone(),
        "security.protocol=SSL".to_owned(),
        format!("ssl.certificate.location={}", secured.cert_file.display()),
        format!("ssl.key.location={}", secured.key_file.display()),
    ];
    let args = settings.iter().flat_map(|setting| ["-X", setting]).chain(LIST).collect::<Vec<_>>();
    assert!(kcat(&kafka.mtls(), &args, "").unwrap().contains(LEADER));
}

#[test]
fn s3_keeps_what_it_took_through_a_kill() {
    let s3 = S3::start().unwrap();
    s3.create_bucket("bucket").unwrap();
    s3.create_bucket("bucket").unwrap();
    java::run(s3.curl("/bucket/a/b", &["-X", "PUT", "--data-binary", "body"])).unwrap();
    let again = s3.curl("/bucket/a/b", &["-X", "PUT", "-H", "if-none-match: *", "--data-binary", "other"]);
    assert!(java::run(again).unwrap_err().0.contains("PreconditionFailed"));
    s3.kill();
    s3.restart().unwrap();
    assert_eq!(java::run(s3.curl("/bucket/a/b", &[])).unwrap(), "body");

    let proxies = Toxiproxy::start().unwrap();
    let port = proxies.proxy("s3", &s3.address()).unwrap();
    let health = || {
        let url = format!("http://127.0.0.1:{port}/healthz");
        Command::new("curl").args(["--silent", "--max-time", "2", &url]).status().unwrap().success()
    };
    assert!(health());
    proxies.toxic("s3", "timeout", "downstream", &json!({ "timeout": 0 })).unwrap();
    assert!(!health());
    proxies.heal("s3").unwrap();
    proxies.cut("s3").unwrap();
    assert!(!health());
    proxies.heal("s3").unwrap();
    assert!(health());
}

#[test]
fn the_registry_gives_the_same_ids_after_a_kill() {
    let registry = Registry::start().unwrap();
    let ask = |target: &str, body: Option<&str>| {
        let mut command = Command::new("curl");
        command.args(["--silent", &format!("{}{target}", registry.url())]);
        command.args(body.into_iter().flat_map(|body| ["-X", "POST", "--data", body]));
        serde_json::from_str::<serde_json::Value>(&java::run(command).unwrap()).unwrap()
    };
    for (subject, schema, id) in [("b-value", "long", 1), ("a-value", "string", 2), ("c-value", "long", 1)] {
        let body = json!({ "schema": format!("\"{schema}\""), "schemaType": "AVRO" }).to_string();
        assert_eq!(ask(&format!("/subjects/{subject}/versions?normalize=false"), Some(&body)), json!({ "id": id }));
    }
    registry.kill();
    registry.restart().unwrap();
    assert_eq!(ask("/schemas/ids/2?fetchMaxId=false&subject=", None), json!({ "schema": "\"string\"" }));
    assert_eq!(ask("/subjects/c-value/versions/latest?deleted=false", None)["id"], 1);
    assert_eq!(ask("/subjects/none-value/versions/latest", None)["error_code"], 40401);
}

#[test]
fn java_runs_a_source_file_with_the_jars() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Oracle.java");
    let text = "import org.apache.avro.*;
        class Oracle { public static void main(String[] args) {
            System.out.print(SchemaNormalization.parsingFingerprint64(new Schema.Parser().parse(args[0])));
        } }";
    std::fs::write(&file, text).unwrap();
    let mut command = java::source(Path::new(&file)).unwrap();
    command.arg("\"string\"");
    // The fingerprint of the specification's own example.
    assert_eq!(java::run(command).unwrap(), (-8_142_146_995_180_207_161_i64).to_string());
}
