//! Kubelet's side of volumes, the 40 rows of the specification's section 8.4.
//!
//! A test that covers a row carries its number, as in `v_11_…`. The agent runs against a model
//! driver and a model API server, on tokio's paused clock; the model driver mounts nothing, but the
//! scenarios on a real control plane do.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a panic is how a test fails"
)]

mod attaching;
mod ephemeral;
mod failing;
mod frozen;
mod growing;
mod hostile;
mod http;
mod labels;
mod mounting;
mod options;
mod remade;
mod restarting;
mod simulation;
mod stage;
mod turns;
mod unmounting;
