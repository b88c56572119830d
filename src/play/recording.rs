//! A recording: one JSON object a line, one HTTP request each, with what the recorder answered.

use anyhow::{Context, Result};
use base64::Engine;
use serde::Deserialize;
use std::path::Path;

/// One recorded request.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The recorder read the body and cut the connection.
    pub cut: bool,
}

#[derive(Deserialize)]
struct Line {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    #[serde(default)]
    body_b64: String,
    #[serde(default)]
    answered: Option<serde_json::Value>,
}

/// The requests of `file`, in order.
pub fn read(file: &Path) -> Result<Vec<Recorded>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{}: cannot be read", file.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(n, line)| parse(line).with_context(|| format!("{}, line {}: not a recorded request", file.display(), n + 1))).collect()
}

fn parse(line: &str) -> Result<Recorded> {
    let line: Line = serde_json::from_str(line)?;
    let body = base64::engine::general_purpose::STANDARD.decode(&line.body_b64).context("body_b64")?;
    let cut = line.answered.is_some_and(|answered| answered == "reset");
    Ok(Recorded { method: line.method, target: line.target, headers: line.headers, body, cut })
}
