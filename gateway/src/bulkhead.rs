//! What one source may take of the gateway, so that it cannot take all of it: a rate of events, a number of requests.
//!
//! Owns: the balance and the places of one source. Does not own: the bounds that hold for all (`http`, `budget`).
//! Invariant: over any time a source is let in with at most its rate times that time, and a second's worth and one request more:
//! whoever comes while the balance is positive is let in whole, and what that costs is paid before the next one is.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub struct Bulkhead {
    rate: Option<Rate>,
    places: Option<Arc<Semaphore>>,
}

struct Rate {
    events_a_second: f64,
    balance: Mutex<Balance>,
}

struct Balance {
    /// Below zero: what was let in is not paid yet.
    events: f64,
    at: Instant,
}

/// Why a source's request is turned away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crowded {
    /// It sends faster than its rate; its balance is positive after this long.
    Rate(Duration),
    /// As many of its requests are in flight as may be.
    Places,
}

/// A place among the source's requests in flight; none where it has no bound.
pub struct Seat {
    _place: Option<OwnedSemaphorePermit>,
}

impl Bulkhead {
    /// Events a second, requests in flight; `None`: as the gateway can.
    pub fn new(rate: Option<u32>, in_flight: Option<usize>) -> Bulkhead {
        let rate = rate.map(|rate| Rate {
            events_a_second: f64::from(rate),
            balance: Mutex::new(Balance { events: f64::from(rate), at: Instant::now() }),
        });
        Bulkhead { rate, places: in_flight.map(|places| Arc::new(Semaphore::new(places))) }
    }

    /// Whether a request would be let in now. Nothing is taken: its body may still turn out to be another's.
    pub fn look(&self, now: Instant) -> Result<(), Crowded> {
        if self.places.as_ref().is_some_and(|places| places.available_permits() == 0) {
            return Err(Crowded::Places);
        }
        self.rate.as_ref().map_or(Ok(()), |rate| rate.pay(0, now))
    }

    /// Lets a request of so many events in.
    pub fn enter(&self, events: usize, now: Instant) -> Result<Seat, Crowded> {
        let place = match &self.places {
            Some(places) => Some(places.clone().try_acquire_owned().map_err(|_| Crowded::Places)?),
            None => None,
        };
        self.rate.as_ref().map_or(Ok(()), |rate| rate.pay(events, now))?;
        Ok(Seat { _place: place })
    }
}

impl Rate {
    fn pay(&self, events: usize, now: Instant) -> Result<(), Crowded> {
        let mut balance = self.balance.lock();
        let since = now.saturating_duration_since(balance.at);
        balance.events = (balance.events + since.as_secs_f64() * self.events_a_second).min(self.events_a_second);
        balance.at = balance.at.max(now);
        if balance.events <= 0.0 {
            return Err(Crowded::Rate(Duration::from_secs_f64(-balance.events / self.events_a_second)));
        }
        balance.events -= events as f64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_request_is_let_in_whole_and_paid_for() {
        let (bulkhead, start) = (Bulkhead::new(Some(10), None), Instant::now());
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        assert!(bulkhead.enter(35, at(0.0)).is_ok());
        let Err(Crowded::Rate(wait)) = bulkhead.look(at(0.5)).map(drop) else { panic!("its balance is -20") };
        assert!((wait.as_secs_f64() - 2.0).abs() < 0.01, "{wait:?}");
        assert!(bulkhead.enter(1, at(2.4)).is_err());
        assert!(bulkhead.enter(1, at(2.6)).is_ok());
    }

    #[test]
    fn places_are_given_back() {
        let bulkhead = Bulkhead::new(None, Some(2));
        let now = Instant::now();
        let seats = [bulkhead.enter(1, now), bulkhead.enter(1, now)];
        assert!(seats.iter().all(Result::is_ok));
        assert_eq!((bulkhead.enter(1, now).err(), bulkhead.look(now)), (Some(Crowded::Places), Err(Crowded::Places)));
        drop(seats);
        assert!(bulkhead.enter(1, now).is_ok() && Bulkhead::new(None, None).enter(usize::MAX, now).is_ok());
    }

    /// xorshift: any choice will do.
    #[test]
    fn no_more_than_the_rate_is_let_in() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        for _ in 0..200 {
            let rate = 1 + below(1_000) as u32;
            let (bulkhead, start) = (Bulkhead::new(Some(rate), None), Instant::now());
            let (mut now, mut let_in, mut last) = (start, 0, 0);
            for _ in 0..200 {
                now += Duration::from_millis(below(3_000));
                let events = 1 + below(500) as usize;
                if bulkhead.enter(events, now).is_ok() {
                    let_in += events;
                    last = events;
                }
                let bound = (now - start).as_secs_f64() * f64::from(rate) + f64::from(rate) + last as f64 + 1e-6;
                assert!(let_in as f64 <= bound, "{let_in} of {bound}");
            }
            assert!(let_in > 0);
        }
    }
}
