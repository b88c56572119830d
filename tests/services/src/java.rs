//! Java programs with Kafka's, Avro's and Iceberg's own jars: the broker, its command-line classes, a catalogue of tables, and
//! oracles in a source file.

use crate::{Result, fetched, process};
use std::path::Path;
use std::process::Command;

/// Small and quick to start rather than fast.
const FLAGS: [&str; 3] = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"];

/// A class of the jars, without its arguments. `heap` is in MiB.
pub fn class(name: &str, heap: u32) -> Result<Command> {
    let mut command = java(heap)?;
    command.arg(name);
    Ok(command)
}

/// The broker, which logs what it does; the others log warnings.
pub(crate) fn broker(heap: u32) -> Result<Command> {
    let mut command = java(heap)?;
    command.args(["-Dlog.level=INFO", "kafka.Kafka"]);
    Ok(command)
}

/// One source file with a `main`, compiled as it starts; without its arguments.
pub fn source(file: &Path) -> Result<Command> {
    let mut command = java(128)?;
    command.arg(file);
    Ok(command)
}

/// A source file that was fetched beside the jars that it needs: `FOLDER/FILE`.
pub(crate) fn fetched_source(folder: &str, file: &str, heap: u32) -> Result<Command> {
    let folder = fetched(folder)?;
    let mut command = small(heap);
    command.arg("-cp").arg(folder.join("jars/*")).arg(folder.join(file));
    Ok(command)
}

/// Runs to the end and gives what it printed; an error shows both outputs.
pub fn run(command: Command) -> Result<String> {
    process::output(command)
}

fn java(heap: u32) -> Result<Command> {
    let folder = fetched("kafka")?;
    let mut command = small(heap);
    command.arg(format!("-Dlog4j2.configurationFile={}", folder.join("log4j2.xml").display()));
    command.arg("-cp").arg(folder.join("jars/*"));
    Ok(command)
}

fn small(heap: u32) -> Command {
    let mut command = Command::new("java");
    command.args(FLAGS).arg(format!("-Xms{heap}m")).arg(format!("-Xmx{heap}m"));
    command
}
