//! The three roles as processes of their own, on a real Kafka and a real S3 server.
//!
//! Tests that do nothing to the services share one broker and one server, under names of their own: topics, job, prefix.
//! Who does something to them starts services of its own and hands them in (`Cluster::on`).

use super::process::Process;
use super::{System, binary, http, poll, python};
use forebay_schemas::topic::Topic;
use forebay_services::{Kafka, Port, S3};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

pub const GATEWAY: usize = 0;
pub const ENRICHER: usize = 1;
pub const TABLE: usize = 2;

/// Where the services are, for a configuration.
pub struct Services {
    /// `host:port,…`.
    pub brokers: String,
    /// `http://host:port`.
    pub endpoint: String,
    /// The server's own, for readers that are not to be disturbed.
    pub s3: &'static S3,
}

/// A fresh system. Dropped: its processes are killed.
pub struct Cluster {
    pub folder: tempfile::TempDir,
    pub config: PathBuf,
    pub roles: [Role; 3],
    /// What topics, job and objects of this system are called after.
    pub name: String,
    listen: Port,
    s3: &'static S3,
}

/// One process of the system.
pub struct Role {
    pub name: &'static str,
    /// Host and port of its admin listener.
    pub admin: String,
    pub process: Process,
    _port: Port,
}

pub const BUCKET: &str = "forebay-tests";
const TOKEN: &str = "the-token-of-all-roles";
pub const VIEW_TOKEN: &str = "the-token-of-the-view-role";

impl Cluster {
    /// On the shared services; ready.
    pub fn with(config: &str, env: &[(&str, &str)]) -> Cluster {
        let mut cluster = Cluster::new(config);
        cluster.set_env(env);
        cluster.start();
        cluster
    }

    /// On the shared services, topics applied, nothing started.
    pub fn new(config: &str) -> Cluster {
        Cluster::on(shared(), config)
    }

    /// On these services, topics applied, nothing started. What `config` says counts over what the harness sets.
    pub fn on(services: Services, config: &str) -> Cluster {
        let cluster = Cluster::unapplied(services, config);
        cluster.run(&["topics", "apply"]);
        cluster
    }

