//! A schema registry's wire protocol. Its compatibility check says yes to everything.

use crate::process::{Process, Slot};
use crate::{Folder, Home, Port, Result, fetched, http};
use std::path::PathBuf;
use std::process::Command;

pub struct RegistrySpec {
    pub home: Home,
    /// Default: a free one.
    pub port: Option<u16>,
    /// User and password that each request must bring.
    pub user: Option<(String, String)>,
    /// Certificate and key, PEM: it speaks https.
    pub tls: Option<(PathBuf, PathBuf)>,
}

impl Default for RegistrySpec {
    fn default() -> RegistrySpec {
        RegistrySpec { home: Home::Own, port: None, user: None, tls: None }
    }
}

pub struct Registry {
    process: Slot,
    port: Port,
    spec: RegistrySpec,
    folder: Folder,
}

impl Registry {
    pub fn start() -> Result<Registry> {
        Registry::with(RegistrySpec::default())
    }

    pub fn with(mut spec: RegistrySpec) -> Result<Registry> {
        let folder = Folder::open(std::mem::replace(&mut spec.home, Home::Own))?;
        let port = match spec.port {
            Some(number) => Port::fixed(number, "the schema registry")?,
            None => Port::free()?,
        };
        let process = Slot::new(launch(&spec, &port, &folder)?);
        Ok(Registry { process, port, spec, folder })
    }

    /// Without a slash at the end.
    pub fn url(&self) -> String {
        let scheme = if self.spec.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.port.address())
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn kill(&self) {
        self.process.kill();
    }

    /// After a kill. What was registered is there again, under the same ids.
    pub fn restart(&self) -> Result<()> {
        self.process.restart(|| launch(&self.spec, &self.port, &self.folder))
    }
}

fn launch(spec: &RegistrySpec, port: &Port, folder: &Folder) -> Result<Process> {
    let mut program = Command::new(fetched("registry/registry")?);
    program.args(["-listen", &port.address(), "-journal"]).arg(folder.path.join("journal.jsonl"));
    if let Some((user, password)) = &spec.user {
        program.args(["-user", &format!("{user}:{password}")]);
    }
    if let Some((cert, key)) = &spec.tls {
        program.arg("-cert").arg(cert).arg("-key").arg(key);
    }
    let mut process = Process::start("the schema registry", program, &folder.path.join("registry.log"), folder.detached)?;
    process.wait_ready(|_| http::answers(&port.address(), "/subjects"))?;
    Ok(process)
}
