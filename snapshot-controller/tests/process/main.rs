//! The built program, seen from outside: command line, API server, HTTP, signals.
//!
//! The test plays the sidecar. A test that covers a row of the specification carries its number.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod backup;
mod command_line;
mod contract;
mod groups;
mod kinds;
mod life;
mod lifecycle;
mod members;
mod metrics;
mod stage;
mod trace;
