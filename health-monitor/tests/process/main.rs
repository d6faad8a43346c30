//! The built program as seen from outside: command line, API server, driver, signals.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod contract;
mod events;
mod get;
mod list;
mod memory;
mod stage;
mod start;
mod write;
