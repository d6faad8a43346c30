//! The built program as seen from outside: command line, API server, driver, signals.
//!
//! A test that covers a row of the specification's section 12 carries its number.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a panic is how a test fails"
)]

mod attach;
mod command_line;
mod connection;
mod contract;
mod controller;
mod detach;
mod driver;
mod election;
mod lanes;
mod lifecycle;
mod metrics;
mod migration;
mod orphan;
mod reconcile;
mod request;
mod retry;
mod stage;
mod start;
mod trace;
mod trivial;
mod volume;
mod why;
