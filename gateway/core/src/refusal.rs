//! Why a request is refused: the closed list of `docs/errors.md`. Names are stable; append only.
//!
//! Owns: reasons, their names and their usual status. Does not own: what a dialect makes of them (`answer`).

/// A request that is not kept, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub reason: RefusalReason,
    /// One sentence for a person. Never quotes input.
    pub detail: String,
    /// For what passes by itself: seconds until a retry makes sense.
    pub retry_after_s: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RefusalReason {
    /// No dialect has this path.
    NotFound,
    /// The path exists, the method does not.
    MethodNotAllowed,
    /// Request line over `limit::TARGET_BYTES`.
    TargetTooLong,
    /// Headers over `limit::HEADERS_BYTES`.
    HeadersTooLarge,
    /// Body over `limits.wire_bytes`.
    BodyTooLarge,
    /// Decoded body over `limits.inflated_bytes`, or inflated by more than `limit::INFLATE_RATIO`.
    InflatedTooLarge,
    /// More events than `limits.events`.
    TooManyEvents,
    /// The only event of its request is over `limits.event_bytes`.
    EventTooLarge,
    /// The body did not arrive in time.
    BodyTimeout,
    /// The connection ended inside the body.
    BodyIncomplete,
    /// No key, and no source takes requests without one.
    MissingWriteKey,
    /// The key belongs to no source, or has expired.
    UnknownWriteKey,
    /// The source may not speak this dialect.
    DialectNotAllowed,
    /// The source does not take requests of this origin.
    OriginNotAllowed,
    /// The source sends faster than its rate.
    RateLimited,
    /// Too many requests in flight or too much in memory.
    Overloaded,
    /// The spool has reached its bound or the disk is full.
    SpoolFull,
    /// The spool could not be written or did not answer in time.
    SpoolFailed,
    /// The gateway is stopping.
    Draining,
    /// It is kept in the spool, but was not in time where the source wants it acknowledged.
    AckTimeout,
}

impl RefusalReason {
    pub const ALL: [RefusalReason; 20] = [
        RefusalReason::NotFound,
        RefusalReason::MethodNotAllowed,
        RefusalReason::TargetTooLong,
        RefusalReason::HeadersTooLarge,
        RefusalReason::BodyTooLarge,
        RefusalReason::InflatedTooLarge,
        RefusalReason::TooManyEvents,
        RefusalReason::EventTooLarge,
        RefusalReason::BodyTimeout,
        RefusalReason::BodyIncomplete,
        RefusalReason::MissingWriteKey,
        RefusalReason::UnknownWriteKey,
        RefusalReason::DialectNotAllowed,
        RefusalReason::OriginNotAllowed,
        RefusalReason::RateLimited,
        RefusalReason::Overloaded,
        RefusalReason::SpoolFull,
        RefusalReason::SpoolFailed,
        RefusalReason::Draining,
        RefusalReason::AckTimeout,
    ];

    /// The metric label and the `reason` of the answer.
    pub fn name(self) -> &'static str {
        match self {
            RefusalReason::NotFound => "not_found",
            RefusalReason::MethodNotAllowed => "method_not_allowed",
            RefusalReason::TargetTooLong => "target_too_long",
            RefusalReason::HeadersTooLarge => "headers_too_large",
            RefusalReason::BodyTooLarge => "body_too_large",
            RefusalReason::InflatedTooLarge => "inflated_too_large",
            RefusalReason::TooManyEvents => "too_many_events",
            RefusalReason::EventTooLarge => "event_too_large",
            RefusalReason::BodyTimeout => "body_timeout",
            RefusalReason::BodyIncomplete => "body_incomplete",
            RefusalReason::MissingWriteKey => "missing_write_key",
            RefusalReason::UnknownWriteKey => "unknown_write_key",
            RefusalReason::DialectNotAllowed => "dialect_not_allowed",
            RefusalReason::OriginNotAllowed => "origin_not_allowed",
            RefusalReason::RateLimited => "rate_limited",
            RefusalReason::Overloaded => "overloaded",
            RefusalReason::SpoolFull => "spool_full",
            RefusalReason::SpoolFailed => "spool_failed",
            RefusalReason::Draining => "draining",
            RefusalReason::AckTimeout => "ack_timeout",
        }
    }

    /// The HTTP status, where the dialect does not ask for another (`answer::refused`).
    pub fn status(self) -> u16 {
        match self {
            RefusalReason::NotFound => 404,
            RefusalReason::MethodNotAllowed => 405,
            RefusalReason::TargetTooLong => 414,
            RefusalReason::HeadersTooLarge => 431,
            RefusalReason::BodyTooLarge | RefusalReason::InflatedTooLarge | RefusalReason::TooManyEvents | RefusalReason::EventTooLarge => {
                413
            }
            RefusalReason::BodyTimeout => 408,
            RefusalReason::BodyIncomplete => 400,
            RefusalReason::MissingWriteKey | RefusalReason::UnknownWriteKey => 401,
            RefusalReason::DialectNotAllowed | RefusalReason::OriginNotAllowed => 403,
            RefusalReason::RateLimited => 429,
            RefusalReason::Overloaded
            | RefusalReason::SpoolFull
            | RefusalReason::SpoolFailed
            | RefusalReason::Draining
            | RefusalReason::AckTimeout => 503,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            RefusalReason::NotFound => "nothing is served at this path",
            RefusalReason::MethodNotAllowed => "this path does not take this method",
            RefusalReason::TargetTooLong => "the path and query are longer than is taken",
            RefusalReason::HeadersTooLarge => "the headers are larger than is taken",
            RefusalReason::BodyTooLarge => "the body is larger than limits.wire_bytes",
            RefusalReason::InflatedTooLarge => "the decoded body is larger than limits.inflated_bytes",
            RefusalReason::TooManyEvents => "the request holds more events than limits.events",
            RefusalReason::EventTooLarge => "the event is larger than limits.event_bytes",
            RefusalReason::BodyTimeout => "the body did not arrive in time",
            RefusalReason::BodyIncomplete => "the body ended early",
            RefusalReason::MissingWriteKey => "no write key was sent",
            RefusalReason::UnknownWriteKey => "the write key belongs to no source",
            RefusalReason::DialectNotAllowed => "this source does not take this dialect",
            RefusalReason::OriginNotAllowed => "this source does not take requests of this origin",
            RefusalReason::RateLimited => "this source sends faster than its rate",
            RefusalReason::Overloaded => "too many requests are in flight; try again later",
            RefusalReason::SpoolFull => "the gateway's disk is full; try again later",
            RefusalReason::SpoolFailed => "the request could not be made durable; try again later",
            RefusalReason::Draining => "the gateway is stopping; try again later",
            RefusalReason::AckTimeout => {
                "the request is durable in the gateway's spool and goes on from there, but not yet where its source wants it acknowledged"
            }
        }
    }
}

impl From<RefusalReason> for Refusal {
    /// With the reason's own sentence.
    fn from(reason: RefusalReason) -> Refusal {
        Refusal { reason, detail: reason.sentence().to_owned(), retry_after_s: None }
    }
}

impl Refusal {
    /// Names the limit that was passed and its value.
    pub fn over(reason: RefusalReason, limit: usize) -> Refusal {
        Refusal { reason, detail: format!("{} ({limit})", reason.sentence()), retry_after_s: None }
    }
    pub fn retry_after(self, seconds: u32) -> Refusal {
        Refusal { retry_after_s: Some(seconds), ..self }
    }
}
