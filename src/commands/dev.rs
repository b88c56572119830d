//! `forebay dev`: everything in one process, on a folder.

use crate::config::{Config, Inputs};
use crate::failure::{Exit, Failure};
use crate::node::{Node, Plan, shown};
use clap::Args;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often a part that has given up is looked for.
const LOOK: Duration = Duration::from_millis(200);

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
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let started = Instant::now();
    let config = Config::load(&inputs(arguments)).map_err(|e| Failure::configuration(&e))?;
    let plan = Plan::new(config.clone())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("forebay-http").build().map_err(Failure::failed)?;
    let end = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let node = tokio::select! {
            node = plan.start() => node?,
            () = signals.any() => return Ok(Exit::Done),
        };
        let rejects = node.print_rejects()?;
        say(&welcome(&node, &config, started.elapsed()));
        let failed = tokio::select! {
            why = failure(&node) => Some(why),
            () = signals.any() => None,
        };
        say("stopping: what was accepted is finished; a second signal stops now");
        let remaining = node.remaining();
        let left = tokio::select! {
            left = node.drain() => left,
            () = signals.any() => remaining.told().await,
        };
        drop(rejects);
        end(failed, &left)
    });
    // Threads that a second signal has overtaken are not waited for.
    runtime.shutdown_background();
    end
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

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Signals, Failure> {
        let of = |kind| signal(kind).map_err(Failure::failed);
        Ok(Signals { interrupt: of(SignalKind::interrupt())?, terminate: of(SignalKind::terminate())? })
    }
    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

async fn failure(node: &Node) -> String {
    loop {
        if let Some(why) = node.failed() {
            return why;
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn end(failed: Option<String>, left: &[String]) -> Result<Exit, Failure> {
    if let Some(why) = failed {
        return Err(Failure::failed(anyhow::anyhow!(why)).next("nothing that was acknowledged is lost; mend the cause and start again"));
    }
    if left.is_empty() {
        say("stopped; nothing is left to do");
        return Ok(Exit::Done);
    }
    say(&format!("stopped; left on disk: {}. The next start goes on with it", left.join("; ")));
    Ok(Exit::WorkLeft)
}

fn welcome(node: &Node, config: &Config, took: Duration) -> String {
    let data = shown(&config.data);
    let default = crate::config::DEFAULT_DATA;
    let flag = if data == default { String::new() } else { format!(" --data {data}") };
    let to =
        if node.listen.port() == 8080 && node.listen.ip().is_loopback() { String::new() } else { format!(" --to http://{}", node.listen) };
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
        node.listen,
        node.admin_url(),
        node.listen,
        node.duckdb_line(),
    )
}

/// Nobody may be listening any more; that stops nothing.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
