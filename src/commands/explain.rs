//! `forebay explain`: the whole story of an event, for people or as JSON.

use crate::failure::{Exit, Failure};
use crate::print;
use crate::read::{ExplainQuery, LOOKED_FROM, Query};
use crate::system::Where;
use clap::Args;
use forebay_schemas::time::Micros;
use serde_json::Value;

/// Tell an event's whole story: its requests, where they lie, each stage's verdict, what came of it
#[derive(Args)]
#[command(
    after_help = "Example: why is this event not in the table?\n  forebay explain ajs-next-1796021382055-f9e7916c-a1d0-4ade-b882-e51979b33115"
)]
pub struct Arguments {
    /// The id as its sender gave it, or as the answer did
    #[arg(value_name = "EVENT_ID")]
    event_id: String,
    /// Of this source alone
    #[arg(long, value_name = "S")]
    source: Option<String>,
    /// Received at or after this time (RFC 3339)
    #[arg(long, value_name = "T", value_parser = super::parse_time)]
    from: Option<Micros>,
    /// Received before this time
    #[arg(long, value_name = "T", value_parser = super::parse_time)]
    to: Option<Micros>,
    /// One JSON object an arrival
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    system: Where,
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { event_id, source, from, to, json, system } = arguments;
    let query = Query::Explain(ExplainQuery { event_id: event_id.clone(), source, from, to });
    let mut stories = system.find()?.answers(&query)?;
    let looked_from = stories.first().and_then(|first| first[LOOKED_FROM].as_str()).map(str::to_owned);
    if let Some(from) = &looked_from {
        stories.remove(0);
        eprintln!("looked from {from} on; --from T looks further back");
    }
    if stories.is_empty() {
        let within = looked_from.map_or_else(String::new, |from| format!(", received from {from} on"));
        return Err(Failure::failed(anyhow::anyhow!("no request carries the event id {event_id}{within}"))
            .next("was it answered 2xx, by this system, within the time asked for? `forebay raw ls` shows what is kept"));
    }
    let copies = if stories.len() == 1 { "it came once".to_owned() } else { format!("it came {} times", stories.len()) };
    if !json && print::line(&format!("event {event_id}: {copies}"))?.is_break() {
        return Ok(Exit::Done);
    }
    for (n, story) in stories.iter().enumerate() {
        let text = if json { story.to_string() } else { text(n + 1, story) };
        if print::line(&text)?.is_break() {
            break;
        }
    }
    Ok(Exit::Done)
}

/// A member as text, whatever it is.
fn show(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn text(n: usize, story: &Value) -> String {
    let request = &story["request"];
    let mut text = format!("\n{n}. received {} in request {}\n", show(&request["received_at"]), show(&request["request_id"]));
    let mut put = |name: &str, value: String| text.push_str(&format!("   {name:<10} {value}\n"));
    put(
        "source",
        format!(
            "{}, {}; event {} of its request, id from {}",
            show(&request["source"]),
            show(&request["dialect"]),
            show(&request["index"]),
            show(&request["id_origin"])
        ),
    );
    if !request["target"].is_null() {
        put("request", format!("{} {}, {} bytes", show(&request["method"]), show(&request["target"]), show(&request["body_bytes"])));
    }
    let kept = &request["kept"];
    put(
        "kept",
        if kept.is_null() {
            "no longer".to_owned()
        } else {
            format!("{} {}, block at {}, record {}", show(&kept["place"]), show(&kept["name"]), kept["block"], kept["record"])
        },
    );
    let harvested = &story["harvested"];
    if !harvested.is_null() {
        put(
            "harvested",
            format!("partition {}, offset {}, at {}", harvested["partition"], harvested["offset"], show(&harvested["timestamp"])),
        );
    }
    for stage in story["stages"].as_array().into_iter().flatten() {
        put(&show(&stage["stage"]), show(&stage["verdict"]));
    }
    let (bad, trusted) = (&story["bad"], &story["trusted"]);
    let outcome = match (bad.is_object(), trusted.is_object()) {
        (true, _) => {
            format!("bad, {}: {}; partition {}, offset {}", show(&story["reason"]), show(&bad["detail"]), bad["partition"], bad["offset"])
        }
        (false, true) => format!("trusted; partition {}, offset {}", trusted["partition"], trusted["offset"]),
        (false, false) => show(&story["outcome"]),
    };
    put("outcome", outcome);
    let today = &story["today"];
    if today.is_object() {
        let verdict = match today["verdict"] == "passed" {
            true => "it would pass".to_owned(),
            false => format!("it would be rejected at {}, {}: {}", show(&today["stage"]), show(&today["reason"]), show(&today["detail"])),
        };
        put("today", format!("{verdict}; the catalogue or the options have changed since"));
    }
    if trusted.is_object() {
        for of in trusted["windows"].as_array().into_iter().flatten() {
            put("window", window(of));
        }
        put("table", table(&trusted["table"]));
    }
    text.pop();
    text
}

fn window(of: &Value) -> String {
    let bounds = |span: &Value| format!("{} to {}", show(&span["start"]), show(&span["end"]));
    let counts: Vec<String> = of["counts_in"].as_array().into_iter().flatten().map(bounds).collect();
    let counts = match counts.as_slice() {
        [] => String::new(),
        [one] => format!(", counts in {one}"),
        [first, .., last] => format!(", counts in {} windows, the first {first}, the last {last}", counts.len()),
    };
    let missed = &of["missed"];
    let late = if missed.is_null() {
        String::new()
    } else {
        let seconds = missed["late_by_micros"].as_f64().unwrap_or_default() / 1e6;
        format!(", too late by {seconds} s for {}", bounds(&missed["newest"]))
    };
    format!("{} {}{counts}{late}", show(&of["window"]), show(&of["key"]))
}

fn table(table: &Value) -> String {
    if table.is_null() {
        return "none yet".to_owned();
    }
    let snapshot = &table["snapshot"];
    match (table["has_it"] == true, snapshot.is_null()) {
        (true, false) => {
            let or_before = if snapshot["or_before"] == true { " or an expired one before it" } else { "" };
            format!("{}, since snapshot {} of {}{or_before}", show(&table["name"]), snapshot["id"], show(&snapshot["committed_at"]))
        }
        (true, true) => show(&table["name"]),
        (false, _) => format!("{} does not have it yet", show(&table["name"])),
    }
}
