//! `./x up` and `./x down`: the services for work by hand, and a configuration that finds them.
//!
//! Owns: one folder, with the services' data, the configuration and what it names. Does not own: Forebay's processes.
//! Invariant: nothing is ended but what was started here, and nothing is started twice.

use crate::record::{self, Record};
use crate::s3::{ACCESS_KEY, SECRET_KEY};
use crate::{Failure, Home, Kafka, KafkaSpec, Registry, RegistrySpec, Result, S3, S3Spec, process};
use std::fmt::Write;
use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const BUCKET: &str = "forebay";
const TOKEN_BYTES: usize = 16;

pub struct Options {
    pub folder: PathBuf,
    /// Of Kafka: 1 or 3. Default: as many as the folder has, else 1.
    pub nodes: Option<usize>,
    pub ports: Ports,
    /// The product's binary.
    pub forebay: PathBuf,
}

#[derive(Clone, Copy)]
pub struct Ports {
    /// Of the first node, as in `KafkaSpec::port`.
    pub kafka: u16,
    pub s3: u16,
    pub registry: u16,
    /// For the configuration: events, then the roles' admin listeners.
    pub gateway: u16,
    pub admins: [u16; 3],
}

impl Default for Ports {
    fn default() -> Ports {
        Ports { kafka: 9092, s3: 9000, registry: 8085, gateway: 8080, admins: [8081, 8082, 8083] }
    }
}

impl Ports {
    /// All from this one on.
    pub fn from(first: u16) -> Ports {
        let at = |offset| first + offset;
        Ports { kafka: first, s3: at(10), registry: at(11), gateway: at(20), admins: [at(21), at(22), at(23)] }
    }
}

/// Starts what does not run; gives what there is to say.
pub fn up(options: &Options) -> Result<String> {
    let folder = &options.folder;
    let _lock = lock(folder)?;
    let nodes = nodes(options)?;
    let records = record::read_all(folder)?;
    let alive = records.iter().filter(|record| record.is_alive()).count();
    // Kafka's nodes, the S3 server, the registry.
    let already = alive == nodes + 2;
    if !already {
        record::end(&records)?;
        std::fs::write(nodes_file(folder), nodes.to_string())?;
        start(options, nodes).inspect_err(|_| {
            // What was started before it failed; the first failure is the one to tell.
            let _ = record::read_all(folder).and_then(|records| record::end(&records));
        })?;
    }
    configure(options, nodes)?;
    let mut apply = Command::new(&options.forebay);
    apply.args(["topics", "apply", "--config"]).arg(config_file(folder));
    process::output(apply)?;
    Ok(told(options, &record::read_all(folder)?, already))
}

/// Ends what `up` started; gives what there is to say.
pub fn down(folder: &Path, wipe: bool) -> Result<String> {
    let _lock = lock(folder)?;
    let records = record::read_all(folder)?;
    let mut said = String::new();
    for record in &records {
        let how = if record.is_alive() { "ended" } else { "had ended" };
        let _ = writeln!(said, "{how}  {} (process {})", record.name, record.pid);
    }
    record::end(&records)?;
    if records.is_empty() {
        said.push_str("nothing was up\n");
    }
    if wipe {
        std::fs::remove_dir_all(folder)?;
        let _ = writeln!(said, "removed {}", folder.display());
    } else {
        let _ = writeln!(said, "kept   {}; `./x down --wipe` removes it", folder.display());
    }
    Ok(said)
}

/// One `up` or `down` at a time.
fn lock(folder: &Path) -> Result<File> {
    std::fs::create_dir_all(folder)?;
    let file = File::create(folder.join(".lock"))?;
    file.lock()?;
    Ok(file)
}

fn nodes_file(folder: &Path) -> PathBuf {
    folder.join("nodes")
}

fn config_file(folder: &Path) -> PathBuf {
    folder.join("forebay.toml")
}

fn nodes(options: &Options) -> Result<usize> {
    let there = std::fs::read_to_string(nodes_file(&options.folder)).ok().and_then(|text| text.trim().parse().ok());
    match (options.nodes, there) {
        (Some(asked), Some(there)) if asked != there => Err(Failure(format!(
            "{} holds a Kafka of {there} nodes, not {asked}: `./x down --wipe` removes it with all its data",
            options.folder.display()
        ))),
        (asked, there) => Ok(asked.or(there).unwrap_or(1)),
    }
}

