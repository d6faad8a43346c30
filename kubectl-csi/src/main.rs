//! `kubectl-csi`: why is this volume stuck?

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(kubectl_csi::run::run(std::env::args_os()))
}
