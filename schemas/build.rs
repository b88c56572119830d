//! Writes the list of built-in schema files (`events/<type>/<version>.json`, `context/<version>.json`) with their texts
//! included, so that the binary carries its catalogue.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut files = Vec::new();
    for folder in ["context", "events"] {
        println!("cargo:rerun-if-changed={folder}");
        collect(&here.join(folder), &mut files)?;
    }
    files.sort();
    let mut code = String::from("/// Path below `schemas/`, text.\nconst BUILT_IN: &[(&str, &str)] = &[\n");
    for file in files {
        let shown = file.strip_prefix(&here).expect("found below it").to_string_lossy().replace('\\', "/");
        // `env!` is resolved where the crate is compiled, so that a second clone with the same build folder reads its own files.
        code.push_str(&format!("    ({shown:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{shown}\"))),\n"));
    }
    code.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("catalog_files.rs"), code)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|ext| ext == "json") {
            files.push(path);
        }
    }
    Ok(())
}
