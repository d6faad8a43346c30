//! `livenessprobe`: answers health requests with the CSI driver's answer to `Probe`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(livenessprobe::run::run(std::env::args_os()))
}
