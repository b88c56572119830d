//! librdkafka's error codes, as the log's errors.
//!
//! Owns: which of them waiting does not change, and what to do about those. Does not own: what a transaction's end means
//! (`lane`).

use super::client::Context;
use crate::log::LogError;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// `what` was asked or done, and this came of it.
pub(super) fn of_code(what: &str, code: Code) -> LogError {
    match advice(code) {
        Some(advice) => LogError::Refused(format!("{what}: {code}; {advice}")),
        None => LogError::Io(format!("{what}: {code}")),
    }
}

/// As `of_code`; when nobody answered, with what was heard of the brokers meanwhile.
pub(super) fn of(what: &str, error: &KafkaError, context: &Context) -> LogError {
    let Some(code) = error.rdkafka_error_code() else { return LogError::Io(format!("{what}: {error}")) };
    match (code, context.said()) {
        (Code::OperationTimedOut | Code::BrokerTransportFailure | Code::RequestTimedOut, Some((said, reason))) => {
            unanswered(what, said, &reason)
        }
        (Code::OperationTimedOut | Code::RequestTimedOut, None) => LogError::Io(format!("{what}: no answer; {code}")),
        _ => of_code(what, code),
    }
}

/// A client cannot be made. Never tells a property's value: it may be a password.
pub(super) fn of_config(error: &KafkaError) -> LogError {
    match error {
        KafkaError::ClientConfig(_, why, name, _) => LogError::Refused(format!("{name}: {why}; see [log]")),
        other => LogError::Refused(format!("{other}; see [log]")),
    }
}

/// Nobody answered, and the last that was heard of the brokers is this.
pub(super) fn unanswered(what: &str, said: Code, reason: &str) -> LogError {
    match advice(said) {
        Some(advice) => LogError::Refused(format!("{what}: {reason}; {advice}")),
        None => LogError::Io(format!("{what}: no answer; {reason}")),
    }
}

/// What to do about what does not pass by itself.
fn advice(code: Code) -> Option<&'static str> {
    match code {
        // That of a partition without a leader librdkafka calls unknown, too: `UnknownPartition` passes.
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownTopicId => Some("`forebay topics apply` makes the topics"),
        // Without a topic to write, or the right to write idempotently, there is no producer.
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => {
            Some("let this user describe, read and write the topics of [log.topics]")
        }
        Code::GroupAuthorizationFailed => Some("let this user describe and read the groups that begin with enricher.job"),
        Code::TransactionalIdAuthorizationFailed => {
            Some("let this user describe and write the transactional ids that begin with enricher.job")
        }
        Code::Authentication | Code::SaslAuthenticationFailed | Code::UnsupportedSASLMechanism | Code::IllegalSASLState => {
            Some("see log.sasl and log.tls")
        }
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize => {
            Some("the topic takes smaller messages than it must: `forebay topics apply` sets max.message.bytes")
        }
        Code::InvalidTopic | Code::InvalidConfig | Code::InvalidRecord | Code::InvalidTimestamp | Code::PolicyViolation => {
            Some("`forebay topics check` tells what is not as it must be")
        }
        Code::InvalidTransactionTimeout => Some("the brokers' transaction.max.timeout.ms is too short"),
        Code::UnsupportedVersion | Code::UnsupportedFeature | Code::UnsupportedForMessageFormat => {
            Some("the brokers are older than Kafka 2.5, or say so")
        }
        _ => None,
    }
}

/// A partition or a group is on its way to another broker, or a connection to one broke.
pub(super) fn is_moving(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::BrokerTransportFailure
                | Code::NotLeaderForPartition
                | Code::LeaderNotAvailable
                | Code::ReplicaNotAvailable
                | Code::UnknownPartition
                | Code::UnknownTopicOrPartition
                | Code::FencedLeaderEpoch
                | Code::UnknownLeaderEpoch
                | Code::OffsetNotAvailable
                | Code::KafkaStorageError
        )
    )
}

/// Another holder of the same transactional id came after us.
pub(super) fn is_fenced(code: Code) -> bool {
    matches!(code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch | Code::TransactionCoordinatorFenced)
}
