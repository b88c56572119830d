//! Delivery reports of messages that were produced together.
//!
//! Owns: how many are out, and what befell the first that failed. Does not own: what follows from it.

use parking_lot::{Condvar, Mutex};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::message::{DeliveryResult, Message};
use std::time::Instant;

#[derive(Default)]
pub(super) struct Batch {
    reports: Mutex<Reports>,
    changed: Condvar,
}

#[derive(Default)]
struct Reports {
    /// Produced and not reported.
    out: usize,
    failed: Option<Failed>,
}

/// The first message that was not delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failed {
    pub code: Code,
    pub place: String,
}

impl Batch {
    /// One more is about to be produced.
    pub fn add(&self) {
        self.reports.lock().out += 1;
    }
    /// It was not taken after all.
    pub fn undo(&self) {
        self.reports.lock().out -= 1;
    }

    pub fn report(&self, result: &DeliveryResult<'_>) {
        let mut reports = self.reports.lock();
        reports.out -= 1;
        if let Err((error, message)) = result
            && reports.failed.is_none()
        {
            let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
            reports.failed = Some(Failed { code, place: format!("{}-{}", message.topic(), message.partition()) });
        }
        if reports.out == 0 || reports.failed.is_some() {
            drop(reports);
            self.changed.notify_all();
        }
    }

    /// How many are out, and the first that failed.
    pub fn now(&self) -> (usize, Option<Failed>) {
        let reports = self.reports.lock();
        (reports.out, reports.failed.clone())
    }

    /// Until all are reported or one failed; then as `now`.
    pub fn wait(&self, until: Instant) -> (usize, Option<Failed>) {
        let mut reports = self.reports.lock();
        while reports.out > 0 && reports.failed.is_none() {
            if self.changed.wait_until(&mut reports, until).timed_out() {
                break;
            }
        }
        (reports.out, reports.failed.clone())
    }

    /// Until all are reported, well or not.
    pub fn wait_all(&self, until: Instant) {
        let mut reports = self.reports.lock();
        while reports.out > 0 && !self.changed.wait_until(&mut reports, until).timed_out() {}
    }
}
