//! `csi-node-agent`: stages and publishes volumes as kubelet does, without a kubelet.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(node_agent::program::run(std::env::args_os()))
}
