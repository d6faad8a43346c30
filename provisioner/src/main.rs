//! `csi-provisioner`: creates volumes for claims, and deletes released ones.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(provisioner::run::run(std::env::args_os()))
}
