//! `csi-node-driver-registrar`: introduces a CSI driver to kubelet.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(registrar::run::run(std::env::args_os()))
}
