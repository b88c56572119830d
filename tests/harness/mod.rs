//! Runs the real binary as its user would: a `dev` on free loopback ports and a folder of its own, and the commands.

pub mod http;

use serde_json::Value;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before the test says that it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The product under test: `FOREBAY_BIN`, else the one that Cargo built for this test.
pub fn binary() -> PathBuf {
    std::env::var_os("FOREBAY_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_forebay")), PathBuf::from)
}

pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of recordings: `FOREBAY_TRAFFIC`, else the committed ones.
pub fn traffic() -> PathBuf {
    std::env::var_os("FOREBAY_TRAFFIC").map_or_else(|| repository().join("tests/recordings"), PathBuf::from)
}

pub fn soak() -> bool {
    std::env::var("FOREBAY_SUITE").is_ok_and(|suite| suite == "soak")
}

/// A `forebay dev` of this test's own. Dropped: killed.
pub struct Dev {
    pub data: PathBuf,
    pub listen: String,
    config: Option<PathBuf>,
    env: Vec<(String, String)>,
    child: Option<Child>,
    _folder: Option<tempfile::TempDir>,
}

impl Dev {
    /// On a fresh folder, with the defaults.
    pub fn fresh() -> Dev {
        Dev::with("", &[])
    }

    /// On a fresh folder, with a configuration text and environment.
    pub fn with(config: &str, env: &[(&str, &str)]) -> Dev {
        let folder = tempfile::Builder::new().prefix("forebay-test-").tempdir().expect("a folder");
        let data = folder.path().join("data");
        let config = (!config.is_empty()).then(|| {
            let path = folder.path().join("forebay.toml");
            std::fs::write(&path, config).expect("written");
            path
        });
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut dev = Dev { data, listen: free_address(), config, env, child: None, _folder: Some(folder) };
        dev.start();
        dev
    }

    /// Starts (again) on the same folder and port, and waits until it is ready.
    pub fn start(&mut self) {
        self.spawn();
        self.wait_ready();
    }

    pub fn set_env(&mut self, env: &[(&str, &str)]) {
        self.env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    }

