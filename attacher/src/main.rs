//! `csi-attacher`: makes what VolumeAttachment objects ask for true in the storage system.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(attacher::run::run(std::env::args_os()))
}
