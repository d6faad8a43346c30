//! `csi-attacher`: attaches and detaches volumes as VolumeAttachment objects request.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(attacher::run::run(std::env::args_os()))
}