    pub fn spawn(&mut self) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.data.with_extension("log")).expect("a log file");
        let mut command = Command::new(binary());
        command.arg("dev").arg("--data").arg(&self.data).args(["--listen", &self.listen, "--admin", "127.0.0.1:0"]);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        command.envs(self.env.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a handle")).stderr(log);
        self.child = Some(command.spawn().expect("the binary starts"));
    }

    pub fn wait_ready(&mut self) {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.as_mut().expect("spawned").try_wait().expect("a child") {
                panic!("dev ended with {status}:\n{}", self.log());
            }
            if self.admin().is_some_and(|admin| http::get(&admin, "/readyz", None).is_ok_and(|answer| answer.status == 200)) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "dev is not ready:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.data.with_extension("log")).unwrap_or_default()
    }

    fn admin_json(&self) -> Option<Value> {
        let admin: Value = serde_json::from_slice(&std::fs::read(self.data.join("admin.json")).ok()?).ok()?;
        (admin["pid"].as_u64() == self.child.as_ref().map(|c| u64::from(c.id()))).then_some(admin)
    }
    /// The admin listener's host and port, when this process has written it.
    pub fn admin(&self) -> Option<String> {
        Some(self.admin_json()?["url"].as_str()?.trim_start_matches("http://").trim_end_matches('/').to_owned())
    }
    pub fn token(&self, name: &str) -> String {
        self.admin_json().expect("admin.json")[name].as_str().expect("a token").to_owned()
    }
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("running").id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(self.child.as_ref().expect("running"));
        rustix::process::kill_process(pid, signal).expect("our own child");
    }
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("running");
        child.kill().expect("our own child");
        child.wait().expect("our own child");
    }
    /// SIGTERM; the exit code.
    pub fn stop(&mut self) -> i32 {
        self.signal(rustix::process::Signal::TERM);
        let mut child = self.child.take().expect("running");
        let started = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("a child") {
                return status.code().unwrap_or(-1);
            }
            if started.elapsed() > PATIENCE {
                child.kill().expect("our own child");
                child.wait().expect("our own child");
                panic!("dev does not stop:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn post(&self, target: &str, headers: &[(&str, &str)], body: &[u8]) -> http::Answer {
        http::request(&self.listen, "POST", target, headers, body).expect("an answer")
    }
    /// Posts JSON and asserts a 2xx.
    pub fn accepted(&self, target: &str, body: &Value) -> http::Answer {
        let answer = self.post(target, &[("content-type", "application/json")], body.to_string().as_bytes());
        assert!((200..300).contains(&answer.status), "{target} answered {}: {}", answer.status, answer.text());
        answer
    }

    /// Runs a command against this folder (and so the process that holds it); asserts that it succeeds.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(
            output.status.success(),
            "forebay {arguments:?}: {}\n{}\nlog:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr),
            self.log()
        );
        String::from_utf8(output.stdout).expect("text")
    }
    pub fn output(&self, arguments: &[&str]) -> Output {
        Command::new(binary()).args(arguments).arg("--data").arg(&self.data).output().expect("the binary starts")
    }
    /// `send` has no `--data`: it speaks HTTP.
    pub fn send(&self, arguments: &[&str]) -> Value {
        let output = Command::new(binary())
            .arg("send")
            .args(arguments)
            .args(["--to", &format!("http://{}", self.listen), "--json"])
            .output()
            .expect("the binary starts");
        assert!(output.status.success(), "send {arguments:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("a JSON summary")
    }

    /// Everything in a topic, once nothing has come for a second.
    pub fn tail(&self, topic: &str) -> Vec<Value> {
        self.run(&["tail", topic, "--from", "earliest", "--until-idle", "1", "--json"])
            .lines()
            .map(|line| serde_json::from_str(line).expect("a JSON line"))
            .collect()
    }

    /// Waits until every harvested record has its outcome, then gives the totals.
    pub fn settled(&self) -> Totals {
        let started = Instant::now();
        let mut last = None;
        loop {
            let harvested = self.tail_count("harvested");
            let totals = self.totals();
            if totals.sum() == harvested && last == Some(harvested) {
                return totals;
            }
            last = Some(harvested);
            assert!(started.elapsed() < PATIENCE, "{harvested} harvested, outcomes {totals:?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(300));
        }
    }
    fn tail_count(&self, topic: &str) -> u64 {
        self.run(&["tail", topic, "--from", "earliest", "--until-idle", "0.3", "--json"]).lines().count() as u64
    }

    /// `forebay_events_total` of this process.
    pub fn totals(&self) -> Totals {
        let text = http::get(&self.admin().expect("running"), "/metrics", None).expect("metrics").text();
        let mut totals = Totals::default();
        for line in text.lines().filter(|line| line.starts_with("forebay_events_total{")) {
            let (labels, value) = line.rsplit_once(' ').expect("a sample");
            let label = |name: &str| {
                let start = labels.find(&format!("{name}=\"")).expect("the label") + name.len() + 2;
                labels[start..].split('"').next().expect("closed").to_owned()
            };
            *totals.0.entry((label("outcome"), label("reason"))).or_default() += value.parse::<f64>().expect("a number") as u64;
        }
        totals
    }

    /// Rows of the Iceberg table by DuckDB or PyIceberg; `dev` need not run.
    pub fn table(&self, reader: &str) -> Vec<Value> {
        python(&["--with", reader, self.data.to_str().expect("a path")])
    }
    /// Requests in the raw landing by fastavro.
    pub fn raw(&self) -> Vec<Value> {
        python(&["--raw", self.data.to_str().expect("a path")])
    }
}

/// `tests/readers.py` under the Python that `./x` prepares (`FOREBAY_PYTHON`).
fn python(arguments: &[&str]) -> Vec<Value> {
    let python = std::env::var("FOREBAY_PYTHON").expect("FOREBAY_PYTHON: run the tests by ./x test");
    let output = Command::new(python).arg(repository().join("tests/readers.py")).args(arguments).output().expect("python starts");
    assert!(output.status.success(), "readers.py {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

impl Drop for Dev {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Outcomes by (outcome, reason).
#[derive(Default, Debug, Clone, PartialEq, Eq)]
pub struct Totals(pub BTreeMap<(String, String), u64>);

impl Totals {
    pub fn sum(&self) -> u64 {
        self.0.values().sum()
    }
    pub fn of(&self, outcome: &str) -> u64 {
        self.0.iter().filter(|((o, _), _)| o == outcome).map(|(_, n)| n).sum()
    }
    pub fn bad(&self, reason: &str) -> u64 {
        self.0.get(&("bad".to_owned(), reason.to_owned())).copied().unwrap_or(0)
    }
}

pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").to_string()
}

/// The values of `field` in `records`, sorted.
pub fn column(records: &[Value], field: &str) -> Vec<String> {
    let mut values: Vec<String> =
        records.iter().map(|r| r[field].as_str().unwrap_or_else(|| panic!("no {field} in {r}")).to_owned()).collect();
    values.sort();
    values
}

impl Dev {
    pub fn is_running(&mut self) -> bool {
        match &mut self.child {
            None => false,
            Some(child) => {
                let running = child.try_wait().expect("a child").is_none();
                if !running {
                    self.child = None;
                }
                running
            }
        }
    }
    pub fn ready(&self) -> bool {
        self.admin().is_some_and(|admin| http::get(&admin, "/readyz", None).is_ok_and(|answer| answer.status == 200))
    }
}

impl Dev {
    /// All columns of all rows.
    pub fn table_all(&self, reader: &str) -> Vec<Value> {
        python(&["--with", reader, "--all", self.data.to_str().expect("a path")])
    }
}
