//! `forebay keys`: the key files that an enricher needs, made once.

use crate::failure::{Exit, Failure};
use crate::print;
use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// Make the keys of a system: one to mask with, a pair to seal rejects for
#[derive(Args)]
#[command(after_help = "Example:\n  forebay keys make /etc/forebay/keys")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make mask.key, bad_public.key and bad_private.key in a folder that has none of them
    #[command(
        after_help = "Example:\n  forebay keys make /etc/forebay/keys\n\nEvery enricher of a system has the same mask.key and bad_public.key. Who reads rejects has bad_private.key, and nobody else."
    )]
    Make {
        /// The folder; made when it is missing, closed to other users
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Make { dir } => make(&dir),
    }
}

/// A key in the place of one that is lost would change every token unseen, so nothing is added to what is there.
fn make(dir: &Path) -> Result<Exit, Failure> {
    let dir = &std::path::absolute(dir).map_err(Failure::failed)?;
    let there = ["mask.key", "bad_public.key", "bad_private.key"].map(|name| dir.join(name)).into_iter().find(|file| file.exists());
    if let Some(file) = there {
        return Err(Failure::failed(anyhow!("{} is there already", file.display())).next("nothing was made: name another folder"));
    }
    forebay_enricher::keys::ensure(dir).context("the keys cannot be made")?;
    let dir = dir.display();
    print::last(&format!(
        "made; for the configuration of every enricher:\n[catalog]\nkeys.mask_file = \"{dir}/mask.key\"\nkeys.bad_public_file = \"{dir}/bad_public.key\"\n\nkeep {dir}/bad_private.key where rejects are read, and copies of all three where they are safe"
    ))?;
    Ok(Exit::Done)
}
