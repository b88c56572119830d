//! Why a gateway does not start.

use crate::config::ConfigError;
use crate::spool::dir::SpoolError;
use std::io;
use std::net::SocketAddr;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error("{listen}: {error}")]
    Listen { listen: SocketAddr, error: io::Error },
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("no thread: {0}")]
    Thread(io::Error),
}
