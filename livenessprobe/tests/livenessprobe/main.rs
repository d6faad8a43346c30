//! The livenessprobe as a process: its behaviour towards its environment. Test names carry the rows of the
//! specification.
//!
//! `LIVENESSPROBE_BINARY=path` runs them against another binary, such as upstream's; checks that only hold for ours are
//! left out then.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that panics has failed, which is what it is for"
)]

mod connection;
mod flags;
mod health;
mod hostile;
mod listeners;
mod metrics;
mod process;
mod program;
mod signals;
mod startup;
