//! `forebay schemas`: the event catalogue, and drafts of what is missing in it.

use crate::config::{Config, Inputs};
use crate::failure::{Exit, Failure};
use crate::system::Where;
use crate::{catalogue, print, rejects};
use clap::{Args, Subcommand};
use forebay_enricher_core::admit::decode;
use forebay_schemas::catalog::{self, EventType, ForeignNames, normalise};
use forebay_schemas::dialect::Dialect;
use forebay_schemas::json::{self, Json};
use forebay_schemas::limit;
use forebay_schemas::reason::Reason;
use forebay_schemas::wire::harvested::Harvested;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// List, check and draft the types of events that may arrive
#[derive(Args)]
#[command(
    after_help = "Example: a first type for events that were rejected as unknown:\n  forebay schemas infer\n  mkdir -p events/left_page && forebay schemas infer 'Left Page' > events/left_page/1-0-0.json"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the types with their versions and what each dialect calls them
    #[command(after_help = "Example:\n  forebay schemas ls --json | jq -r .name")]
    Ls {
        /// One JSON object a type
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Check the catalogue: every field classified, `keep` only where no text can pass; exit 2 with file and line where not
    #[command(after_help = "Example:\n  forebay schemas check ./events")]
    Check {
        /// A folder of <type>/<version>.json; without one: `catalog.dir`
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
        /// One JSON object: how many types there are; or one a defect
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Draft a schema from rejects, every field left to classify; without a name: which names were rejected
    #[command(
        after_help = "Example: of a self-describing event of Snowplow\n  mkdir -p events/thing && forebay schemas infer com.acme/thing > events/thing/1-0-0.json"
    )]
    Infer {
        /// The event's name as its sender calls it, and as the list without a name shows it
        name: Option<String>,
        /// The private key that rejects are sealed for; without one: `catalog.keys.bad_private_file`
        #[arg(long, value_name = "F")]
        key_file: Option<PathBuf>,
        /// One JSON object a name; of a draft, the schema on one line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        system: Where,
    },
}

#[derive(Args)]
struct Place {
    /// The configuration whose `catalog.dir` counts
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Ls { json, place } => list(json, &place),
        Action::Check { dir, json, place } => check(dir, json, &place),
        Action::Infer { name, key_file, json, system } => infer(name.as_deref(), key_file, json, &system),
    }
}

impl Place {
    fn dir(&self) -> Result<Option<PathBuf>, Failure> {
        let file = self.config.clone().or_else(super::config::default_file);
        Ok(Config::load(&Inputs { file, ..Inputs::default() }.with_env()).map_err(|e| Failure::configuration(&e))?.catalog.dir)
    }
}

fn list(as_json: bool, place: &Place) -> Result<Exit, Failure> {
    let catalog = catalogue::load(place.dir()?.as_deref())?;
    let mut rows = vec![["TYPE", "VERSIONS", "CALLED"].map(str::to_owned).to_vec()];
    for event_type in catalog.types() {
        let versions: Vec<&str> = event_type.versions().map(|schema| schema.version.as_str()).collect();
        if !as_json {
            rows.push(vec![event_type.name.clone(), versions.join(" "), called(event_type)]);
        } else if print::line(&json!({"name": event_type.name, "versions": versions, "names": names(event_type)}).to_string())?.is_break() {
            return Ok(Exit::Done);
        }
    }
    if !as_json {
        print::table(&rows)?;
    }
    Ok(Exit::Done)
}

fn names(event_type: &EventType) -> BTreeMap<&'static str, Vec<&str>> {
    Dialect::ALL
        .into_iter()
        .map(|dialect| (dialect.name(), event_type.names(dialect).collect::<Vec<_>>()))
        .filter(|(_, names)| !names.is_empty())
        .collect()
}

fn called(event_type: &EventType) -> String {
    names(event_type).into_iter().map(|(dialect, names)| format!("{dialect}: {}", names.join(", "))).collect::<Vec<_>>().join("; ")
}