fn start(options: &Options, nodes: usize) -> Result<()> {
    let home = |name: &str| Home::Detached(options.folder.join(name));
    let ports = options.ports;
    let s3 = S3::with(S3Spec { home: home("s3"), port: Some(ports.s3) })?;
    s3.create_bucket(BUCKET)?;
    Registry::with(RegistrySpec { home: home("registry"), port: Some(ports.registry), ..RegistrySpec::default() })?;
    let kafka = KafkaSpec { home: home("kafka"), nodes, proxied: false, port: Some(ports.kafka), ..KafkaSpec::default() };
    Kafka::start(kafka).map(|_| ())
}

/// Writes the configuration, and what it names where that is missing.
fn configure(options: &Options, nodes: usize) -> Result<()> {
    let folder = &options.folder;
    if !folder.join("keys/mask.key").exists() {
        let mut make = Command::new(&options.forebay);
        make.args(["keys", "make"]).arg(folder.join("keys"));
        process::output(make)?;
    }
    secret(&folder.join("s3_secret"), SECRET_KEY)?;
    if !folder.join("token").exists() {
        let mut bytes = [0; TOKEN_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        secret(&folder.join("token"), &bytes.map(|byte| format!("{byte:02x}")).concat())?;
    }
    Ok(std::fs::write(config_file(folder), config(options, nodes))?)
}

fn secret(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text)?;
    Ok(std::fs::set_permissions(file, Permissions::from_mode(0o600))?)
}

fn config(options: &Options, nodes: usize) -> String {
    let Ports { kafka, s3, registry, gateway, admins: [admin_gateway, admin_enricher, admin_table] } = options.ports;
    let brokers = (0..nodes).map(|node| format!("127.0.0.1:{}", usize::from(kafka) + 100 * node)).collect::<Vec<_>>();
    // A quoted path in Rust is one in TOML.
    let path = |name: &str| format!("{:?}", options.folder.join(name));
    let (data, token, secret) = (path("data"), path("token"), path("s3_secret"));
    let (mask, public, private) = (path("keys/mask.key"), path("keys/bad_public.key"), path("keys/bad_private.key"));
    let (catalogue, replicas_min) = (path("catalog.sqlite"), nodes.div_ceil(2));
    format!(
        "# Written by `./x up`, anew each time: copy it before you change it.
data = {data}

[gateway]
listen = \"127.0.0.1:{gateway}\"
admin = \"127.0.0.1:{admin_gateway}\"

[log]
kind = \"kafka\"
brokers = {brokers:?}
replicas = {nodes}
min_insync_replicas = {replicas_min}
registry.url = \"http://127.0.0.1:{registry}\"

[objects]
kind = \"s3\"
bucket = \"{BUCKET}\"
endpoint = \"http://127.0.0.1:{s3}\"
access_key_id = \"{ACCESS_KEY}\"
secret_access_key_file = {secret}

[enricher]
admin = \"127.0.0.1:{admin_enricher}\"

[catalog.keys]
mask_file = {mask}
bad_public_file = {public}
bad_private_file = {private}

[sink.table]
admin = \"127.0.0.1:{admin_table}\"
warehouse = \"s3://{BUCKET}/warehouse\"
catalogue = {catalogue}

[admin]
token_file = {token}
"
    )
}

fn told(options: &Options, records: &[Record], already: bool) -> String {
    let mut said = String::from(if already { "already up\n" } else { "up\n" });
    for record in records {
        let _ = writeln!(said, "  {} (process {})", record.name, record.pid);
    }
    let config = config_file(&options.folder).display().to_string();
    let _ = writeln!(
        said,
        "  configuration  {config}\n\nEach in a terminal of its own:\n  ./x forebay gateway --config {config}\n  ./x forebay enricher --config {config}\n  ./x forebay sink table --config {config}\nEvents go to http://127.0.0.1:{}; `./x down` ends the services.",
        options.ports.gateway
    );
    said
}
