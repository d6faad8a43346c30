//! The registrar as a process: its behaviour towards its environment. Test names carry the rows of the specification.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    reason = "a test that panics has failed, which is what it is for"
)]

mod driver;
mod flags;
mod http;
mod kubelet;
mod process;
mod program;
mod raw;
mod recovery;
mod service;
mod signals;
mod socket;
mod startup;
