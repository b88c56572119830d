//! `./x up` and `./x down`.

use forebay_services::up::{self, Options, Ports};
use forebay_services::{Failure, Result};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "up [--nodes 1|3] · down [--wipe]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let said = match arguments.as_slice() {
        ["up"] => up(None),
        ["up", "--nodes", "1"] => up(Some(1)),
        ["up", "--nodes", "3"] => up(Some(3)),
        ["down"] => folder().and_then(|folder| up::down(&folder, false)),
        ["down", "--wipe"] => folder().and_then(|folder| up::down(&folder, true)),
        _ => {
            eprintln!("x: expected {USAGE}");
            return ExitCode::from(2);
        }
    };
    match said {
        Ok(said) => {
            print!("{said}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("x: {e}");
            ExitCode::FAILURE
        }
    }
}

fn up(nodes: Option<usize>) -> Result<String> {
    let ports = match std::env::var("FOREBAY_UP_PORTS") {
        Ok(first) => Ports::from(first.parse().map_err(|_| Failure(format!("FOREBAY_UP_PORTS={first}: expected a port")))?),
        Err(_) => Ports::default(),
    };
    up::up(&Options { folder: folder()?, nodes, ports, forebay: variable("FOREBAY_BIN")?.into() })
}

fn folder() -> Result<PathBuf> {
    Ok(variable("FOREBAY_UP")?.into())
}

fn variable(name: &str) -> Result<OsString> {
    std::env::var_os(name).ok_or_else(|| Failure(format!("{name} is not set: start this by ./x")))
}
