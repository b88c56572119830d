//! The subcommands, one file each, in the order of the reference (`docs/cli.md`).

pub mod dev;
pub mod role;
pub mod keys;
pub mod send;
pub mod tail;
pub mod explain;
pub mod raw;
pub mod bad;
pub mod schemas;
pub mod unclassified;
pub mod topics;
pub mod config;

use crate::failure::{Exit, Failure};
use clap::{Parser, Subcommand};
use forebay_schemas::time::Micros;

/// Event gateway and enricher: keeps exactly what arrived, hands on only what is valid, deduplicated and masked.
#[derive(Parser)]
#[command(name = "forebay", version, max_term_width = 120, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Dev(dev::Arguments),
    Gateway(role::Gateway),
    Enricher(role::Enricher),
    Sink(role::Sink),
    Keys(keys::Arguments),
    Send(send::Arguments),
    Tail(tail::Arguments),
    Explain(explain::Arguments),
    Raw(raw::Arguments),
    Bad(bad::Arguments),
    Schemas(schemas::Arguments),
    Unclassified(unclassified::Arguments),
    Topics(topics::Arguments),
    Config(config::Arguments),
}

impl Command {
    pub fn run(self) -> Result<Exit, Failure> {
        match self {
            Command::Dev(arguments) => dev::run(arguments),
            Command::Gateway(arguments) => role::gateway(arguments),
            Command::Enricher(arguments) => role::enricher(arguments),
            Command::Sink(arguments) => role::sink(arguments),
            Command::Keys(arguments) => keys::run(arguments),
            Command::Send(arguments) => send::run(arguments),
            Command::Tail(arguments) => tail::run(arguments),
            Command::Explain(arguments) => explain::run(arguments),
            Command::Raw(arguments) => raw::run(arguments),
            Command::Bad(arguments) => bad::run(arguments),
            Command::Schemas(arguments) => schemas::run(arguments),
            Command::Unclassified(arguments) => unclassified::run(arguments),
            Command::Topics(arguments) => topics::run(arguments),
            Command::Config(arguments) => config::run(arguments),
        }
    }
}

fn parse_time(text: &str) -> Result<Micros, String> {
    Micros::parse_rfc3339(text).ok_or_else(|| "expected a time like 2026-11-30T10:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    fn without_help(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        for argument in command.get_arguments().filter(|argument| argument.get_help().is_none_or(|help| help.to_string().is_empty())) {
            found.push(format!("{path} {}", argument.get_id()));
        }
        for sub in command.get_subcommands() {
            let path = format!("{path} {}", sub.get_name());
            if sub.get_about().is_none() {
                found.push(path.clone());
            }
            without_help(sub, &path, found);
        }
    }

    #[test]
    fn everything_that_can_be_given_says_what_it_is() {
        let mut found = Vec::new();
        without_help(&Cli::command(), "forebay", &mut found);
        assert!(found.is_empty(), "{found:?}");
    }
}
