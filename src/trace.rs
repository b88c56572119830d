//! Structured logs: JSON lines on stderr, for the roles that run; commands that end log nothing below a warning.
//!
//! `FOREBAY_LOG` filters as `RUST_LOG` does in other programs (`info`, `forebay_gateway=debug,warn`).

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Warnings, unless `FOREBAY_LOG` asks for something else.
pub fn init() {
    let filter = EnvFilter::try_from_env("FOREBAY_LOG").unwrap_or_else(|_| {
        EnvFilter::new("warn,forebay=info,forebay_gateway=info,forebay_enricher=info,forebay_sinks=info,forebay_stores=info,audit=info")
    });
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        builder.compact().init();
    } else {
        builder.json().flatten_event(true).init();
    }
}
