//! The three roles as processes of their own: what each does when what it stands on is away, refuses, or belongs to another;
//! how each ends; what it is asked and told. The black-box tests of the other files run on them too (`on_both`).

use crate::harness::cluster::{Cluster, ENRICHER, Services, VIEW_TOKEN, shared};
use crate::harness::{System, binary, column, http, repository};
use forebay_services::{Kafka, KafkaSpec, S3};
use serde_json::{Value, json};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

fn event(id: &str) -> Value {
    json!({"event_id": id, "event_type": "product_viewed", "anonymous_id": "a", "properties": {"product_id": "sku-1"}})
}

/// Services of this file's own: what is done to them must not meet other tests.
fn own(kafka: &Kafka) -> Services {
    static BUCKETS: LazyLock<S3> = LazyLock::new(|| S3::start().expect("the S3 server starts"));
    Services { brokers: kafka.brokers(), endpoint: BUCKETS.endpoint(), s3: &BUCKETS }
}

#[test]
fn a_broker_that_is_away_stops_no_acknowledgement_and_is_waited_for() {
    let kafka = Kafka::start(KafkaSpec { proxied: false, ..KafkaSpec::default() }).expect("Kafka starts");
    let mut cluster = Cluster::on(own(&kafka), "[gateway]\nspool.segment_age = \"1s\"\n");
    kafka.kill(1).expect("killed");

    for role in &mut cluster.roles {
        role.spawn();
    }
    cluster.gateway().wait_ready();
    cluster.accepted("/v1/events", &event("before"));
    cluster.enricher().wait_not_ready("log");
    cluster.sink().wait_not_ready("log");
    assert!(cluster.gateway().is_ready(), "it acknowledges");
    cluster.gateway().wait_note("log");

    // What is left on disk when it must stop meanwhile is told, and a second signal does not wait for the broker.
    let gateway = cluster.gateway();
    gateway.process.signal(rustix::process::Signal::TERM);
    gateway.process.wait("the drain to begin", |process| process.log().contains("a second signal stops now"));
    gateway.process.signal(rustix::process::Signal::TERM);
    assert_eq!(gateway.process.wait_end(), 3, "{}", gateway.process.log());
    assert!(gateway.process.log().contains("left on disk"), "{}", gateway.process.log());

    kafka.restart(1).expect("restarted");
    cluster.start();
    cluster.accepted("/v1/events", &event("after"));
    assert_eq!(cluster.settled().of("trusted"), 2);
    assert_eq!(column(&cluster.tail("trusted"), "event_id"), ["after", "before"]);

    // Away again, of running roles.
    kafka.kill(1).expect("killed");
    cluster.enricher().wait_not_ready("log");
    cluster.sink().wait_not_ready("log");
    cluster.accepted("/v1/events", &event("meanwhile"));
    assert!(cluster.gateway().is_ready());
    kafka.restart(1).expect("restarted");
    cluster.start();
    assert_eq!(cluster.settled().of("trusted"), 3);
    assert_eq!(cluster.stop(), 0, "{}", cluster.log());
    assert_eq!(column(&cluster.table("pyiceberg"), "event_id"), ["after", "before", "meanwhile"]);
}

#[test]
fn a_bucket_that_is_away_stops_no_acknowledgement_and_is_waited_for() {
    static BUCKETS: LazyLock<S3> = LazyLock::new(|| S3::start().expect("the S3 server starts"));
    let services = Services { endpoint: BUCKETS.endpoint(), s3: &BUCKETS, ..shared() };
    let mut cluster = Cluster::on(services, "[gateway]\nspool.segment_age = \"1s\"\n");
    BUCKETS.kill();
    for role in &mut cluster.roles {
        role.spawn();
    }
    cluster.gateway().wait_ready();
    cluster.enricher().wait_ready();
    cluster.accepted("/v1/events", &event("before"));
    cluster.sink().wait_not_ready("objects");
    cluster.gateway().wait_note("object");
    assert!(cluster.gateway().is_ready());
    assert_eq!(cluster.settled().of("trusted"), 1, "the path to trusted does not stand on the bucket");
    BUCKETS.restart().expect("restarted");
    cluster.start();
    assert_eq!(cluster.stop(), 0, "{}", cluster.log());
    assert_eq!(column(&cluster.table("pyiceberg"), "event_id"), ["before"]);
    assert_eq!(cluster.raw().len(), 1);
}

