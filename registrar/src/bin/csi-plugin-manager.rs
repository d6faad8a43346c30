//! `csi-plugin-manager`: registers CSI drivers as kubelet does, without a kubelet.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(registrar::kubelet::program::run(std::env::args_os()))
}
