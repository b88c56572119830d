//! `forebay raw`: the raw landing, as it arrived.

use crate::failure::{Exit, Failure};
use crate::print;
use crate::read::Query;
use crate::system::Where;
use base64::Engine;
use clap::{Args, Subcommand};
use forebay_schemas::id::RequestId;
use forebay_schemas::time::Micros;
use std::ops::ControlFlow;

/// List and read the raw landing: every request as it arrived
#[derive(Args)]
#[command(
    after_help = "Example: the body of one request, byte for byte:\n  forebay raw cat raw/dt=2026-11-30/hr=10/gw-0190….avro --request 0190a6c4-… --body"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List objects, and segments that are not landed yet, in order of time
    #[command(after_help = "Example:\n  forebay raw ls --from 2026-11-30T10:00:00Z")]
    Ls {
        /// Segments that may hold requests received at or after this time (RFC 3339)
        #[arg(long, value_name = "T", value_parser = super::parse_time)]
        from: Option<Micros>,
        /// … or before this time
        #[arg(long, value_name = "T", value_parser = super::parse_time)]
        to: Option<Micros>,
        /// One JSON object a segment
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        system: Where,
    },
    /// Print the requests of an object or segment, one JSON object each, or their bodies
    #[command(after_help = "Example:\n  forebay raw cat raw/dt=2026-11-30/hr=10/gw-0190….avro --body")]
    Cat {
        /// Its name, or a segment's, as `raw ls` shows it
        #[arg(value_name = "OBJECT")]
        object: String,
        /// This request alone
        #[arg(long, value_name = "ID")]
        request: Option<RequestId>,
        /// The bodies as they arrived; each with a line end behind it, unless one request is asked for
        #[arg(long)]
        body: bool,
        /// One JSON object a request (so unless --body)
        #[arg(long, conflicts_with = "body")]
        json: bool,
        #[command(flatten)]
        system: Where,
    },
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Ls { from, to, json, system } => list(from, to, json, &system),
        Action::Cat { object, request, body, json: _, system } => cat(object, request, body, &system),
    }
}

fn list(from: Option<Micros>, to: Option<Micros>, json: bool, system: &Where) -> Result<Exit, Failure> {
    let segments = system.find()?.answers(&Query::RawSegments { from, to })?;
    if json {
        for segment in &segments {
            if print::line(&segment.to_string())?.is_break() {
                break;
            }
        }
        return Ok(Exit::Done);
    }
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    print::table(&segments.iter().map(|s| vec![text(&s["name"]), text(&s["bytes"]), text(&s["place"])]).collect::<Vec<_>>())?;
    Ok(Exit::Done)
}

fn cat(segment: String, request: Option<RequestId>, body: bool, system: &Where) -> Result<Exit, Failure> {
    let query = Query::RawRequests { segment, request };
    let printed = system.find()?.ask(&query, &mut |line| {
        if !body {
            return print::line(line);
        }
        let raw: serde_json::Value = serde_json::from_str(line).map_err(Failure::failed)?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(raw["body"].as_str().unwrap_or_default()).map_err(Failure::failed)?;
        if print::bytes(&bytes)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if request.is_some() { Ok(ControlFlow::Continue(())) } else { print::bytes(b"\n") }
    });
    printed
        .map_err(|failure| failure.or_next("`forebay raw ls` lists what is kept; `raw cat OBJECT` without --request prints all of one"))?;
    Ok(Exit::Done)
}