#[test]
fn topics_that_are_not_there_end_who_reads_them_and_not_who_acknowledges() {
    let mut cluster = Cluster::unapplied(shared(), "");
    for role in &mut cluster.roles {
        role.spawn();
    }
    for role in 1..3 {
        let process = &mut cluster.roles[role].process;
        assert_eq!(process.wait_end(), 1, "{}", process.log());
        assert!(process.log().contains("forebay topics apply"), "{}", process.log());
    }
    cluster.gateway().wait_ready();
    cluster.accepted("/v1/events", &event("kept"));
    cluster.run(&["topics", "apply"]);
    cluster.start();
    assert_eq!(cluster.settled().of("trusted"), 1);
}

#[test]
fn other_partitions_than_configured_are_refused() {
    let cluster = Cluster::new("");
    let mut second = cluster.second(ENRICHER, &[("FOREBAY__LOG__PARTITIONS", "8")]);
    second.spawn();
    assert_eq!(second.process.wait_end(), 1, "{}", second.process.log());
    assert!(second.process.log().contains("partitions"), "{}", second.process.log());
}

#[test]
fn the_enricher_whose_lanes_another_takes_ends_with_1() {
    let mut cluster = Cluster::with("", &[]);
    cluster.accepted("/v1/events", &event("first"));
    cluster.settled();
    let mut second = cluster.second(ENRICHER, &[]);
    second.start();
    let first = &mut cluster.enricher().process;
    assert_eq!(first.wait_end(), 1, "{}", first.log());
    assert!(first.log().contains("another process runs this lane"), "{}", first.log());
    cluster.accepted("/v1/events", &event("first"));
    cluster.accepted("/v1/events", &event("second"));
    std::mem::swap(&mut cluster.roles[ENRICHER], &mut second);
    let totals = cluster.settled();
    assert_eq!((totals.of("trusted"), totals.of("duplicate")), (2, 1));
    assert_eq!(cluster.stop(), 0, "{}", cluster.log());
}

#[test]
fn each_role_is_asked_by_token_or_not_at_all() {
    let mut cluster = Cluster::with("", &[]);
    cluster.accepted("/v1/events", &event("e-1"));
    cluster.settled();
    let target = "/api/log/trusted?from=earliest&count=1";
    for role in &cluster.roles {
        let status = |target: &str, token: Option<&str>| http::get(&role.admin, target, token).expect("an answer").status;
        for open in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(status(open, None), 200, "{} {open}", role.name);
        }
        assert_eq!((status(target, None), status(target, Some("wrong"))), (401, 401), "{}", role.name);
        assert_eq!(status(target, Some(VIEW_TOKEN)), 200, "{}", role.name);
    }
    // A sink's configuration without tokens.
    let text = std::fs::read_to_string(&cluster.config).expect("written");
    let mut table: toml::Table = text.parse().expect("TOML");
    table.remove("admin");
    std::fs::write(&cluster.config, table.to_string()).expect("written");
    let sink = cluster.sink();
    assert_eq!(sink.process.stop(), 0);
    sink.start();
    let closed = http::get(&sink.admin, target, Some("any")).expect("an answer");
    assert_eq!(closed.status, 404);
    assert!(closed.text().contains("admin.token_file"), "{}", closed.text());
    assert_eq!(sink.process.stop(), 0);
    sink.set_env(&[("FOREBAY_TOKEN", "of-the-environment")]);
    sink.start();
    assert_eq!(http::get(&sink.admin, target, Some("of-the-environment")).expect("an answer").status, 200);
}

