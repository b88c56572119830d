//! `forebay`: the one binary. Composes gateway, enricher and sinks; nothing else sees them together.
//!
//! Reads top to bottom: arguments, trace, then the command, which loads its configuration, builds, runs, waits and
//! drains. Its end is the exit code: 0 done, 1 failed, 2 wrong usage or configuration, 3 stopped with work left on disk.

mod admin;
mod catalogue;
mod commands;
mod config;
mod data;
mod failure;
mod node;
mod play;
mod print;
mod read;
mod rejects;
mod serve;
mod stores;
mod system;
mod trace;

use clap::Parser;
use std::process::ExitCode;

/// RocksDB, Arrow and the HTTP server free on other threads than they allocate on.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = commands::Cli::parse();
    trace::init();
    match cli.command.run() {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.print();
            failure.exit.into()
        }
    }
}