    /// The same without topics: nobody need answer yet.
    pub fn unapplied(services: Services, config: &str) -> Cluster {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::Builder::new().prefix("forebay-test-").tempdir().expect("a folder");
        let ports = [Port::free(), Port::free(), Port::free(), Port::free()].map(|port| port.expect("a port"));
        create_bucket(services.s3);
        let [listen, ports @ ..] = ports;
        let mut table = settings(&services, folder.path(), &name, &listen, &ports);
        merge(&mut table, config.parse().expect("TOML"));
        let path = folder.path().join("forebay.toml");
        std::fs::write(&path, table.to_string()).expect("written");
        for (file, content) in [("token", TOKEN), ("view_token", VIEW_TOKEN), ("s3_secret", services.s3.secret_key())] {
            std::fs::write(folder.path().join(file), content).expect("written");
        }
        let made = Command::new(binary()).args(["keys", "make"]).arg(folder.path().join("keys")).output().expect("the binary starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut ports = ports.into_iter();
        let roles = [("gateway", &["gateway"][..]), ("enricher", &["enricher"]), ("table", &["sink", "table"])].map(|(name, arguments)| {
            let port = ports.next().expect("one each");
            let mut all: Vec<_> = arguments.iter().map(Into::into).collect();
            all.extend(["--config".into(), path.clone().into()]);
            let process = Process::new(all, Vec::new(), &folder.path().join(format!("{name}.log")));
            Role { name, admin: port.address(), process, _port: port }
        });
        Cluster { folder, config: path, roles, name, listen, s3: services.s3 }
    }

    /// Of every role, from its next start on.
    pub fn set_env(&mut self, env: &[(&str, &str)]) {
        for role in &mut self.roles {
            role.set_env(env);
        }
    }

    /// Another process of the same role and configuration, beside the first, with an admin listener of its own. Not started.
    pub fn second(&self, role: usize, more: &[(&str, &str)]) -> Role {
        let Role { name, .. } = &self.roles[role];
        let port = Port::free().expect("a port");
        let section = ["GATEWAY", "ENRICHER", "SINK__TABLE"][role];
        let mut arguments: Vec<std::ffi::OsString> = if role == TABLE { vec!["sink".into(), "table".into()] } else { vec![(*name).into()] };
        arguments.extend(["--config".into(), self.config.clone().into()]);
        let data = self.folder.path().join("second").display().to_string();
        let mut env = vec![(format!("FOREBAY__{section}__ADMIN"), port.address()), ("FOREBAY__DATA".to_owned(), data)];
        env.extend(more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        let process = Process::new(arguments, env, &self.folder.path().join(format!("second-{name}.log")));
        Role { name, admin: port.address(), process, _port: port }
    }

    pub fn gateway(&mut self) -> &mut Role {
        &mut self.roles[GATEWAY]
    }
    pub fn enricher(&mut self) -> &mut Role {
        &mut self.roles[ENRICHER]
    }
    pub fn sink(&mut self) -> &mut Role {
        &mut self.roles[TABLE]
    }
}

impl Role {
    pub fn set_env(&mut self, env: &[(&str, &str)]) {
        self.process.env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    }
    pub fn spawn(&mut self) {
        self.process.spawn();
    }
    pub fn start(&mut self) {
        self.spawn();
        self.wait_ready();
    }
    pub fn wait_ready(&mut self) {
        let admin = self.admin.clone();
        self.process.wait(&format!("the {} to be ready", self.name), |_| not_ready(&admin).is_some_and(|reasons| reasons.is_empty()));
    }
    /// Waits until `/readyz` says no, with a reason that contains `part`.
    pub fn wait_not_ready(&mut self, part: &str) {
        let admin = self.admin.clone();
        let says = |reasons: Vec<String>| reasons.iter().any(|reason| reason.contains(part));
        self.process.wait(&format!("the {} not to be ready: {part}", self.name), |_| not_ready(&admin).is_some_and(says));
    }
    /// Waits until `/readyz` notes something that contains `part`, ready or not.
    pub fn wait_note(&mut self, part: &str) {
        let admin = self.admin.clone();
        let noted = || Some(http::get(&admin, "/readyz", None).ok()?.json()["notes"].to_string().contains(part));
        self.process.wait(&format!("the {} to note: {part}", self.name), |_| noted() == Some(true));
    }
    pub fn is_ready(&self) -> bool {
        not_ready(&self.admin).is_some_and(|reasons| reasons.is_empty())
    }
    pub fn metrics(&self) -> String {
        http::get(&self.admin, "/metrics", None).expect("an answer").text()
    }
    /// The sum of a metric's samples.
    pub fn metric(&self, name: &str) -> f64 {
        let samples = self.metrics();
        let of = |line: &str| {
            line.strip_prefix(name)
                .filter(|rest| rest.starts_with(['{', ' ']))
                .and_then(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok())
        };
        samples.lines().filter_map(of).sum()
    }
    /// SIGSTOP: it holds its connections and does nothing.
    pub fn pause(&self) {
        self.process.signal(Signal::STOP);
    }
    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }
}

/// `/readyz`: no reasons when it is ready; `None` when nobody answers.
fn not_ready(admin: &str) -> Option<Vec<String>> {
    let answer = http::get(admin, "/readyz", None).ok()?;
    let json: Value = serde_json::from_slice(&answer.body).ok()?;
    let reasons: Vec<String> = serde_json::from_value(json["reasons"].clone()).ok()?;
    assert_eq!(answer.status == 200, reasons.is_empty(), "{json}");
    Some(reasons)
}

impl System for Cluster {
    fn listen(&self) -> String {
        self.listen.address()
    }
    fn admin(&self) -> String {
        self.roles[ENRICHER].admin.clone()
    }
    fn token(&self, name: &str) -> String {
        if name == "token" { TOKEN.to_owned() } else { VIEW_TOKEN.to_owned() }
    }
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).arg("--config").arg(&self.config);
        command
    }
    fn private_key(&self) -> PathBuf {
        self.folder.path().join("keys/bad_private.key")
    }
    fn read_by(&self, arguments: &[&str]) -> Vec<Value> {
        python(
            &[arguments, &["--config", self.config.to_str().expect("a path"), "--files", self.s3.files().to_str().expect("a path")]]
                .concat(),
        )
    }
    fn log(&self) -> String {
        self.roles.iter().map(|role| format!("{}:\n{}", role.name, role.process.log())).collect()
    }
    fn pid(&self) -> u32 {
        self.roles[GATEWAY].process.pid()
    }
    fn start(&mut self) {
        for role in &mut self.roles {
            if !role.process.is_running() {
                role.spawn();
            }
        }
        for role in &mut self.roles {
            role.wait_ready();
        }
    }
    fn kill(&mut self) {
        for role in &mut self.roles {
            role.process.kill();
        }
    }
    fn stop(&mut self) -> i32 {
        self.roles.iter_mut().map(|role| role.process.stop()).max().unwrap_or(0)
    }
    /// A tick says what its gateway has published through.
    fn published(&self) {
        let now = forebay_schemas::time::Micros::from(std::time::SystemTime::now());
        let through = || {
            let ticks = self.run(&["tail", "harvested", "--ticks", "--partition", "0", "--until-idle", "0"]);
            let last = ticks.lines().rev().find_map(|line| {
                let record: Value = serde_json::from_str(line).expect("a JSON line");
                forebay_schemas::time::Micros::parse_rfc3339(record["published_through"].as_str()?)
            });
            last.is_some_and(|through| through > now)
        };
        poll("what was acknowledged to be published", through, || self.log());
    }
}

