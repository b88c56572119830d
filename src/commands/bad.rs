//! `forebay bad`: what was rejected and why; its payload for the holder of the key alone.

use crate::failure::{Exit, Failure};
use crate::read::Query;
use crate::system::Where;
use crate::{print, rejects};
use clap::{Args, Subcommand};
use forebay_schemas::reason::Reason;
use forebay_schemas::wire::harvested::Content;
use serde_json::{Value, json};
use std::path::PathBuf;

/// List rejects; open one with the private key
#[derive(Args)]
#[command(
    after_help = "Example: what does this sender call its events?\n  forebay bad ls --reason unknown_event_type\n  forebay bad show EVENT_ID --key-file forebay-data/keys/bad_private.key"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List rejects: when, whose, at which stage, why
    #[command(after_help = "Example:\n  forebay bad ls --reason schema_violation")]
    Ls {
        /// Of this reason alone (docs/bad-events.md lists them)
        #[arg(long, value_name = "R", value_parser = parse_reason)]
        reason: Option<Reason>,
        /// One JSON object a reject
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        system: Where,
    },
    /// Print rejects of an event id with their payload
    #[command(
        after_help = "Example:\n  forebay bad show 8c71cb1e-6d46-4be7-a9f4-3f03b299bb45 --key-file forebay-data/keys/bad_private.key"
    )]
    Show {
        /// The id as its sender gave it, or as `bad ls` shows it
        #[arg(value_name = "EVENT_ID")]
        event_id: String,
        /// The private key that rejects are sealed for
        #[arg(long, value_name = "F")]
        key_file: PathBuf,
        /// One JSON object a reject, with the event in it
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        system: Where,
    },
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Ls { reason, json, system } => list(reason, json, &system),
        Action::Show { event_id, key_file, json, system } => show(event_id, &key_file, json, &system),
    }
}

fn list(reason: Option<Reason>, json: bool, system: &Where) -> Result<Exit, Failure> {
    let query = Query::Bad { reason, event_id: None, sealed: false };
    let mut rows = vec![["FAILED AT", "SOURCE", "DIALECT", "STAGE", "REASON", "EVENT ID", "DETAIL"].map(str::to_owned).to_vec()];
    system.find()?.ask(&query, &mut |line| {
        if json {
            return print::line(line);
        }
        let bad: Value = serde_json::from_str(line).map_err(Failure::failed)?;
        let cell = |name: &str| bad[name].as_str().unwrap_or_default().to_owned();
        rows.push(["failed_at", "source", "dialect", "stage", "reason", "event_id", "detail"].map(cell).to_vec());
        Ok(std::ops::ControlFlow::Continue(()))
    })?;
    if !json && rows.len() > 1 {
        print::table(&rows)?;
    }
    Ok(Exit::Done)
}

fn show(event_id: String, key_file: &std::path::Path, json: bool, system: &Where) -> Result<Exit, Failure> {
    let key = rejects::key(key_file)?;
    let opened = rejects::open(&system.find()?, &key, None, Some(event_id.clone()))?;
    if opened.is_empty() {
        return Err(Failure::failed(anyhow::anyhow!("no reject has the event id {event_id}"))
            .next("`forebay bad ls` lists them; `forebay explain` tells what became of an event"));
    }
    for reject in &opened {
        let mut object = crate::read::rendered_clear(&reject.clear);
        object.insert("event".to_owned(), Value::Object(crate::read::rendered_harvested(&reject.event)));
        let text = if json { Value::Object(object).to_string() } else { text(reject, &object) };
        if print::line(&text)?.is_break() {
            break;
        }
    }
    Ok(Exit::Done)
}

fn text(reject: &rejects::Opened, object: &serde_json::Map<String, Value>) -> String {
    let mut text = String::new();
    for name in ["event_id", "source", "dialect", "received_at", "stage", "reason", "detail", "request_id"] {
        let value = object.get(name).cloned().unwrap_or(json!(null));
        text.push_str(&format!("{name:<12} {}\n", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    let payload = match reject.event.content {
        Content::Json | Content::Query => String::from_utf8_lossy(&reject.event.payload).into_owned(),
        Content::Bytes => {
            format!("{} bytes, base64: {}", reject.event.payload.len(), object["event"]["payload"].as_str().unwrap_or_default())
        }
    };
    text.push_str(&format!("{:<12} {payload}\n", "payload"));
    text
}

fn parse_reason(text: &str) -> Result<Reason, String> {
    Reason::from_name(text).ok_or_else(|| format!("expected one of {}", Reason::ALL.map(Reason::name).join(", ")))
}
