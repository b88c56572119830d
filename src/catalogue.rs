//! The event catalogue as configured: the built-in types, and over them the files of `catalog.dir`.

use crate::failure::Failure;
use anyhow::{Context, Result};
use forebay_schemas::catalog::{Catalog, CatalogError};
use std::path::{Path, PathBuf};

/// The catalogue, or every defect of the user's files.
pub fn load(dir: Option<&Path>) -> Result<Catalog, Failure> {
    read(dir)?.map_err(|errors| refused(&errors))
}

/// The same, with the defects as they are.
pub fn read(dir: Option<&Path>) -> Result<Result<Catalog, Vec<CatalogError>>, Failure> {
    let Some(dir) = dir else { return Ok(Ok(Catalog::builtin())) };
    let files = files(dir)
        .map_err(|error| Failure::usage(format!("{error:#}")).next("catalog.dir names a folder of <type>/<version>.json files"))?;
    Ok(Catalog::builtin().overlay(&files))
}

pub fn refused(errors: &[CatalogError]) -> Failure {
    let lines: Vec<String> = errors.iter().map(text).collect();
    Failure::usage(lines.join("\n       ")).next("docs/catalogue.md says what a schema needs; `forebay schemas check` checks again")
}

fn text(error: &CatalogError) -> String {
    let line = error.line.map_or_else(String::new, |line| format!(", line {line}"));
    let pointer = if error.pointer.is_empty() { String::new() } else { format!("{}: ", error.pointer) };
    format!("{}{line}: {pointer}{}", error.file, error.message)
}

/// Every `*.json` below `dir`, in name order: (path as shown in errors, text).
pub fn files(dir: &Path) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))? {
            let path: PathBuf = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
                found.push((path.display().to_string(), text));
            }
        }
    }
    found.sort();
    Ok(found)
}
