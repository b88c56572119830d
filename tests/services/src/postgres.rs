//! A Postgres server of its own, on loopback, synced as in earnest.

use crate::process::{self, Process, Slot};
use crate::{Failure, Folder, Home, Port, Result};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its secret is no secret.
pub const USER: &str = "forebay";
pub const PASSWORD: &str = "forebay p@ss:word";

pub struct Postgres {
    process: Slot,
    port: Port,
    folder: Folder,
}

impl Postgres {
    pub fn start() -> Result<Postgres> {
        let (port, folder) = (Port::free()?, Folder::open(Home::Own)?);
        let secret = folder.path.join("secret");
        std::fs::write(&secret, PASSWORD)?;
        if let Some(id) = other_user()? {
            chown(&folder.path, Some(id), None)?;
        }
        let mut make = program("initdb")?;
        make.arg("-D").arg(folder.path.join("data")).args([
            "-U",
            USER,
            "--auth=scram-sha-256",
            "--no-locale",
            "--encoding=UTF8",
            "--no-sync",
        ]);
        process::output({
            make.arg("--pwfile").arg(secret);
            make
        })?;
        let process = Slot::new(launch(&port, &folder)?);
        Ok(Postgres { process, port, folder })
    }

    /// Of the database `name`, without the password.
    pub fn url(&self, name: &str) -> String {
        format!("postgres://{USER}@{}/{name}", self.port.address())
    }

    pub const fn password(&self) -> &'static str {
        PASSWORD
    }

    /// Runs statements in the database `name`, by psql; gives what they print.
    pub fn run(&self, name: &str, statements: &str) -> Result<String> {
        let mut psql = Command::new("psql");
        psql.env("PGPASSWORD", PASSWORD).args(["-v", "ON_ERROR_STOP=1", "-qAt", "-d", &self.url(name), "-c", statements]);
        process::output(psql)
    }

    /// As by a crash of them all: its processes end at once and write nothing more.
    pub fn kill(&self) -> Result<()> {
        self.process.end(Signal::QUIT)
    }

    /// After a kill, on the same port and folder.
    pub fn restart(&self) -> Result<()> {
        self.process.restart(|| launch(&self.port, &self.folder))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its first process ends the others; killed itself, it could not.
        let _ = self.process.end(Signal::QUIT);
    }
}

fn launch(port: &Port, folder: &Folder) -> Result<Process> {
    let mut server = program("postgres")?;
    server.arg("-D").arg(folder.path.join("data")).args([
        "-p",
        &port.number.to_string(),
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        "unix_socket_directories=",
    ]);
    let mut process = Process::start("Postgres", server, &folder.path.join("postgres.log"), folder.detached)?;
    process.wait_ready(|process| process.log_text().contains("database system is ready to accept connections"))?;
    Ok(process)
}

/// A program of the server; as root, run as the user that Debian makes for it, since it refuses root.
fn program(name: &str) -> Result<Command> {
    let path = find(name)?;
    if other_user()?.is_none() {
        return Ok(Command::new(path));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]);
    // The kernel forgets about the parent's end where the user changes.
    command.args(["setpriv", "--pdeathsig", "KILL", "--"]).arg(path);
    Ok(command)
}

fn other_user() -> Result<Option<u32>> {
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let id = process::output({
        let mut id = Command::new("id");
        id.args(["-u", "postgres"]);
        id
    })?;
    id.trim().parse().map(Some).map_err(|_| Failure(format!("no number of a user: {id}")))
}

/// Debian keeps them out of the path, one folder a version.
fn find(name: &str) -> Result<PathBuf> {
    let debian =
        std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|version| version.path().join("bin").join(name));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&paths).map(|folder| folder.join(name)).collect::<Vec<_>>();
    let found = debian.chain(on_path).filter(|path| path.is_file()).max_by_key(|path| version(path));
    found.ok_or_else(|| Failure(format!("{name} of Postgres is not there: `./x test` installs it")))
}

fn version(path: &Path) -> u32 {
    path.components().filter_map(|part| OsStr::to_str(part.as_os_str())?.parse().ok()).max().unwrap_or(0)
}