/// One broker and one S3 server for all tests of this process.
pub fn shared() -> Services {
    static S3_: LazyLock<S3> = LazyLock::new(|| S3::start().expect("the S3 server starts"));
    Services { brokers: Kafka::shared().brokers(), endpoint: S3_.endpoint(), s3: &S3_ }
}

fn settings(services: &Services, folder: &Path, name: &str, listen: &Port, admins: &[Port; 3]) -> toml::Table {
    let brokers: Vec<_> = services.brokers.split(',').map(str::to_owned).collect();
    let endpoint = services.endpoint.clone();
    let (listen, [gateway, enricher, sink]) = (listen.address(), admins.each_ref().map(Port::address));
    let path = |file: &str| folder.join(file).display().to_string();
    let (data, token, view_token, secret) = (path("data"), path("token"), path("view_token"), path("s3_secret"));
    let (mask, public, private) = (path("keys/mask.key"), path("keys/bad_public.key"), path("keys/bad_private.key"));
    let (warehouse, catalogue) = (format!("s3://{BUCKET}/{name}/warehouse"), path("data/catalog.sqlite"));
    let (access_key, prefix, job) = (services.s3.access_key().to_owned(), name.to_owned(), name.to_owned());
    let mut settings = toml::toml! {
        data = data
        [gateway]
        listen = listen
        admin = gateway
        [log]
        kind = "kafka"
        brokers = brokers
        replicas = 1
        min_insync_replicas = 1
        [objects]
        kind = "s3"
        bucket = BUCKET
        prefix = prefix
        endpoint = endpoint
        access_key_id = access_key
        secret_access_key_file = secret
        [enricher]
        admin = enricher
        job = job
        [catalog.keys]
        mask_file = mask
        bad_public_file = public
        bad_private_file = private
        [sink.table]
        admin = sink
        warehouse = warehouse
        catalogue = catalogue
        commit_interval = "1s"
        [admin]
        token_file = token
        view_token_file = view_token
    };
    let names = Topic::ALL.map(|topic| format!("[log.topics.{}]\nname = \"{name}.{}\"\n", topic.word(), topic.word()));
    merge(&mut settings, names.concat().parse().expect("TOML"));
    settings
}

/// One test at a time: a server refuses to make what another is making.
fn create_bucket(s3: &S3) {
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    s3.create_bucket(BUCKET).expect("a bucket");
}

fn merge(below: &mut toml::Table, above: toml::Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => merge(below, above),
            (_, value) => drop(below.insert(key, value)),
        }
    }
}
