//! `csi-snapshot-metadata`: tells backup clients which blocks of a snapshot are allocated or have changed.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(snapshot_metadata::run::run(std::env::args_os()))
}
