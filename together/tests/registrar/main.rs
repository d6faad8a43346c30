//! csi-node-driver-registrar's rows for a process, run with `csi-node-sidecars`. The rows about rejected
//! flags do not apply, since the command line differs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    reason = "a test that panics has failed, which is what it is for"
)]
#![allow(
    dead_code,
    unused_imports,
    reason = "what only the rows use that are left out"
)]

#[path = "../../../registrar/tests/registrar/driver.rs"]
mod driver;
#[path = "../../../registrar/tests/registrar/http.rs"]
mod http;
#[path = "../../../registrar/tests/registrar/kubelet.rs"]
mod kubelet;
#[path = "../../../registrar/tests/registrar/process.rs"]
mod process;
mod program;
#[path = "../../../registrar/tests/registrar/raw.rs"]
mod raw;
#[path = "../../../registrar/tests/registrar/recovery.rs"]
mod recovery;
#[path = "../../../registrar/tests/registrar/service.rs"]
mod service;
#[path = "../../../registrar/tests/registrar/signals.rs"]
mod signals;
#[path = "../../../registrar/tests/registrar/socket.rs"]
mod socket;
#[path = "../../../registrar/tests/registrar/startup.rs"]
mod startup;
