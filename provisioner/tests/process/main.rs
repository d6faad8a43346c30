//! The built program as its surroundings see it: command line, API server, driver, signals.
//!
//! A test that covers a row of the specification's section 24 carries its number.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod capacity;
mod command_line;
mod connection;
mod contract;
mod delete;
mod driver;
mod election;
mod journal;
mod lifecycle;
mod migration;
mod node;
mod outcome;
mod patience;
mod provision;
mod rows;
mod select;
mod shutdown;
mod source;
mod stage;
mod start;
mod topology;
mod trace;
mod unsettled;
