//! The gateway as pure code: what a request is, which events are in it, how it is answered.
//!
//! The path of a request, in the order in which the shell calls:
//! 1. `route(method, target)`, before the body is read. `Startup`, `Preflight`, `Limits` are answered from `answer`
//!    (their bodies are read and dropped) and never landed.
//! 2. `keys::from_head` may find the source before the body is read; `headers::anonymous` says whether addresses go.
//! 3. `open(route, request, limits)` takes the encodings off the body, finds its events and all write keys and app ids.
//! 4. `opened.accept(source, fresh)` gives every event its id: `Keep(Accepted)` or `Refuse(Refusal)`.
//!    `accept(…)` is 3 and 4 in one call, where the source is known from the head.
//! 5. `accepted.raw(request, stamp, addresses)` is the record for the spool; `harvest::each(raw, decoded, …)` visits its
//!    events with their partition keys, live (`accepted.decoded`) and after a crash (`decode_again(raw)`) alike.
//! 6. `answer::…` in the dialect of the route, `cors::headers` on every status. The shell adds `Forebay-Request-Id`.
//!
//! No IO, no clock, no randomness: times, ids and random bits come in as arguments.

pub mod route;
pub mod refusal;
pub mod limits;
pub mod headers;
pub mod keys;
pub mod accept;
pub mod inflate;
pub mod query;
pub mod text;
pub mod split;
pub mod time;
pub mod dialect;
pub mod identity;
pub mod key;
pub mod harvest;
pub mod answer;
pub mod cors;
pub mod segment;
#[cfg(test)]
mod testing;

pub use accept::{Accepted, Opened, Request, Stamp, Verdict, accept, open};
pub use answer::Answer;
pub use harvest::{decode_again, harvest};
pub use limits::Limits;
pub use refusal::{Refusal, RefusalReason};
pub use route::{EventsRoute, Route, StartupRoute, route};
