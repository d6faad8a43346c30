//! livenessprobe's rows for a process, run with `csi-node-sidecars`. The rows about rejected flags do
//! not apply, since the command line differs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that panics has failed, which is what it is for"
)]
#![allow(
    dead_code,
    unused_imports,
    reason = "what only the rows use that are left out"
)]

#[path = "../../../livenessprobe/tests/livenessprobe/connection.rs"]
mod connection;
#[path = "../../../livenessprobe/tests/livenessprobe/health.rs"]
mod health;
#[path = "../../../livenessprobe/tests/livenessprobe/hostile.rs"]
mod hostile;
#[path = "../../../livenessprobe/tests/livenessprobe/listeners.rs"]
mod listeners;
#[path = "../../../livenessprobe/tests/livenessprobe/metrics.rs"]
mod metrics;
#[path = "../../../livenessprobe/tests/livenessprobe/process.rs"]
mod process;
mod program;
#[path = "../../../livenessprobe/tests/livenessprobe/signals.rs"]
mod signals;
#[path = "../../../livenessprobe/tests/livenessprobe/startup.rs"]
mod startup;
