//! What became of a harvested event (law A3): exactly one of these.

use crate::reason::Reason;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    Trusted,
    Duplicate,
    Bad(Reason),
}

impl Outcome {
    /// The metric label `outcome`.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Trusted => "trusted",
            Outcome::Duplicate => "duplicate",
            Outcome::Bad(_) => "bad",
        }
    }
    /// The metric label `reason`: empty unless bad.
    pub fn reason(self) -> &'static str {
        match self {
            Outcome::Bad(reason) => reason.name(),
            Outcome::Trusted | Outcome::Duplicate => "",
        }
    }
    pub fn from_names(outcome: &str, reason: &str) -> Option<Outcome> {
        match outcome {
            "trusted" => Some(Outcome::Trusted),
            "duplicate" => Some(Outcome::Duplicate),
            "bad" => Reason::from_name(reason).map(Outcome::Bad),
            _ => None,
        }
    }
}
