//! The subcommands, one file each, in the order of the reference (`docs/cli.md`).

pub mod send;

use crate::failure::{Exit, Failure};
use clap::{Parser, Subcommand};

/// Event gateway and enricher: keeps exactly what arrived, hands on only what is valid, deduplicated and masked.
#[derive(Parser)]
#[command(name = "forebay", version, max_term_width = 120, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Send(send::Arguments),
}

impl Command {
    pub fn run(self) -> Result<Exit, Failure> {
        match self {
            Command::Send(arguments) => send::run(arguments),
        }
    }
}
