//! The one place where the gateway reads the wall clock.

use forebay_schemas::time::Micros;

pub fn now() -> Micros {
    Micros::from(std::time::SystemTime::now())
}
