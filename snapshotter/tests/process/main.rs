//! The built program as its surroundings see it: command line, API server, driver, signals.
//!
//! A test that covers a row of the specification's section 10 carries its number.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod command_line;
mod contract;
mod copied;
mod crash;
mod create;
mod delete;
mod failure;
mod found;
mod group;
mod members;
mod node;
mod shutdown;
mod stage;
mod start;
mod topology;
mod trace;
