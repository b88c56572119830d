//! A real S3 server (versitygw) with a folder behind it.

use crate::process::{self, Process, Slot};
use crate::{Folder, Home, Port, Result, fetched, http};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

/// What the server takes; its secret is no secret.
pub const ACCESS_KEY: &str = "forebay";
pub const SECRET_KEY: &str = "forebay-secret";
pub const REGION: &str = "us-east-1";

pub struct S3Spec {
    pub home: Home,
    /// Default: a free one.
    pub port: Option<u16>,
}

impl Default for S3Spec {
    fn default() -> S3Spec {
        S3Spec { home: Home::Own, port: None }
    }
}

pub struct S3 {
    process: Slot,
    port: Port,
    folder: Folder,
}

impl S3 {
    pub fn start() -> Result<S3> {
        S3::with(S3Spec::default())
    }

    pub fn with(spec: S3Spec) -> Result<S3> {
        let folder = Folder::open(spec.home)?;
        let port = match spec.port {
            Some(number) => Port::fixed(number, "the S3 server")?,
            None => Port::free()?,
        };
        let process = Slot::new(launch(&port, &folder)?);
        Ok(S3 { process, port, folder })
    }

    /// For a client that addresses buckets by path; `address` is its host and port, for a proxy.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    pub fn address(&self) -> String {
        self.port.address()
    }

    pub const fn access_key(&self) -> &'static str {
        ACCESS_KEY
    }

    pub const fn secret_key(&self) -> &'static str {
        SECRET_KEY
    }

    pub const fn region(&self) -> &'static str {
        REGION
    }

    /// The objects as files: `BUCKET/KEY`.
    pub fn files(&self) -> PathBuf {
        self.folder.path.join("buckets")
    }

    /// Three characters at least. One that is there stays as it is.
    pub fn create_bucket(&self, name: &str) -> Result<()> {
        if self.files().join(name).is_dir() {
            return Ok(());
        }
        process::output(self.curl(&format!("/{name}"), &["-X", "PUT"])).map(|_| ())
    }

    /// A request by somebody else's client: curl, signing. Fails on an error status.
    pub fn curl(&self, target: &str, args: &[&str]) -> Command {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail-with-body", "--max-time", "60"]);
        command.args(["--aws-sigv4", &format!("aws:amz:{REGION}:s3"), "--user", &format!("{ACCESS_KEY}:{SECRET_KEY}")]);
        // Debian's curl sends none by itself, and S3 wants one.
        command.args(["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]);
        command.args(args).arg(format!("{}{target}", self.endpoint()));
        command
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// As by kill -9.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// After a kill, on the same port and folder.
    pub fn restart(&self) -> Result<()> {
        self.process.restart(|| launch(&self.port, &self.folder))
    }

    /// SIGSTOP: connections stay and nothing answers.
    pub fn pause(&self) -> Result<()> {
        self.process.signal(Signal::STOP)
    }

    pub fn resume(&self) -> Result<()> {
        self.process.signal(Signal::CONT)
    }
}

fn launch(port: &Port, folder: &Folder) -> Result<Process> {
    let files = folder.path.join("buckets");
    std::fs::create_dir_all(&files)?;
    let mut program = Command::new(fetched("versitygw/versitygw")?);
    program.env("ROOT_ACCESS_KEY", ACCESS_KEY).env("ROOT_SECRET_KEY", SECRET_KEY);
    program.args(["--port", &port.address(), "--region", REGION, "--health", "/healthz", "--quiet", "posix"]).arg(files);
    let mut process = Process::start("the S3 server", program, &folder.path.join("s3.log"), folder.detached)?;
    process.wait_ready(|_| http::request(&port.address(), "GET", "/healthz", "").is_ok_and(|(status, _)| status == 200))?;
    Ok(process)
}
