//! Several controllers in one process, seen from outside: command line, API server, driver,
//! leases, signals.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod command_line;
mod driver;
mod end;
mod feeds;
mod health;
mod leases;
mod node;
mod server;
mod shown;
mod stage;
mod why;
