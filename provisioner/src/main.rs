//! `csi-provisioner`: makes volumes for claims, and removes them when nobody claims them any more.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(provisioner::run::run(std::env::args_os()))
}
