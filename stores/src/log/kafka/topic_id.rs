//! The id that Kafka gave a topic when it was made; librdkafka tells it, its Rust face does not.
//!
//! Owns: the one place of this workspace that calls C. Invariant: whatever librdkafka gives out here is given back, and
//! nothing of it outlives the call.
#![allow(unsafe_code)]

use super::error;
use crate::log::LogError;
use rdkafka::bindings as c;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode as Code;
use std::ffi::CString;
use std::ptr;
use std::time::Duration;

/// Gives back at the end of its scope.
struct Owned<T>(*mut T, unsafe extern "C" fn(*mut T));

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the constructor that belongs to this destructor, and is given back once.
        unsafe { (self.1)(self.0) }
    }
}

pub(super) fn ask<C: ClientContext>(client: &Client<C>, name: &str, wait: Duration) -> Result<String, LogError> {
    let what = format!("id of topic {name}");
    let wait_ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
    let c_name = CString::new(name).map_err(|_| LogError::Refused(what.clone()))?;
    let rk = client.native_ptr();
    // SAFETY: `rk` lives as long as `client`. Each constructor gives a pointer of our own; `c_name` outlives the list,
    // which copies it. What the event holds is read before the event is given back.
    let (code, high, low) = unsafe {
        let queue = Owned(c::rd_kafka_queue_new(rk), c::rd_kafka_queue_destroy);
        let options = c::rd_kafka_AdminOptions_new(rk, c::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
        let options = Owned(options, c::rd_kafka_AdminOptions_destroy);
        c::rd_kafka_AdminOptions_set_request_timeout(options.0, wait_ms, ptr::null_mut(), 0);
        let topics = c::rd_kafka_TopicCollection_of_topic_names([c_name.as_ptr()].as_mut_ptr(), 1);
        let topics = Owned(topics, c::rd_kafka_TopicCollection_destroy);
        c::rd_kafka_DescribeTopics(rk, topics.0, options.0, queue.0);
        let event = c::rd_kafka_queue_poll(queue.0, wait_ms);
        if event.is_null() {
            return Err(LogError::Io(format!("{what}: no answer")));
        }
        let event = Owned(event, c::rd_kafka_event_destroy);
        let result = c::rd_kafka_event_DescribeTopics_result(event.0);
        let mut count = 0;
        let described = if result.is_null() { ptr::null_mut() } else { c::rd_kafka_DescribeTopics_result_topics(result, &mut count) };
        if described.is_null() || count == 0 {
            (c::rd_kafka_event_error(event.0), 0, 0)
        } else {
            let code = c::rd_kafka_error_code(c::rd_kafka_TopicDescription_error(*described));
            let id = c::rd_kafka_TopicDescription_topic_id(*described);
            (code, c::rd_kafka_Uuid_most_significant_bits(id), c::rd_kafka_Uuid_least_significant_bits(id))
        }
    };
    match Code::from(code) {
        Code::NoError if (high, low) != (0, 0) => Ok(uuid::Uuid::from_u64_pair(high as u64, low as u64).hyphenated().to_string()),
        Code::NoError => Err(LogError::Refused(format!("{what}: the brokers give topics no ids"))),
        code => Err(error::of_code(&what, code)),
    }
}
