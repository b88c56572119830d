//! Kafka: one broker, or three, each also its own controller.
//!
//! Owns: brokers as processes, their faults, the way to them through a proxy. Does not own: topics.
//! A start takes seconds, so tests share `Kafka::shared` with names of their own, unless they do something to it.

mod properties;
mod secured;

pub use secured::Secured;

use crate::process::{Process, Slot};
use crate::{Failure, Folder, Home, Port, Result, Toxiproxy, java};
use rustix::process::Signal;
use std::path::PathBuf;
use std::sync::LazyLock;

pub struct KafkaSpec {
    pub home: Home,
    /// 1 or 3.
    pub nodes: usize,
    /// Whether there is also a way to each broker through a proxy.
    pub proxied: bool,
    /// Whether there are also listeners with TLS, users and rights: `Kafka::secured`.
    pub secured: bool,
    /// Broker properties beside ours; they win.
    pub properties: Vec<(String, String)>,
    /// Node `n` listens at this port + 100 (n - 1), its controller one higher. Default: free ports.
    pub port: Option<u16>,
}

impl Default for KafkaSpec {
    fn default() -> KafkaSpec {
        KafkaSpec { home: Home::Own, nodes: 1, proxied: true, secured: false, properties: Vec::new(), port: None }
    }
}

pub struct Kafka {
    nodes: Vec<Node>,
    toxiproxy: Option<Toxiproxy>,
    secured: Option<Secured>,
    folder: Folder,
    heap: u32,
}

struct Node {
    id: usize,
    ports: Ports,
    folder: PathBuf,
    process: Slot,
}

struct Ports {
    client: Port,
    controller: Port,
    /// Where the broker listens, and where its proxy does.
    proxied: Option<(Port, u16)>,
    sasl: Option<Port>,
    mtls: Option<Port>,
}

impl Kafka {
    /// Ready for clients when it returns.
    pub fn start(spec: KafkaSpec) -> Result<Kafka> {
        if ![1, 3].contains(&spec.nodes) {
            return Err(Failure(format!("{} nodes: 1 or 3", spec.nodes)));
        }
        let folder = Folder::open(spec.home)?;
        let toxiproxy = spec.proxied.then(Toxiproxy::start).transpose()?;
        let secured = spec.secured.then(|| Secured::make(&folder.path.join("tls"))).transpose()?;
        let heap = if spec.nodes == 1 { 256 } else { 192 };
        let ids = 1..=spec.nodes;
        let ports = ids.clone().map(|id| Ports::claim(id, spec.port, toxiproxy.as_ref(), spec.secured)).collect::<Result<Vec<_>>>()?;
        for (id, own) in ids.clone().zip(&ports) {
            let node = node_folder(&folder, id);
            std::fs::create_dir_all(&node)?;
            let text = properties::text(id, own, &ports, &node, secured.as_ref(), &spec.properties);
            std::fs::write(node.join("server.properties"), text)?;
            if !node.join("data/meta.properties").exists() {
                format(&node, secured.is_some())?;
            }
        }
        let mut nodes = Vec::new();
        for (id, ports) in ids.zip(ports) {
            let folder_of = node_folder(&folder, id);
            let process = Slot::new(launch(id, &folder_of, heap, folder.detached)?);
            nodes.push(Node { id, ports, folder: folder_of, process });
        }
        for node in &nodes {
            node.process.wait_ready(ready)?;
        }
        Ok(Kafka { nodes, toxiproxy, secured, folder, heap })
    }

