//! `snapshot-controller`: binds VolumeSnapshots to their contents, once per cluster.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(snapshot_controller::run::run(std::env::args_os()))
}
