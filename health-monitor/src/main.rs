//! `csi-external-health-monitor-controller`: shows on claims what the CSI driver says of the health of their volumes.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(health_monitor::run::run(std::env::args_os()))
}
