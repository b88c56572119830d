//! `forebay send`: plays recordings to a server.

use crate::failure::{Exit, Failure, Next};
use crate::play::{self, Options, Summary};
use crate::print;
use clap::Args;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// Play recordings of SDKs to a server: each request as recorded, in order
#[derive(Args)]
#[command(
    after_help = "Example: send what a Segment SDK sent, a thousand times with fresh ids, over 4 connections, through restarts of the server:\n  \
    forebay send segment-node.jsonl --repeat 1000 --unique --connections 4 --resend --acked acked.txt"
)]
pub struct Arguments {
    /// Recordings: one JSON object a line, with method, target, headers, body_b64, answered
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where to send
    #[arg(long, value_name = "URL", default_value = DEFAULT_URL)]
    to: String,
    /// Play everything N times
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u64,
    /// Give each repetition fresh event ids, equal ids staying equal; bodies are encoded again as they were
    #[arg(long)]
    unique: bool,
    /// At most this many requests a second, all connections together, e.g. 200/s
    #[arg(long, value_name = "R/s", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Spread repetitions over N connections; within a repetition requests keep their order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: u16,
    /// Where the recorder cut the connection, send the body, then cut it too
    #[arg(long)]
    faults: bool,
    /// Send again, with backoff, what got no answer or a status that says "later", for up to ten minutes each
    #[arg(long)]
    resend: bool,
    /// Write the ids of events answered 2xx to this file, one a line
    #[arg(long, value_name = "FILE")]
    acked: Option<PathBuf>,
    /// Write the bodies as sent into this folder, named by the answer's Forebay-Request-Id; unanswered ones unanswered-N
    #[arg(long, value_name = "DIR")]
    sent: Option<PathBuf>,
    /// Put this write key in the place of the recorded one
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let options = Options {
        host: host_of(&arguments.to)?,
        repeat: arguments.repeat,
        unique: arguments.unique,
        rate: arguments.rate,
        connections: usize::from(arguments.connections),
        faults: arguments.faults,
        resend: arguments.resend,
        acked: arguments.acked,
        sent: arguments.sent,
        key: arguments.key,
    };
    let mut recordings = Vec::new();
    for file in &arguments.files {
        recordings.extend(play::read(file).or_next(|| "give files that hold one recorded request a line".to_owned())?);
    }
    let progress = progress();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::failed)?;
    let interrupted = std::cell::Cell::new(false);
    let stop = async {
        if tokio::signal::ctrl_c().await.is_ok() {
            interrupted.set(true);
        } else {
            std::future::pending::<()>().await;
        }
    };
    let summary = runtime.block_on(play::play(&recordings, &options, &progress, stop))?;
    progress.finish_and_clear();
    if arguments.json {
        print::last(&serde_json::to_string(&summary).map_err(Failure::failed)?)?;
    } else {
        print::last(text(&summary).trim_end())?;
    }
    verdict(&summary, &options, interrupted.get(), &arguments.to)
}

/// An answer is an answer, whatever its status; with `--resend`, only a 2xx is.
fn verdict(summary: &Summary, options: &Options, interrupted: bool, to: &str) -> Result<Exit, Failure> {
    if interrupted {
        return Err(Failure::failed(anyhow::anyhow!("interrupted before everything was played")));
    }
    if summary.unanswered > 0 {
        return Err(Failure::failed(anyhow::anyhow!("{} of {} requests got no answer", summary.unanswered, summary.requests))
            .next(format!("is a server at {to}? `forebay dev` starts one; --resend waits for it")));
    }
    if options.resend && summary.refused() > 0 {
        return Err(Failure::failed(anyhow::anyhow!("{} of {} requests got no 2xx", summary.refused(), summary.requests))
            .next("look at the statuses above and at the server's log"));
    }
    Ok(Exit::Done)
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text).parse::<f64>().ok();
    number.filter(|rate| rate.is_finite() && *rate > 0.0).ok_or_else(|| "expected requests a second, like 200/s".to_owned())
}

/// `host:port` of an `http://` URL.
fn host_of(url: &str) -> Result<String, Failure> {
    let wrong = || {
        Failure::usage(format!("--to {url}: expected a URL like {DEFAULT_URL}"))
            .next("TLS is for a proxy in front of the server; send speaks plain HTTP")
    };
    let host = url.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
    if host.is_empty() || host.contains(['/', '?', '#', '@']) {
        return Err(wrong());
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(if has_port { host.to_owned() } else { format!("{host}:80") })
}

fn progress() -> indicatif::ProgressBar {
    if !std::io::stderr().is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    let style = indicatif::ProgressStyle::with_template("{bar:40} {pos}/{len} requests, {per_sec}, {eta} left").expect("a fixed template");
    let bar = indicatif::ProgressBar::new(0).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn text(summary: &Summary) -> String {
    let answers = summary.answers.iter().map(|(status, count)| format!("{status}: {count}")).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "requests  {} ({} events)\nanswers   {}\n",
        summary.requests,
        summary.events,
        if answers.is_empty() { "none" } else { &answers }
    );
    for (name, count) in [("cut", summary.cut), ("no answer", summary.unanswered), ("retries", summary.retries)] {
        if count > 0 {
            text.push_str(&format!("{name:<9} {count}\n"));
        }
    }
    let latency = &summary.latency_ms;
    text.push_str(&format!("latency   p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms\n", latency.p50, latency.p99, latency.max));
    text.push_str(&format!("rate      {:.0} requests/s for {:.1} s\n", summary.requests_per_second, summary.seconds));
    text
}
