//! A proxy that does to connections what networks do.

use crate::process::Process;
use crate::{Failure, Folder, Home, Port, Result, fetched, http};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

pub struct Toxiproxy {
    _process: Process,
    api: Port,
    proxies: Mutex<BTreeMap<String, Port>>,
    _folder: Folder,
}

impl Toxiproxy {
    pub fn start() -> Result<Toxiproxy> {
        let folder = Folder::open(Home::Own)?;
        let api = Port::free()?;
        let mut program = Command::new(fetched("toxiproxy/server")?);
        program.args(["-host", "127.0.0.1", "-port", &api.number.to_string()]);
        let mut process = Process::start("toxiproxy", program, &folder.path.join("toxiproxy.log"), false)?;
        process.wait_ready(|_| http::answers(&api.address(), "/version"))?;
        Ok(Toxiproxy { _process: process, api, proxies: Mutex::default(), _folder: folder })
    }

    /// Stands between its clients and `upstream` (host:port). Gives its own port.
    pub fn proxy(&self, name: &str, upstream: &str) -> Result<u16> {
        let port = Port::free()?;
        self.proxy_at(name, upstream, port)
    }

    pub(crate) fn proxy_at(&self, name: &str, upstream: &str, port: Port) -> Result<u16> {
        self.ask("POST", "/proxies", &json!({ "name": name, "listen": port.address(), "upstream": upstream, "enabled": true }))?;
        let number = port.number;
        self.proxies.lock().insert(name.to_owned(), port);
        Ok(number)
    }

    /// Ends its connections and refuses new ones.
    pub fn cut(&self, name: &str) -> Result<()> {
        self.ask("POST", &format!("/proxies/{name}"), &json!({ "enabled": false }))
    }

    /// Undoes a cut and removes all toxics.
    pub fn heal(&self, name: &str) -> Result<()> {
        let (_, body) = http::request(&self.api.address(), "GET", &format!("/proxies/{name}/toxics"), "")?;
        let toxics: Vec<Value> = serde_json::from_str(&body).map_err(|e| Failure(format!("toxics of {name}: {e}: {body}")))?;
        for toxic in toxics.iter().filter_map(|toxic| toxic["name"].as_str()) {
            self.ask("DELETE", &format!("/proxies/{name}/toxics/{toxic}"), &Value::Null)?;
        }
        self.ask("POST", &format!("/proxies/{name}"), &json!({ "enabled": true }))
    }

    /// `kind`: `latency` {latency, jitter: ms}, `timeout` {timeout: ms; 0 holds for ever}, `bandwidth` {rate: KB/s},
    /// `reset_peer` {timeout: ms}, `limit_data` {bytes}. `stream`: `upstream` is what clients send, `downstream` what they
    /// are answered.
    pub fn toxic(&self, name: &str, kind: &str, stream: &str, attributes: &Value) -> Result<()> {
        let toxic = json!({ "type": kind, "stream": stream, "attributes": attributes });
        self.ask("POST", &format!("/proxies/{name}/toxics"), &toxic)
    }

    fn ask(&self, method: &str, target: &str, body: &Value) -> Result<()> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        match http::request(&self.api.address(), method, target, &body)? {
            (200..300, _) => Ok(()),
            (status, said) => Err(Failure(format!("toxiproxy: {method} {target}: {status} {said}"))),
        }
    }
}
