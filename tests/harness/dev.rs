//! `forebay dev` on free loopback ports and a folder of its own.

use super::{System, binary, free_address, http, process::Process, python};
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// Dropped: killed, its folder removed.
pub struct Dev {
    pub data: PathBuf,
    pub listen: String,
    process: Process,
    _folder: tempfile::TempDir,
}

impl Dev {
    /// On a fresh folder, with the defaults.
    pub fn fresh() -> Dev {
        Dev::with("", &[])
    }

    /// On a fresh folder, with a configuration text and environment; ready.
    pub fn with(config: &str, env: &[(&str, &str)]) -> Dev {
        let folder = tempfile::Builder::new().prefix("forebay-test-").tempdir().expect("a folder");
        let data = folder.path().join("data");
        let listen = free_address();
        let mut arguments: Vec<OsString> = ["dev", "--listen", &listen, "--admin", "127.0.0.1:0", "--data"].map(OsString::from).into();
        arguments.push(data.clone().into());
        if !config.is_empty() {
            let path = folder.path().join("forebay.toml");
            std::fs::write(&path, config).expect("written");
            arguments.extend(["--config".into(), path.into()]);
        }
        let process = Process::new(arguments, owned(env), &data.with_extension("log"));
        let mut dev = Dev { data, listen, process, _folder: folder };
        dev.start();
        dev
    }

    pub fn set_env(&mut self, env: &[(&str, &str)]) {
        self.process.env = owned(env);
    }
    pub fn spawn(&mut self) {
        self.process.spawn();
    }
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }
    pub fn ready(&self) -> bool {
        ready(&self.data, self.pid())
    }
}

impl System for Dev {
    fn listen(&self) -> String {
        self.listen.clone()
    }
    fn admin(&self) -> String {
        let admin = admin_json(&self.data, self.pid()).expect("running");
        address(&admin)
    }
    fn token(&self, name: &str) -> String {
        admin_json(&self.data, self.pid()).expect("admin.json")[name].as_str().expect("a token").to_owned()
    }
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).arg("--data").arg(&self.data);
        command
    }
    fn private_key(&self) -> PathBuf {
        self.data.join("keys/bad_private.key")
    }
    fn read_by(&self, arguments: &[&str]) -> Vec<Value> {
        python(&[arguments, &[self.data.to_str().expect("a path")]].concat())
    }
    fn log(&self) -> String {
        self.process.log()
    }
    fn pid(&self) -> u32 {
        self.process.pid()
    }
    fn start(&mut self) {
        self.process.spawn();
        let data = self.data.clone();
        self.process.wait("dev to be ready", |process| ready(&data, process.pid()));
    }
    fn kill(&mut self) {
        self.process.kill();
    }
    fn stop(&mut self) -> i32 {
        self.process.stop()
    }
}

fn owned(env: &[(&str, &str)]) -> Vec<(String, String)> {
    env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// `admin.json`, when this very process has written it.
fn admin_json(data: &std::path::Path, pid: u32) -> Option<Value> {
    let admin: Value = serde_json::from_slice(&std::fs::read(data.join("admin.json")).ok()?).ok()?;
    (admin["pid"].as_u64() == Some(u64::from(pid))).then_some(admin)
}

fn address(admin: &Value) -> String {
    admin["url"].as_str().expect("a URL").trim_start_matches("http://").trim_end_matches('/').to_owned()
}

fn ready(data: &std::path::Path, pid: u32) -> bool {
    admin_json(data, pid).is_some_and(|admin| http::get(&address(&admin), "/readyz", None).is_ok_and(|answer| answer.status == 200))
}
