//! What the tests do to a running system, whichever form it has: `dev` in one process, or the roles on real services.

use super::{Totals, http, poll};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::process::{Command, Output};

pub trait System {
    /// Host and port of the public listener.
    fn listen(&self) -> String;
    /// Host and port of the admin listener that tells outcomes, while it runs.
    fn admin(&self) -> String;
    /// `token` or `view_token` of that listener.
    fn token(&self, name: &str) -> String;
    /// A command that finds this system, without its own arguments' system flags.
    fn command(&self, arguments: &[&str]) -> Command;
    /// What opens rejects.
    fn private_key(&self) -> PathBuf;
    /// Rows of the table and landed requests, by `tests/readers.py`.
    fn read_by(&self, arguments: &[&str]) -> Vec<Value>;
    /// What every process has logged.
    fn log(&self) -> String;
    /// Of the process that takes requests.
    fn pid(&self) -> u32;
    /// Starts what does not run, and waits until all is ready.
    fn start(&mut self);
    /// `kill -9` of everything.
    fn kill(&mut self);
    /// SIGTERM to each part in the order of the path; the worst exit code.
    fn stop(&mut self) -> i32;
    /// Waits until what was acknowledged before is in the topic of harvested events.
    fn published(&self) {}

    fn get(&self, target: &str) -> http::Answer {
        http::get(&self.admin(), target, None).expect("an answer")
    }
    fn post(&self, target: &str, headers: &[(&str, &str)], body: &[u8]) -> http::Answer {
        http::request(&self.listen(), "POST", target, headers, body).expect("an answer")
    }
    /// Posts JSON and asserts a 2xx.
    fn accepted(&self, target: &str, body: &Value) -> http::Answer {
        let answer = self.post(target, &[("content-type", "application/json")], body.to_string().as_bytes());
        assert!((200..300).contains(&answer.status), "{target} answered {}: {}", answer.status, answer.text());
        answer
    }

    /// Runs a command against this system; asserts that it succeeds.
    fn run(&self, arguments: &[&str]) -> String {
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
    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary starts")
    }
    /// `send` finds a system by its public listener.
    fn send(&self, arguments: &[&str]) -> Value {
        let mut command = Command::new(super::binary());
        command.arg("send").args(arguments).args(["--to", &format!("http://{}", self.listen()), "--json"]);
        let output = command.output().expect("the binary starts");
        assert!(output.status.success(), "send {arguments:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("a JSON summary")
    }

    /// Everything in a topic, once nothing has come for a second.
    fn tail(&self, topic: &str) -> Vec<Value> {
        self.run(&["tail", topic, "--from", "earliest", "--until-idle", "1", "--json"])
            .lines()
            .map(|line| serde_json::from_str(line).expect("a JSON line"))
            .collect()
    }

    /// Waits until every harvested record has its outcome, then gives the totals.
    fn settled(&self) -> Totals {
        self.published();
        let (last, totals) = (Cell::new(None), RefCell::new(Totals::default()));
        poll(
            "an outcome for each harvested record",
            || {
                let harvested =
                    self.run(&["tail", "harvested", "--from", "earliest", "--until-idle", "0.3", "--json"]).lines().count() as u64;
                totals.replace(self.totals());
                let before = last.replace(Some(harvested));
                totals.borrow().sum() == harvested && before == Some(harvested)
            },
            || format!("{:?} harvested, {:?}\n{}", last.get(), totals.borrow(), self.log()),
        );
        totals.into_inner()
    }

    /// `forebay_events_total` of the running system.
    fn totals(&self) -> Totals {
        Totals::of_metrics(&self.get("/metrics").text())
    }

    /// Rows of the Iceberg table by DuckDB or PyIceberg; nothing need run.
    fn table(&self, reader: &str) -> Vec<Value> {
        self.read_by(&["--with", reader])
    }
    /// All columns of all rows.
    fn table_all(&self, reader: &str) -> Vec<Value> {
        self.read_by(&["--with", reader, "--all"])
    }
    /// Requests in the raw landing by fastavro.
    fn raw(&self) -> Vec<Value> {
        self.read_by(&["--raw"])
    }
}
