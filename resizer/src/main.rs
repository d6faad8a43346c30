//! `csi-resizer`: makes volumes larger, and changes their attributes, when their claims ask for it.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(resizer::run::run(std::env::args_os()))
}