fn check(dir: Option<PathBuf>, json: bool, place: &Place) -> Result<Exit, Failure> {
    let dir = match dir {
        Some(dir) => Some(dir),
        None => place.dir()?,
    };
    let catalog = catalogue::read(dir.as_deref())?.map_err(|errors| {
        for error in errors.iter().filter(|_| json) {
            let told = json!({"file": error.file, "line": error.line, "pointer": error.pointer, "message": error.message});
            // Whoever reads no longer still gets the exit code.
            let _ = print::line(&told.to_string());
        }
        catalogue::refused(&errors)
    })?;
    if json {
        let dir = dir.map(|dir| dir.display().to_string());
        print::last(&json!({"good": true, "types": catalog.types().count(), "dir": dir}).to_string())?;
        return Ok(Exit::Done);
    }
    let over = dir.map_or_else(String::new, |dir| format!(", {} over the built-in ones", dir.display()));
    print::last(&format!("good: {} types{over}", catalog.types().count()))?;
    Ok(Exit::Done)
}

/// What rejects of one name look like.
#[derive(Default)]
struct Samples {
    names: ForeignNames,
    /// Properties, as JSON text.
    properties: Vec<String>,
}

fn infer(name: Option<&str>, key_file: Option<PathBuf>, json: bool, system: &Where) -> Result<Exit, Failure> {
    let key_file = match key_file {
        Some(file) => file,
        None => system
            .load()?
            .catalog
            .keys
            .bad_private_file
            .ok_or_else(|| Failure::usage("no private key is configured").next("name its file by --key-file"))?,
    };
    let opened = rejects::open(&system.find()?, &rejects::key(&key_file)?, Some(Reason::UnknownEventType), None)?;
    let events = || opened.iter().map(|reject| &reject.event);
    let Some(name) = name else {
        list_names(&counts(events()), json)?;
        return Ok(Exit::Done);
    };
    let wanted = normalise(name);
    let samples = samples(events(), &wanted);
    if samples.properties.is_empty() {
        return Err(Failure::failed(anyhow::anyhow!("no event of this name was rejected as unknown"))
            .next("`forebay schemas infer` without a name lists the names"));
    }
    let draft = draft(&wanted, &samples);
    if json {
        let draft =
            json::parse(draft.as_bytes(), limit::JSON_DEPTH).map_err(|e| anyhow::anyhow!("the draft: {:?} at byte {}", e.kind, e.at))?;
        print::last(&draft.to_string())?;
    } else {
        print::last(draft.trim_end())?;
    }
    Ok(Exit::Done)
}

/// How many events each dialect sent under each name.
fn counts<'a>(events: impl Iterator<Item = &'a Harvested>) -> BTreeMap<(String, Dialect), usize> {
    let mut counts = BTreeMap::new();
    for event in events {
        if let Some((name, _)) = decode::sample(event) {
            *counts.entry((name, event.dialect)).or_default() += 1;
        }
    }
    counts
}

fn list_names(counts: &BTreeMap<(String, Dialect), usize>, json: bool) -> Result<(), Failure> {
    for ((name, dialect), count) in counts {
        let line = if json {
            json!({"name": name, "dialect": dialect.name(), "count": count}).to_string()
        } else {
            format!("{count:>8}  {:<8}  {name}", dialect.name())
        };
        if print::line(&line)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// The events whose name, normalised, is `wanted`.
fn samples<'a>(events: impl Iterator<Item = &'a Harvested>, wanted: &str) -> Samples {
    let mut samples = Samples::default();
    for event in events {
        let Some((name, properties)) = decode::sample(event).filter(|(name, _)| normalise(name) == wanted) else { continue };
        samples.properties.push(properties.to_string());
        samples.names.entry(event.dialect).or_default().insert(name);
    }
    samples
}

fn draft(wanted: &str, samples: &Samples) -> String {
    let parsed: Vec<Json<'_>> = samples.properties.iter().filter_map(|text| json::parse(text.as_bytes(), limit::JSON_DEPTH).ok()).collect();
    catalog::infer(wanted, &samples.names, &parsed)
}

#[cfg(test)]
mod tests;
