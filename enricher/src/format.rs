//! Versions of what the enricher keeps: deltas, a store's position, a task's progress. Each of them begins with its format.
//!
//! Owns: which formats are read and which one is written. Does not own: the values (beside their encodings).
//! Invariants: a version knows the formats up to its own; of the next one it reads the part that it knows, for a format
//! only appends fields that a reader of the one before can do without; it writes the one before its own until
//! `enricher.format` says otherwise. So a roll-back finds what it can read, and a fleet may run two versions at once.
//!
//! | format | adds |
//! |---|---|
//! | 1 | |
//! | 2 | to a store's position: from where the topic of deltas is read on |

use forebay_schemas::wire::delta;

/// What this version reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    writes: i32,
    knows: i32,
}

impl Format {
    pub const OLDEST: i32 = 1;
    pub const NEWEST: i32 = delta::FORMAT;
    /// What a version writes until it is told that there is no way back any more.
    pub const DEFAULT: i32 = Format::NEWEST - 1;

    pub const fn writing(writes: i32) -> Format {
        Format { writes, knows: Format::NEWEST }
    }
    /// Another version: one whose newest format is this.
    #[cfg(test)]
    pub const fn of_a_version(knows: i32) -> Format {
        Format { writes: knows, knows }
    }

    /// A version one ahead of this one.
    #[cfg(test)]
    pub fn ahead() -> Format {
        Format::of_a_version(Format::NEWEST + 1)
    }

    pub fn writes(self) -> i32 {
        self.writes
    }
    pub fn reads(self, found: i32) -> bool {
        (Format::OLDEST..=self.knows.saturating_add(1)).contains(&found)
    }
    /// True when a value of format `found` may end with fields that this version does not know.
    pub fn is_newer(self, found: i32) -> bool {
        found > self.knows
    }
    /// True when a value of format `found` has the fields of `format`, and this version knows them.
    pub fn has(self, format: i32, found: i32) -> bool {
        found >= format && self.knows >= format
    }
}
