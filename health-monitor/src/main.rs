//! `csi-external-health-monitor-controller`: reports on claims the volume health that the CSI driver returns.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(health_monitor::run::run(std::env::args_os()))
}
