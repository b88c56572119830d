//! Real services for the tests and for `./x up`: Kafka, an S3 server, a schema registry's protocol, catalogues of tables, a
//! proxy for faults.
//!
//! Owns: their processes, ports and folders on loopback, and the faults that can be done to them.
//! Does not own: their programs, which `./x` fetches, and what Forebay asks of them.
//! Invariant: what a value of this crate started ends with it, and with the process that held it, also when that is
//! killed; `./x up` alone starts what outlives it.

mod failure;
mod folder;
mod port;
mod process;
mod record;
mod http;
pub mod java;
mod kafka;
mod s3;
mod registry;
mod postgres;
mod iceberg;
mod toxiproxy;
pub mod up;

pub use failure::Failure;
pub use iceberg::RestCatalogue;
pub use kafka::{Kafka, KafkaSpec, Secured};
pub use port::Port;
pub use postgres::Postgres;
pub use registry::{Registry, RegistrySpec};
pub use s3::{S3, S3Spec};
pub use toxiproxy::Toxiproxy;

use folder::Folder;
use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Failure>;

/// Where a service's files lie, and how long it lives.
#[derive(Debug)]
pub enum Home {
    /// A folder of its own, removed at the end; the processes end with their value.
    Own,
    /// This folder, kept; the processes end with their value.
    At(PathBuf),
    /// This folder, kept; the processes go on when this one has ended.
    Detached(PathBuf),
}

/// A file that `./x` has fetched: `FOREBAY_SERVICES`, else the cache folder below the home folder.
fn fetched(name: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("FOREBAY_SERVICES").map(PathBuf::from).unwrap_or_else(|| {
        let home = std::env::var_os("HOME").unwrap_or_default();
        Path::new(&home).join(".cache/forebay/services")
    });
    let path = folder.join(name);
    if path.exists() {
        return Ok(path);
    }
    Err(Failure(format!("{} is not there: `./x test` fetches it", path.display())))
}
