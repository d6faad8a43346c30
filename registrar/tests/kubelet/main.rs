//! Kubelet's side of plugin registration, all 83 rows of the specification's section 8.3.
//!
//! A test that covers a row carries its number, as in `k_22_…`. Decisions are tested as tables;
//! everything with a protocol runs against a scripted registration server, a model driver and a
//! model API server, on tokio's paused clock.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

mod back_off;
mod csinode;
mod deciding;
mod leaving;
mod node;
mod objects;
mod process;
mod refreshing;
mod registering;
mod schedule;
mod script;
mod stage;
mod starting;
mod version;
mod watching;
mod wire;
