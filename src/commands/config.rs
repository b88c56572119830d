//! `forebay config`: the commented default, validation, effective values and where each comes from.

use crate::config::{COMMENTED_DEFAULT, Config, DEFAULT_FILE, Inputs};
use crate::failure::{Exit, Failure, Next};
use crate::print;
use crate::system;
use anyhow::Context;
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::PathBuf;

/// Write, check or show the configuration
#[derive(Args)]
#[command(after_help = "Example: what is set, and where:\n  forebay config show --config forebay.toml | grep -v ' default$'")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write the commented default
    #[command(after_help = "Example:\n  forebay config init forebay.toml")]
    Init {
        /// Where to; `-` prints it
        #[arg(default_value = DEFAULT_FILE)]
        file: PathBuf,
    },
    /// Say whether a configuration is right; exit 2, file, key and line where it is not
    #[command(after_help = "Example:\n  forebay config check forebay.toml")]
    Check {
        /// The file; without one: FOREBAY_CONFIG, else ./forebay.toml
        file: Option<PathBuf>,
        /// The same, as other commands take it
        #[arg(long, value_name = "FILE", conflicts_with = "file")]
        config: Option<PathBuf>,
    },
    /// Print every effective value with its origin; secrets are hidden
    #[command(after_help = "Example:\n  forebay config show --config forebay.toml --json")]
    Show {
        /// The configuration; without one: FOREBAY_CONFIG, else ./forebay.toml
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// One JSON object a key, its value as JSON has it
        #[arg(long)]
        json: bool,
    },
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Init { file } => init(&file),
        Action::Check { file, config } => {
            let file = file.or(config).or_else(default_file);
            let config =
                Config::load(&Inputs { file: file.clone(), ..Inputs::default() }.with_env()).map_err(|e| Failure::configuration(&e))?;
            system::check_windows(&config)?;
            print::last(&format!("{}: good", file.map_or_else(|| "no file, the defaults".to_owned(), |f| f.display().to_string())))?;
            Ok(Exit::Done)
        }
        Action::Show { config, json } => show(config.or_else(default_file), json),
    }
}

/// The file that counts when no flag names one.
pub fn default_file() -> Option<PathBuf> {
    let named = std::env::var_os("FOREBAY_CONFIG").filter(|name| !name.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.is_file()))
}

fn init(file: &std::path::Path) -> Result<Exit, Failure> {
    if file.as_os_str() == "-" {
        print::last(COMMENTED_DEFAULT.trim_end())?;
        return Ok(Exit::Done);
    }
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).open(file);
    let mut opened = opened
        .with_context(|| format!("{} is not written", file.display()))
        .or_next(|| "a file that is there is kept: name another, or `-` to print".to_owned())?;
    opened.write_all(COMMENTED_DEFAULT.as_bytes()).map_err(Failure::failed)?;
    print::last(&format!("{}: written; `forebay dev --config {}` uses it", file.display(), file.display()))?;
    Ok(Exit::Done)
}

fn show(file: Option<PathBuf>, json: bool) -> Result<Exit, Failure> {
    let config = Config::load(&Inputs { file, ..Inputs::default() }.with_env()).map_err(|e| Failure::configuration(&e))?;
    for setting in config.settings() {
        let line = if json { setting.to_json().to_string() } else { format!("{} = {}  # {}", setting.key, setting.text(), setting.origin) };
        if print::line(&line)?.is_break() {
            break;
        }
    }
    Ok(Exit::Done)
}
