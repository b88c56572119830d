//! Instants as microseconds since the Unix epoch, UTC. The only time type that crosses a crate border.

use chrono::{DateTime, SecondsFormat, Utc};
use std::fmt;

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(pub i64);

impl Micros {
    /// RFC 3339 with six digits and `Z`, e.g. `2026-11-30T10:00:00.123000Z`. Out-of-range instants clamp.
    pub fn to_rfc3339(self) -> String {
        self.datetime().to_rfc3339_opts(SecondsFormat::Micros, true)
    }
    pub fn datetime(self) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(self.0).unwrap_or(if self.0 < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC })
    }
    /// Strict RFC 3339. What SDKs send is wider: that is `decode`'s to read.
    pub fn parse_rfc3339(text: &str) -> Option<Micros> {
        DateTime::parse_from_rfc3339(text).ok().map(|t| Micros(t.timestamp_micros()))
    }
    pub fn millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }
    pub fn saturating_add_micros(self, micros: i64) -> Micros {
        Micros(self.0.saturating_add(micros))
    }
}
impl fmt::Debug for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}
impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}
impl From<std::time::SystemTime> for Micros {
    fn from(t: std::time::SystemTime) -> Micros {
        match t.duration_since(std::time::UNIX_EPOCH) {
            Ok(d) => Micros(i64::try_from(d.as_micros()).unwrap_or(i64::MAX)),
            Err(e) => Micros(-i64::try_from(e.duration().as_micros()).unwrap_or(i64::MAX)),
        }
    }
}
