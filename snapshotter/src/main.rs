//! `csi-snapshotter`: creates, looks up and deletes snapshots in the storage system for
//! VolumeSnapshotContents.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecar::rt::run(snapshotter::run::run(std::env::args_os()))
}
