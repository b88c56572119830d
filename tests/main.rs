//! The integration tests: one binary, so that the product is linked once. `FOREBAY_SUITE=soak` makes the long ones long.

mod harness;

mod bad_input;
mod bench;
mod canary;
mod combine;
mod explain;
mod faults;
mod interop;
mod kill;
mod model;
mod recordings;
mod roles;
mod table;
mod tidy;
mod up;
mod windows;