#[test]
fn a_configuration_that_a_role_cannot_run_on_exits_2_and_names_the_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("forebay.toml");
    let kafka = "[log]\nkind = \"kafka\"\nbrokers = [\"127.0.0.1:1\"]\n";
    let keyed = "[[source]]\nname = \"a\"\nwrite_keys = [\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"]\n";
    for (role, text, key) in [
        (&["gateway"][..], String::new(), "log.kind"),
        (&["enricher"], String::new(), "log.kind"),
        (&["sink", "table"], String::new(), "log.kind"),
        (&["gateway"], "[log]\nkind = \"kafka\"\n".to_owned(), "log.brokers"),
        (&["gateway"], format!("{kafka}[gateway]\nlisten = \"0.0.0.0:0\"\n"), "gateway.listen"),
        (&["gateway"], format!("{kafka}[gateway]\nadmin = \"0.0.0.0:0\"\n{keyed}"), "gateway.admin"),
        (&["gateway"], format!("{kafka}[log.tls]\nca_file = \"/nowhere/ca.pem\"\n"), "log.tls.ca_file"),
        (&["gateway"], format!("{kafka}[admin]\ntoken_file = \"/nowhere/token\"\n"), "admin.token_file"),
        (&["gateway"], format!("{kafka}[objects]\nkind = \"s3\"\n"), "objects.bucket"),
        (&["enricher"], kafka.to_owned(), "catalog.keys.mask_file"),
        (&["enricher"], format!("{kafka}[catalog]\nkeys.mask_file = \"/nowhere/mask.key\"\n"), "catalog.keys.mask_file"),
        (&["enricher"], format!("{kafka}[enricher]\nlanes = 5\n"), "enricher.lanes"),
        (&["sink", "table"], format!("{kafka}[sink.table]\nadmin = \"0.0.0.0:0\"\n"), "sink.table.admin"),
        (&["sink", "table"], format!("{kafka}[sink.table]\nwarehouse = \"s3://b/w\"\n"), "sink.table.warehouse"),
    ] {
        std::fs::write(&path, &text).expect("written");
        let output = Command::new(binary()).args(role).arg("--config").arg(&path).current_dir(folder.path()).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{role:?} {text}: {errors}");
        assert!(errors.contains(&format!("{key}: ")) && errors.contains("forebay.toml"), "{role:?} {text}: {errors}");
    }
    let output = Command::new(binary()).args(["sink", "paper"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is table"));
}

#[test]
fn systemd_is_told_of_start_and_stop() {
    let mut cluster = Cluster::new("");
    let path = cluster.folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(crate::harness::PATIENCE)).expect("set");
    let told = || {
        let mut text = [0; 64];
        let length = socket.recv(&mut text).expect("told");
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let gateway = cluster.gateway();
    gateway.set_env(&[("NOTIFY_SOCKET", path.to_str().expect("a path"))]);
    gateway.spawn();
    assert_eq!(told(), "READY=1");
    assert_eq!(gateway.process.stop(), 0);
    assert_eq!(told(), "STOPPING=1");
}

/// The units' own commands, on a file in the place of /etc's.
#[test]
fn the_units_commands_run() {
    let mut cluster = Cluster::new("");
    for (role, unit) in ["forebay-gateway", "forebay-enricher", "forebay-sink-table"].into_iter().enumerate() {
        let path = repository().join("deploy/systemd").join(format!("{unit}.service"));
        let text = std::fs::read_to_string(&path).expect("a unit");
        let commands: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("ExecStart=")).collect();
        let [command] = commands[..] else { panic!("{unit}: {commands:?}") };
        let arguments = command.strip_prefix("/usr/bin/forebay ").expect("the binary's place");
        let config = cluster.config.to_str().expect("a path").to_owned();
        let arguments = arguments.split(' ').map(|a| if a == "/etc/forebay/forebay.toml" { config.clone() } else { a.to_owned() });
        cluster.roles[role].process.set_arguments(arguments.map(Into::into).collect());
    }
    cluster.start();
    cluster.accepted("/v1/events", &event("by-the-units"));
    assert_eq!(cluster.settled().of("trusted"), 1);
    assert_eq!(cluster.stop(), 0, "{}", cluster.log());
    assert_eq!(column(&cluster.table("duckdb"), "event_id"), ["by-the-units"]);
}

