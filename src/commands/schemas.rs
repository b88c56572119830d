//! `forebay schemas`: the event catalogue, and drafts of what is missing in it.

use crate::config::{Config, Inputs};
use crate::failure::{Exit, Failure};
use crate::system::Where;
use crate::{catalogue, print, rejects};
use clap::{Args, Subcommand};
use forebay_schemas::catalog::{self, EventType, normalise};
use forebay_schemas::dialect::Dialect;
use forebay_schemas::json::{self, Json};
use forebay_schemas::limit;
use forebay_schemas::reason::Reason;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// List, check and draft the types of events that may arrive
#[derive(Args)]
#[command(
    after_help = "Example: a first type for events that were rejected as unknown:\n  forebay schemas infer\n  forebay schemas infer 'Left Page' > events/left_page/1-0-0.json"
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
        #[command(flatten)]
        place: Place,
    },
    /// Draft a schema from rejects, every field left to classify; without a name: which names were rejected
    #[command(after_help = "Example:\n  forebay schemas infer 'Left Page' > events/left_page/1-0-0.json")]
    Infer {
        /// The event's name as its sender calls it
        name: Option<String>,
        /// The private key that rejects are sealed for; without one: `catalog.keys.bad_private_file`
        #[arg(long, value_name = "F")]
        key_file: Option<PathBuf>,
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
        Action::Check { dir, place } => check(dir, &place),
        Action::Infer { name, key_file, system } => infer(name.as_deref(), key_file, &system),
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

fn check(dir: Option<PathBuf>, place: &Place) -> Result<Exit, Failure> {
    let dir = match dir {
        Some(dir) => Some(dir),
        None => place.dir()?,
    };
    let catalog = catalogue::load(dir.as_deref())?;
    let over = dir.map_or_else(String::new, |dir| format!(", {} over the built-in ones", dir.display()));
    print::last(&format!("good: {} types{over}", catalog.types().count()))?;
    Ok(Exit::Done)
}

fn infer(name: Option<&str>, key_file: Option<PathBuf>, system: &Where) -> Result<Exit, Failure> {
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
    let mut samples: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for reject in &opened {
        if let Some((name, properties)) = sample(reject.event.dialect, &reject.event.payload) {
            samples.entry(name).or_default().push(properties);
        }
    }
    let Some(name) = name else {
        for (name, samples) in &samples {
            if print::line(&format!("{:>8}  {name}", samples.len()))?.is_break() {
                break;
            }
        }
        return Ok(Exit::Done);
    };
    let wanted = normalise(name);
    let texts: Vec<&String> = samples.iter().filter(|(name, _)| normalise(name) == wanted).flat_map(|(_, texts)| texts).collect();
    if texts.is_empty() {
        return Err(Failure::failed(anyhow::anyhow!("no event of this name was rejected as unknown"))
            .next("`forebay schemas infer` without a name lists the names"));
    }
    let parsed: Vec<Json<'_>> = texts.iter().filter_map(|text| json::parse(text.as_bytes(), limit::JSON_DEPTH).ok()).collect();
    print::last(catalog::infer(&wanted, &parsed).trim_end())?;
    Ok(Exit::Done)
}

/// The name and the properties (JSON text) of a rejected event.
fn sample(dialect: Dialect, payload: &[u8]) -> Option<(String, String)> {
    let event = json::parse(payload, limit::JSON_DEPTH).ok()?;
    let text = |key: &str| event.get(key).and_then(Json::as_str).map(str::to_owned);
    match dialect {
        Dialect::Native => Some((text("event_type")?, properties(&event, &["properties"]))),
        Dialect::Segment => Some((text("event").or_else(|| text("name"))?, properties(&event, &["properties", "traits"]))),
        Dialect::Posthog => Some((text("event")?, properties(&event, &["properties"]))),
        Dialect::Snowplow => {
            // A self-describing event: {"schema": "iglu:…unstruct_event…", "data": {"schema": "iglu:vendor/name/…", "data": {…}}}.
            let outer = text("ue_pr").or_else(|| Some(String::from_utf8_lossy(&decoded(&text("ue_px")?)?).into_owned()))?;
            let outer = json::parse(outer.as_bytes(), limit::JSON_DEPTH).ok()?;
            let name = outer.at(&["data", "schema"])?.as_str()?.split('/').nth(1)?.to_owned();
            Some((name, outer.at(&["data", "data"])?.to_string()))
        }
    }
}

fn properties(event: &Json<'_>, members: &[&str]) -> String {
    members.iter().find_map(|member| event.get(member)).map_or_else(|| "{}".to_owned(), Json::to_string)
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
}
