//! Admission as a whole, through the public face alone.

mod fixtures;
mod canary;
mod dialects;
mod docs;
mod hostile;
mod recordings;
mod told;