/// `systemd-analyze verify`, where systemd is.
#[test]
fn the_units_are_units() {
    let folder = tempfile::tempdir().expect("a folder");
    for unit in std::fs::read_dir(repository().join("deploy/systemd")).expect("the units").map(|e| e.expect("an entry").path()) {
        let text = std::fs::read_to_string(&unit).expect("a unit");
        let seconds = |key: &str| {
            let value =
                text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or_else(|| panic!("{unit:?}: {key}"));
            value.trim_end_matches('s').parse::<u64>().unwrap_or_else(|e| panic!("{unit:?}: {key}: {e}"))
        };
        assert!(seconds("TimeoutStopSec") * 1_000 > forebay_schemas::limit::DRAIN_MS, "{unit:?} is killed while it drains");
        assert!(text.contains("\nRestartPreventExitStatus=2\n"), "{unit:?}");
        let copy = folder.path().join(unit.file_name().expect("a name"));
        std::fs::write(&copy, text.replace("/usr/bin/forebay", binary().to_str().expect("a path"))).expect("written");
        let Ok(verified) = Command::new("systemd-analyze").arg("verify").arg(&copy).output() else { continue };
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        // Of systemd 254; before it the first wait stays the only one.
        let newer = |line: &&str| line.contains("'RestartSteps'") || line.contains("'RestartMaxDelaySec'");
        let complaints: Vec<&str> = said.lines().filter(|line| line.contains("forebay-") && !newer(line)).collect();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}

#[test]
fn the_compose_file_fits_together() {
    let folder = repository().join("deploy/compose");
    let compose = yaml(&folder.join("compose.yaml"));
    let services = compose["services"].as_object().expect("services");
    let volumes = compose["volumes"].as_object().expect("volumes");
    let mut used = std::collections::BTreeSet::new();
    for (name, service) in services {
        let built = service.get("build").is_some();
        let image = service["image"].as_str().unwrap_or_default();
        assert!(built || image.split_once(':').is_some_and(|(_, tag)| tag != "latest"), "{name}: an image of a fixed version");
        for (needed, condition) in service.get("depends_on").and_then(Value::as_object).into_iter().flatten() {
            let needed_service = services.get(needed).unwrap_or_else(|| panic!("{name} needs {needed}"));
            match condition["condition"].as_str() {
                Some("service_healthy") => assert!(needed_service.get("healthcheck").is_some(), "{name}: {needed} tells no health"),
                Some("service_completed_successfully") => {}
                other => panic!("{name} needs {needed}: {other:?}"),
            }
        }
        for volume in service.get("volumes").and_then(Value::as_array).into_iter().flatten() {
            let from = volume.as_str().expect("SOURCE:TARGET").split(':').next().expect("a source");
            if from.starts_with('.') {
                assert!(folder.join(from).is_file(), "{name}: {from}");
            } else {
                assert!(volumes.contains_key(from), "{name}: volume {from}");
                used.insert(from.to_owned());
            }
        }
    }
    assert_eq!(used, volumes.keys().cloned().collect(), "each volume is used");

    // Each role's health is asked where it listens, the gateway's port is the published one, and files are where they are mounted.
    let text = std::fs::read_to_string(folder.join("forebay.toml")).expect("a configuration");
    let checked = Command::new(binary()).args(["config", "show", "--json", "--config"]).arg(folder.join("forebay.toml")).output();
    let checked = checked.expect("it starts");
    assert!(checked.status.success(), "{}\n{text}", String::from_utf8_lossy(&checked.stderr));
    let settings: Vec<Value> =
        String::from_utf8_lossy(&checked.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let set = |key: &str| settings.iter().find(|s| s["key"] == key).unwrap_or_else(|| panic!("{key}"))["value"].clone();
    for (service, key) in [("gateway", "gateway.admin"), ("enricher", "enricher.admin"), ("sink", "sink.table.admin")] {
        let test = services[service]["healthcheck"]["test"].to_string();
        assert!(test.contains(&format!("http://{}/readyz", set(key).as_str().expect("an address"))), "{service}: {test}");
    }
    let port = set("gateway.listen").as_str().and_then(|listen| listen.rsplit(':').next()).map(str::to_owned).expect("a port");
    assert_eq!(services["gateway"]["ports"], json!([format!("127.0.0.1:{port}:{port}")]));
    let host = |url: &Value| url.as_str().expect("text").trim_start_matches("http://").split(':').next().expect("a host").to_owned();
    for named in [host(&set("log.brokers")[0]), host(&set("log.registry.url")), host(&set("objects.endpoint"))] {
        assert!(services.contains_key(&named), "{named} is no service");
    }
    assert!(services["buckets"]["command"].to_string().contains(&format!("/{}", set("objects.bucket").as_str().expect("a name"))));
}

fn yaml(path: &Path) -> Value {
    let python = std::env::var("FOREBAY_PYTHON").expect("FOREBAY_PYTHON: run the tests by ./x test");
    let program = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let output = Command::new(python).args(["-c", program]).arg(path).output().expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}
