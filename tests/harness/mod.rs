//! Runs the real binary as its user would, on free loopback ports and folders of its own: `dev`, or the three roles on
//! real services; and the commands.

pub mod http;
pub mod process;
pub mod system;
pub mod dev;
pub mod cluster;
pub mod oracle;

pub use cluster::Cluster;
pub use dev::Dev;
pub use system::System;

use serde_json::Value;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long anything may take before the test says that it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// The form of the system that a test runs on.
#[derive(Clone, Copy)]
pub enum Form {
    Dev,
    Roles,
}

impl Form {
    /// A fresh system of its own, with the defaults.
    pub fn fresh(self) -> Box<dyn System> {
        self.with("", &[])
    }
    /// … with a configuration text and environment; ready.
    pub fn with(self, config: &str, env: &[(&str, &str)]) -> Box<dyn System> {
        match self {
            Form::Dev => Box::new(Dev::with(config, env)),
            Form::Roles => Box::new(Cluster::with(config, env)),
        }
    }
}

/// Each test once a form: `dev::NAME`, `roles::NAME`.
macro_rules! on_both {
    ($($(#[$doc:meta])* $test:ident),* $(,)?) => {
        mod dev {
            $($(#[$doc])* #[test] fn $test() { super::$test(crate::harness::Form::Dev); })*
        }
        mod roles {
            $($(#[$doc])* #[test] fn $test() { super::$test(crate::harness::Form::Roles); })*
        }
    };
}
pub(crate) use on_both;

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

/// Waits until `done`; panics with `told` when it takes too long.
pub fn poll(what: &str, mut done: impl FnMut() -> bool, told: impl FnOnce() -> String) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "waited too long for {what}\n{}", told());
        std::thread::sleep(POLL);
    }
}

/// `tests/readers.py` under the Python that `./x` prepares (`FOREBAY_PYTHON`).
pub fn python(arguments: &[&str]) -> Vec<Value> {
    let python = std::env::var("FOREBAY_PYTHON").expect("FOREBAY_PYTHON: run the tests by ./x test");
    let output = Command::new(python).arg(repository().join("tests/readers.py")).args(arguments).output().expect("python starts");
    assert!(output.status.success(), "readers.py {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

/// Outcomes by (outcome, reason).
#[derive(Default, Debug, Clone, PartialEq, Eq)]
pub struct Totals(pub BTreeMap<(String, String), u64>);

impl Totals {
    pub fn of_metrics(text: &str) -> Totals {
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
