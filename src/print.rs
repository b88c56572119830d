//! Standard output of commands. A reader that has gone (`| head`) ends the command quietly.

use crate::failure::Failure;
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;

pub fn line(text: &str) -> Result<ControlFlow<()>, Failure> {
    bytes(format!("{text}\n").as_bytes())
}

/// The last line that a command prints.
pub fn last(text: &str) -> Result<(), Failure> {
    line(text).map(|_| ())
}

pub fn bytes(bytes: &[u8]) -> Result<ControlFlow<()>, Failure> {
    match std::io::stdout().lock().write_all(bytes) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(e) => Err(Failure::failed(anyhow::Error::from(e).context("standard output"))),
    }
}

/// Columns as wide as their widest cell; the last one is not padded.
pub fn table(rows: &[Vec<String>]) -> Result<(), Failure> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> =
        (0..columns).map(|n| rows.iter().filter_map(|row| row.get(n)).map(|cell| cell.chars().count()).max().unwrap_or(0)).collect();
    for row in rows {
        let cells = row
            .iter()
            .enumerate()
            .map(|(n, cell)| if n + 1 == row.len() { cell.clone() } else { format!("{cell:<width$}", width = widths[n]) });
        if line(cells.collect::<Vec<_>>().join("  ").trim_end())?.is_break() {
            break;
        }
    }
    Ok(())
}
