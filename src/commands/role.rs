//! `forebay gateway`, `forebay enricher`, `forebay sink NAME`: one part in a process of its own, for production.

use crate::config::{Config, Inputs};
use crate::failure::{Exit, Failure};
use crate::node::{Node, Part, Plan};
use crate::serve::{say, serve};
use clap::Args;
use forebay_enricher::StateChanges;
use forebay_schemas::time::Micros;
use std::path::PathBuf;

/// Sinks by name.
const SINKS: [(&str, Part); 1] = [("table", Part::Table)];

/// Run the gateway alone: requests to the spool, the log and the raw landing
#[derive(Args)]
#[command(
    after_help = "Example:\n  forebay gateway --config /etc/forebay/forebay.toml\n\nIt acknowledges while the log or the object store is away, up to gateway.spool.max_bytes. One SIGTERM lands and publishes what was accepted and ends with 0, or with 3 and what is left; a second one ends at once."
)]
pub struct Gateway {
    #[command(flatten)]
    role: Role,
}

/// Run the enricher alone: harvested events to trusted and bad ones, each once
#[derive(Args)]
#[command(
    after_help = "Example:\n  forebay enricher --config /etc/forebay/forebay.toml\n\nIt ends with 1 when another process takes its lanes, and when the log refuses it: `forebay topics check` says more."
)]
pub struct Enricher {
    #[command(flatten)]
    role: Role,
    #[command(flatten)]
    changes: Changes,
}

/// What may change in the enricher's state at this start.
#[derive(Args, Clone)]
pub struct Changes {
    /// A window's uid: it is not declared any more, and its state may go. As often as there are such
    #[arg(long, value_name = "UID")]
    allow_dropped_state: Vec<String>,
    /// Windows that have begun keep the bounds that older time zone rules gave them; from T on those of this build hold
    #[arg(long, value_name = "T", value_parser = super::parse_time)]
    zone_rules_since: Option<Micros>,
}

impl From<Changes> for StateChanges {
    fn from(changes: Changes) -> StateChanges {
        StateChanges { dropped_windows: changes.allow_dropped_state, zone_rules_since: changes.zone_rules_since }
    }
}

/// Run one sink alone: trusted events to where they are queried
#[derive(Args)]
#[command(after_help = "Example:\n  forebay sink table --config /etc/forebay/forebay.toml")]
pub struct Sink {
    /// Which: table
    #[arg(value_name = "NAME", value_parser = parse_sink)]
    sink: Part,
    #[command(flatten)]
    role: Role,
}

#[derive(Args)]
struct Role {
    /// The configuration; without one: FOREBAY_CONFIG, else ./forebay.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub fn gateway(arguments: Gateway) -> Result<Exit, Failure> {
    run(Part::Gateway, arguments.role, StateChanges::default())
}

pub fn enricher(arguments: Enricher) -> Result<Exit, Failure> {
    run(Part::Enricher, arguments.role, arguments.changes.into())
}

pub fn sink(arguments: Sink) -> Result<Exit, Failure> {
    run(arguments.sink, arguments.role, StateChanges::default())
}

fn run(part: Part, role: Role, changes: StateChanges) -> Result<Exit, Failure> {
    let file = role.config.or_else(super::config::default_file);
    let mut config = Config::load(&Inputs { file, ..Inputs::default() }.with_env()).map_err(|e| Failure::configuration(&e))?;
    config.enricher.changes = changes;
    serve(Plan::role(config, part)?, |node| {
        say(&started(part, node));
        Ok(())
    })
}

fn started(part: Part, node: &Node) -> String {
    let events = node.listen.map_or_else(String::new, |listen| format!("\n  events  http://{listen}"));
    format!("forebay {} has started{events}\n  admin   {}", part.name(), node.admin_url())
}

fn parse_sink(name: &str) -> Result<Part, String> {
    let known = || SINKS.map(|(name, _)| name).join(", ");
    SINKS
        .into_iter()
        .find_map(|(sink, part)| (sink == name).then_some(part))
        .ok_or_else(|| format!("there is no sink of this name; there is {}", known()))
}
