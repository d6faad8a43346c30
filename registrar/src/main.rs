//! `csi-node-driver-registrar`: registers a CSI driver with kubelet.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(registrar::run::run(std::env::args_os()))
}
