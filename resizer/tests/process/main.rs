//! The built program as its surroundings see it: command line, API server, driver, signals.
//!
//! A test that covers a row of the specification's section 16 carries its number.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod codes;
mod command_line;
mod contract;
mod driver;
mod election;
mod expand;
mod in_use;
mod lifecycle;
mod memory;
mod metrics;
mod migration;
mod modify;
mod race;
mod recover;
mod request;
mod shutdown;
mod stage;
mod start;