    /// One broker for all tests of this process that do nothing to it.
    pub fn shared() -> &'static Kafka {
        static SHARED: LazyLock<Kafka> = LazyLock::new(|| Kafka::start(KafkaSpec::default()).expect("Kafka starts"));
        &SHARED
    }

    /// `host:port,…`, straight to the brokers.
    pub fn brokers(&self) -> String {
        self.addresses(|ports| Some(ports.client.address()))
    }

    /// `host:port,…`, through the proxies, also after the first question. Empty without proxies.
    pub fn proxied(&self) -> String {
        self.addresses(|ports| ports.proxied.as_ref().map(|(_, proxy)| format!("127.0.0.1:{proxy}")))
    }

    /// `host:port,…` with SASL over TLS. Empty unless secured.
    pub fn sasl(&self) -> String {
        self.addresses(|ports| ports.sasl.as_ref().map(Port::address))
    }

    /// `host:port,…` with client certificates. Empty unless secured.
    pub fn mtls(&self) -> String {
        self.addresses(|ports| ports.mtls.as_ref().map(Port::address))
    }

    fn addresses(&self, of: impl Fn(&Ports) -> Option<String>) -> String {
        self.nodes.iter().filter_map(|node| of(&node.ports)).collect::<Vec<_>>().join(",")
    }

    /// Certificates and users.
    pub fn secured(&self) -> Result<&Secured> {
        self.secured.as_ref().ok_or_else(|| Failure("this Kafka was not started secured".to_owned()))
    }

    /// Its proxies, called as by `Kafka::proxy_name`.
    pub fn toxiproxy(&self) -> Result<&Toxiproxy> {
        self.toxiproxy.as_ref().ok_or_else(|| Failure("this Kafka was started without proxies".to_owned()))
    }

    pub fn proxy_name(node: usize) -> String {
        format!("kafka-{node}")
    }

    /// Ends the connections to this broker's proxy and refuses new ones. Nodes are numbered from 1.
    pub fn cut(&self, node: usize) -> Result<()> {
        self.toxiproxy()?.cut(&Kafka::proxy_name(node))
    }

    /// Undoes `cut` and whatever else the proxy does.
    pub fn heal(&self, node: usize) -> Result<()> {
        self.toxiproxy()?.heal(&Kafka::proxy_name(node))
    }

    /// As by kill -9.
    pub fn kill(&self, node: usize) -> Result<()> {
        self.node(node)?.process.kill();
        Ok(())
    }

    /// Starts it again on its ports and data, after a kill or as one; ready when it returns.
    pub fn restart(&self, node: usize) -> Result<()> {
        let node = self.node(node)?;
        node.process.restart(|| launch(node.id, &node.folder, self.heap, self.folder.detached))?;
        node.process.wait_ready(ready)
    }

    /// SIGSTOP: connections stay and nothing answers.
    pub fn pause(&self, node: usize) -> Result<()> {
        self.node(node)?.process.signal(Signal::STOP)
    }

    pub fn resume(&self, node: usize) -> Result<()> {
        self.node(node)?.process.signal(Signal::CONT)
    }

    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.process.pid()).collect()
    }

    /// One of Kafka's command-line classes, such as `org.apache.kafka.tools.TopicCommand`, with `--bootstrap-server`.
    /// Gives what it printed.
    pub fn tool(&self, class: &str, args: &[&str]) -> Result<String> {
        let mut command = java::class(class, 128)?;
        command.args(["--bootstrap-server", &self.brokers()]).args(args);
        java::run(command)
    }

    /// `configs` are `name=value`.
    pub fn create_topic(&self, name: &str, partitions: i32, configs: &[&str]) -> Result<()> {
        let partitions = partitions.to_string();
        let mut args = vec!["--create", "--topic", name, "--partitions", &partitions];
        args.extend(configs.iter().flat_map(|config| ["--config", config]));
        self.tool("org.apache.kafka.tools.TopicCommand", &args).map(|_| ())
    }

    fn node(&self, node: usize) -> Result<&Node> {
        self.nodes.iter().find(|n| n.id == node).ok_or_else(|| Failure(format!("no node {node} of {}", self.nodes.len())))
    }
}

impl Ports {
    fn claim(id: usize, first: Option<u16>, toxiproxy: Option<&Toxiproxy>, secured: bool) -> Result<Ports> {
        let at = |offset: u16| match first {
            Some(first) => Port::fixed(first + (id as u16 - 1) * 100 + offset, "Kafka"),
            None => Port::free(),
        };
        let (client, controller) = (at(0)?, at(1)?);
        let proxied = match toxiproxy {
            Some(toxiproxy) => {
                let behind = Port::free()?;
                let proxy = toxiproxy.proxy(&Kafka::proxy_name(id), &behind.address())?;
                Some((behind, proxy))
            }
            None => None,
        };
        let more = || secured.then(Port::free).transpose();
        Ok(Ports { client, controller, proxied, sasl: more()?, mtls: more()? })
    }
}

fn node_folder(folder: &Folder, id: usize) -> PathBuf {
    folder.path.join(format!("node-{id}"))
}

fn format(node: &std::path::Path, secured: bool) -> Result<()> {
    let mut command = java::class("kafka.tools.StorageTool", 128)?;
    command.args(["format", "-t", CLUSTER, "-c"]).arg(node.join("server.properties"));
    if secured {
        for user in Secured::SCRAM {
            command.args(["--add-scram", user]);
        }
    }
    java::run(command).map(|_| ())
}

/// The same for all, so that a node is of its cluster without asking.
const CLUSTER: &str = "Rm9yZWJheVNlcnZpY2VzIQ";

fn launch(id: usize, folder: &std::path::Path, heap: u32, detached: bool) -> Result<Process> {
    let mut program = java::broker(heap)?;
    program.arg(folder.join("server.properties"));
    Process::start(&format!("Kafka node {id}"), program, &folder.join("kafka.log"), detached)
}

fn ready(process: &Process) -> bool {
    process.log_text().contains("Kafka Server started")
}
