//! Why an event is bad: the closed list of `docs/bad-events.md`. Names are stable; append only.

use crate::stage::Stage;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// The body could not be inflated or split; kept as one `content = bytes` event.
    Unreadable,
    /// The event is larger than `limit::EVENT_BYTES`; its first `limit::CUT_BYTES` are kept.
    EventTooLarge,
    /// The event is not JSON (or not the query text) that its dialect promises.
    Malformed,
    /// Nested deeper than `limit::JSON_DEPTH`.
    NestingTooDeep,
    /// A `\ud800`-like escape without its pair: no text can hold it.
    LoneSurrogate,
    /// The event is JSON, but no object.
    NotAnObject,
    /// No type or name from which the event type could be found.
    MissingEventType,
    /// No catalogue entry has this name.
    UnknownEventType,
    /// The event names a schema version that the catalogue does not have.
    UnknownSchemaVersion,
    /// A field is missing, or its value is not what the event type's schema asks for.
    SchemaViolation,
    /// `catalog.unclassified = "reject"` and a field has no classification.
    UnclassifiedField,
    /// Same source and event id as an earlier event, but another fact.
    IdCollision,
    /// A defect of ours met this record. Pages someone.
    ProcessingPanic,
    /// The record has no partition key: a copy of it may be judged by another task.
    Unkeyable,
}

impl Reason {
    pub const ALL: [Reason; 14] = [
        Reason::Unreadable,
        Reason::EventTooLarge,
        Reason::Malformed,
        Reason::NestingTooDeep,
        Reason::LoneSurrogate,
        Reason::NotAnObject,
        Reason::MissingEventType,
        Reason::UnknownEventType,
        Reason::UnknownSchemaVersion,
        Reason::SchemaViolation,
        Reason::UnclassifiedField,
        Reason::IdCollision,
        Reason::ProcessingPanic,
        Reason::Unkeyable,
    ];
    pub fn name(self) -> &'static str {
        match self {
            Reason::Unreadable => "unreadable",
            Reason::EventTooLarge => "event_too_large",
            Reason::Malformed => "malformed",
            Reason::NestingTooDeep => "nesting_too_deep",
            Reason::LoneSurrogate => "lone_surrogate",
            Reason::NotAnObject => "not_an_object",
            Reason::MissingEventType => "missing_event_type",
            Reason::UnknownEventType => "unknown_event_type",
            Reason::UnknownSchemaVersion => "unknown_schema_version",
            Reason::SchemaViolation => "schema_violation",
            Reason::UnclassifiedField => "unclassified_field",
            Reason::IdCollision => "id_collision",
            Reason::ProcessingPanic => "processing_panic",
            Reason::Unkeyable => "unkeyable",
        }
    }
    pub fn from_name(name: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|r| r.name() == name)
    }
    /// The stage that gives this reason, where only one does.
    pub fn stage(self) -> Stage {
        match self {
            Reason::Unreadable
            | Reason::EventTooLarge
            | Reason::Malformed
            | Reason::NestingTooDeep
            | Reason::LoneSurrogate
            | Reason::NotAnObject
            | Reason::MissingEventType
            | Reason::Unkeyable => Stage::Decode,
            Reason::UnknownEventType | Reason::UnknownSchemaVersion | Reason::SchemaViolation | Reason::ProcessingPanic => Stage::Validate,
            Reason::UnclassifiedField => Stage::Mask,
            Reason::IdCollision => Stage::Dedup,
        }
    }
    /// True when an event with this reason means a defect of Forebay's, not of the sender's.
    pub fn is_bug(self) -> bool {
        matches!(self, Reason::ProcessingPanic)
    }
}
