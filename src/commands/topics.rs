//! `forebay topics`: the topics on Kafka, made and verified with the settings that the laws need.

use super::config::default_file;
use crate::config::{Config, Inputs};
use crate::failure::{Exit, Failure, Next};
use crate::print;
use anyhow::Context;
use clap::{Args, Subcommand};
use forebay_schemas::topic::Topic;
use forebay_stores::config::LogKind;
use forebay_stores::log::kafka::{KafkaOptions, topics};
use serde_json::json;
use std::path::PathBuf;
use topics::{Finding, Verdict};

/// Make the topics on Kafka, or verify them
#[derive(Args)]
#[command(after_help = "Example: before the first start, and after a change of [log]:\n  forebay topics apply --config forebay.toml")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make what is missing and set what may be set; nothing is shortened, deleted or given other partitions
    #[command(after_help = "Example:\n  forebay topics apply --config forebay.toml --dry-run")]
    Apply {
        #[command(flatten)]
        log: Log,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Say of each setting whether it is as the laws need it; exit 1 where one is not
    #[command(after_help = "Example: only what is not good:\n  forebay topics check --config forebay.toml | grep -v ^good")]
    Check {
        #[command(flatten)]
        log: Log,
    },
}

#[derive(Args)]
struct Log {
    /// The configuration; without one: FOREBAY_CONFIG, else ./forebay.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One JSON object a setting
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Apply { log, dry_run } => apply(&log, dry_run),
        Action::Check { log } => check(&log),
    }
}

fn check(log: &Log) -> Result<Exit, Failure> {
    let options = log.options()?;
    let findings = topics::check(&options, &Topic::ALL).context("the topics cannot be checked").or_next(|| unreachable_next(&options))?;
    let bad = findings.iter().filter(|finding| !bearable(finding)).count();
    tell(&findings, log.json, verdict_word)?;
    if bad == 0 {
        return Ok(Exit::Done);
    }
    Err(Failure::failed(anyhow::anyhow!("{bad} settings of the topics are not as they must be"))
        .next("`forebay topics apply` makes and sets what may be made and set"))
}

fn apply(log: &Log, dry_run: bool) -> Result<Exit, Failure> {
    let options = log.options()?;
    let found = topics::apply(&options, dry_run).context("the topics cannot be made").or_next(|| unreachable_next(&options))?;
    tell(&found, log.json, |finding| match (finding.changeable, finding.setting, dry_run) {
        (true, "topic", false) => "made",
        (true, "topic", true) => "would make",
        (true, "schema", false) => "registered",
        (true, "schema", true) => "would register",
        (true, _, false) => "set",
        (true, _, true) => "would set",
        (false, ..) => verdict_word(finding),
    })?;
    let stuck = found.iter().filter(|finding| !finding.changeable && !bearable(finding)).count();
    if stuck == 0 {
        if !log.json {
            print::last(if dry_run { "nothing was changed" } else { "the topics are as they must be" })?;
        }
        return Ok(Exit::Done);
    }
    Err(Failure::failed(anyhow::anyhow!(
        "{stuck} settings of the topics are not as they must be, and are not changed on topics that are there"
    ))
    .next("each line above says why; a topic of another name is made anew: log.topics.*.name"))
}

impl Log {
    fn options(&self) -> Result<KafkaOptions, Failure> {
        let file = self.config.clone().or_else(default_file);
        let config = Config::load(&Inputs { file, ..Inputs::default() }.with_env()).map_err(|e| Failure::configuration(&e))?;
        if config.log.kind == LogKind::Embedded {
            return Err(Failure::usage("log.kind is \"embedded\": that log makes its own topics")
                .next("set log.kind = \"kafka\" and log.brokers, or name another configuration by --config"));
        }
        config.kafka_options().map_err(|e| Failure::configuration(&e))
    }
}

fn bearable(finding: &Finding) -> bool {
    matches!(finding.verdict, Verdict::Good | Verdict::Differs)
}

fn verdict_word(finding: &Finding) -> &'static str {
    match finding.verdict {
        Verdict::Good => "good",
        Verdict::Differs => "differs",
        Verdict::Unknown => "unknown",
        Verdict::Refused(_) => "refused",
    }
}

fn tell(findings: &[Finding], json: bool, word: impl Fn(&Finding) -> &'static str) -> Result<(), Failure> {
    // What was done about it needs no reason.
    let why = |finding: &Finding| match finding.verdict {
        Verdict::Refused(why) if word(finding) == verdict_word(finding) => Some(why),
        Verdict::Refused(_) | Verdict::Good | Verdict::Differs | Verdict::Unknown => None,
    };
    if !json {
        let row = |finding: &Finding| {
            let found = finding.found.as_deref().unwrap_or("missing");
            let why = why(finding).map(|why| format!(": {why}")).unwrap_or_default();
            let what = format!("found {found}, wanted {}{why}", finding.wanted);
            vec![word(finding).to_owned(), finding.name.clone(), finding.setting.to_owned(), what]
        };
        return print::table(&findings.iter().map(row).collect::<Vec<_>>());
    }
    for finding in findings {
        let line = json!({
            "topic": finding.topic.word(), "name": finding.name, "setting": finding.setting, "found": finding.found,
            "wanted": finding.wanted, "result": word(finding), "why": why(finding),
        });
        if print::line(&line.to_string())?.is_break() {
            break;
        }
    }
    Ok(())
}

fn unreachable_next(options: &KafkaOptions) -> String {
    format!("is a broker listening at {}, and may this user describe and create topics?", options.brokers.join(", "))
}
