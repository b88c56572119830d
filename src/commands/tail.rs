//! `forebay tail`: the records of a topic, decoded, one JSON object a line.

use crate::failure::{Exit, Failure};
use crate::print;
use crate::read::{From, LogQuery, Query};
use crate::system::Where;
use clap::Args;
use forebay_schemas::topic::Topic;

/// Print a topic's records as they come, one JSON object a line; a stopped system's to their end
#[derive(Args)]
#[command(
    after_help = "Example: how many events of each type there are:\n  forebay tail trusted --until-idle 1 | jq -r .event_type | sort | uniq -c"
)]
pub struct Arguments {
    /// harvested (payloads), trusted, bad, delta
    #[arg(value_name = "TOPIC", value_parser = parse_topic)]
    topic: Topic,
    /// Where to begin in each partition: earliest, latest or an offset
    #[arg(long, value_name = "FROM", default_value = "earliest", value_parser = From::parse)]
    from: From,
    /// One partition alone
    #[arg(long, value_name = "N")]
    partition: Option<i32>,
    /// End after this many records
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// End when no record has come for so long
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    until_idle: Option<f64>,
    /// Show the gateways' ticks too
    #[arg(long)]
    ticks: bool,
    /// One JSON object a line (always so)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    system: Where,
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { topic, from, partition, count, until_idle, ticks, json: _, system } = arguments;
    let query = Query::Log(LogQuery { topic, from, partition, count, until_idle, ticks });
    let printed = system.find()?.ask(&query, &mut print::line);
    printed
        .map_err(|failure| if partition.is_some() { failure.or_next("without --partition, all partitions are read") } else { failure })?;
    Ok(Exit::Done)
}

fn parse_topic(text: &str) -> Result<Topic, String> {
    Topic::from_word(text).ok_or_else(|| format!("expected one of {}", Topic::ALL.map(Topic::word).join(", ")))
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    seconds.filter(|s| s.is_finite() && *s >= 0.0).ok_or_else(|| "expected seconds, like 1.5".to_owned())
}
