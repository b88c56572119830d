//! What an operator may choose about admission and dedup.
//!
//! Owns: the choices as meant. Does not own: how they are written in the configuration (the shell's).

use std::fmt;
use std::str::FromStr;

/// One day in microseconds.
pub const DAY_MICROS: i64 = 86_400_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    pub unknown_event: UnknownEvent,
    pub unclassified: UnclassifiedPolicy,
    /// How far before `received_at` an event time may lie; earlier ones are clamped to that bound.
    pub max_age_micros: i64,
    /// The dedup horizon, in log time.
    pub dedup_ttl_micros: i64,
    pub collision: Collision,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            unknown_event: UnknownEvent::Bad,
            unclassified: UnclassifiedPolicy::Omit,
            max_age_micros: 400 * DAY_MICROS,
            dedup_ttl_micros: 30 * DAY_MICROS,
            collision: Collision::Bad,
        }
    }
}

/// The text names none of the choices.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected one of {0}")]
pub struct ChoiceError(&'static str);

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $all:literal, $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }
        impl $name {
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }
        impl FromStr for $name {
            type Err = ChoiceError;
            fn from_str(text: &str) -> Result<$name, ChoiceError> {
                match text { $($word => Ok($name::$variant),)+ _ => Err(ChoiceError($all)) }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

choice!(
    /// What becomes of an event whose name the catalogue does not have (`catalog.unknown_event`).
    UnknownEvent, "\"bad\", \"envelope\"",
    /// `bad(unknown_event_type)`.
    Bad = "bad",
    /// Type, times and masked ids pass; properties do not. A type that is no plain name is bad all the same.
    Envelope = "envelope"
);
choice!(
    /// What becomes of a field that nobody classified (`catalog.unclassified`).
    UnclassifiedPolicy, "\"omit\", \"reject\"",
    /// The field is left out and counted.
    Omit = "omit",
    /// `bad(unclassified_field)`.
    Reject = "reject"
);
choice!(
    /// What becomes of another fact under an id that is taken (`enricher.dedup.collision`).
    Collision, "\"bad\", \"rekey\"",
    /// `bad(id_collision)`; the first stays trusted.
    Bad = "bad",
    /// Trusted under an id derived from source, id and fingerprint; `original_event_id` is kept.
    Rekey = "rekey"
);
