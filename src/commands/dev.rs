//! `forebay dev`: everything in one process, on a folder.

use super::role::Changes;
use crate::config::{Config, Inputs};
use crate::failure::{Exit, Failure};
use crate::node::{Node, Plan, shown};
use crate::serve::{say, serve};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Run gateway, enricher and table sink in one process, on the embedded log and a folder
#[derive(Args)]
#[command(
    after_help = "Example: keep the data elsewhere, remember ids for a day alone:\n  FOREBAY__ENRICHER__DEDUP__TTL=1d forebay dev --data /var/lib/forebay\n\nOne SIGINT or SIGTERM finishes what was accepted and ends with 0, or with 3 and what is left; a second one ends at once."
)]
pub struct Arguments {
    /// The folder of everything it keeps [default: ./forebay-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where events come in [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Health, metrics and /api [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// The configuration; without one: FOREBAY_CONFIG, else ./forebay.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    changes: Changes,
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let started = Instant::now();
    let changes = arguments.changes.clone().into();
    let mut config = Config::load(&inputs(arguments)).map_err(|e| Failure::configuration(&e))?;
    config.enricher.changes = changes;
    let plan = Plan::dev(config.clone())?;
    serve(plan, |node| {
        let rejects = node.print_rejects()?;
        say(&welcome(node, &config, started.elapsed()));
        Ok(rejects)
    })
}

fn inputs(arguments: Arguments) -> Inputs {
    let file = arguments.config.or_else(super::config::default_file);
    let flags = [
        ("--data", "data", arguments.data.map(|d| d.display().to_string())),
        ("--listen", "gateway.listen", arguments.listen.map(|a| a.to_string())),
        ("--admin", "gateway.admin", arguments.admin.map(|a| a.to_string())),
    ];
    let flags = flags.into_iter().filter_map(|(flag, key, value)| Some((flag, key, value?))).collect();
    Inputs { file, flags, ..Inputs::default() }.with_env()
}

fn welcome(node: &Node, config: &Config, took: Duration) -> String {
    let data = shown(&config.data);
    let default = crate::config::DEFAULT_DATA;
    let flag = if data == default { String::new() } else { format!(" --data {data}") };
    let listen = node.listen.expect("dev has a gateway");
    let to = if listen.port() == 8080 && listen.ip().is_loopback() { String::new() } else { format!(" --to http://{listen}") };
    let backend = match config.enricher.backend {
        forebay_enricher::state::Kind::Memory => "memory",
        forebay_enricher::state::Kind::RocksDb => "rocksdb",
    };
    let keyless = config.sources.iter().all(|s| s.write_keys.is_empty());
    let (keys, key) = if keyless { ("any write key", "") } else { ("a write key of its source", " -H 'authorization: Bearer KEY'") };
    format!(
        "forebay is ready, after {:.1} s\n  events  http://{}  with {keys}\n  admin   {}  tokens in {data}/admin.json\n  data    {data}  state in {backend}, settings in {data}/forebay.toml\n\ntry:\n  \
         curl -sS http://{}/v1/events{key} -H 'content-type: application/json' -d '{{\"event_type\":\"page_viewed\",\"anonymous_id\":\"me\",\"properties\":{{}}}}'\n  \
         ./x forebay send RECORDING.jsonl{to}\n  ./x forebay tail trusted{flag}\n  ./x forebay explain EVENT_ID{flag}\n\n\
         in DuckDB, whose iceberg extension docs/table.md says how to load:\n  {}\n\nrejects are told here as they come:",
        took.as_secs_f64(),
        listen,
        node.admin_url(),
        listen,
        node.duckdb_lines().join("\n  "),
    )
}
