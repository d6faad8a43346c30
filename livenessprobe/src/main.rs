//! `livenessprobe`: answers health requests with what the CSI driver says to `Probe`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(livenessprobe::run::run(std::env::args_os()))
}
