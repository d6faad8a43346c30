//! `csi-node-sidecars`: livenessprobe and the registrar of a driver in one process.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(together::node::run(std::env::args_os()))
}
