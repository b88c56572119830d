//! What a table is: its name, the topic that fills it, its columns, and what tells its rows apart.
//!
//! Owns: the list of tables; one file a table says what is its own, how a record becomes a row included. Does not own:
//! anything that is done with a table: all other modules do the same with each.

pub(super) mod trusted;
pub(super) mod windows;

use super::NAMESPACE;
use super::columns::Column;
use super::redelivery::MarkColumns;
use forebay_schemas::topic::Topic;
use std::fmt;

/// A table that a sink can fill.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Table {
    TrustedEvents,
    Windows,
}

impl Table {
    /// What it is filled from.
    pub fn topic(self) -> Topic {
        self.shape().topic
    }
    pub(super) fn shape(self) -> &'static Shape {
        match self {
            Table::TrustedEvents => &trusted::SHAPE,
            Table::Windows => &windows::SHAPE,
        }
    }
}

pub(super) struct Shape {
    /// In the namespace.
    pub name: &'static str,
    /// By which metrics name its sink.
    pub sink: &'static str,
    pub topic: Topic,
    pub columns: &'static [Column],
    /// The top-level column whose days are the partitions.
    pub instant: &'static str,
    /// The partition field of the one partition spec that is written.
    pub day: &'static str,
    /// Columns by which a reader can skip a file. Texts among them are short, so bounds are whole values.
    pub bounded: &'static [&'static str],
    /// Columns in which hardly a value comes twice.
    pub unique: &'static [&'static str],
    pub mark: MarkColumns,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAMESPACE}.{}", self.name)
    }
}
