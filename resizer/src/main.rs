//! `csi-resizer`: expands volumes and modifies their attributes as their claims request.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(resizer::run::run(std::env::args_os()))
}
