//! `kubectl csi preflight`: csi-sidecars has the tables of flags and permissions of all programs, so it answers.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use sidecar::rt::Exit;

/// The program that has the subcommand.
const PROGRAM: &str = "csi-sidecars";

/// Where the program may be: beside this one, then in PATH.
fn places() -> impl Iterator<Item = PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<_> = std::env::split_paths(&path)
        .map(|folder| folder.join(PROGRAM))
        .collect();
    beside.into_iter().chain(path)
}

/// Replaces this process with `csi-sidecars preflight`, or tells the user how to run it.
#[must_use]
pub fn preflight(arguments: &[OsString]) -> Exit {
    let Some(program) = places().find(|path| path.is_file()) else {
        return Exit::failure(
            1,
            format!(
                "{PROGRAM}, which answers this, is neither beside kubectl-csi nor in PATH: make build PROGRAMS={PROGRAM}, or run its image, for example helm template RELEASE CHART | podman run --rm -i REGISTRY/{PROGRAM}:VERSION preflight -"
            ),
        );
    };
    let error = Command::new(&program)
        .arg("preflight")
        .args(arguments)
        .exec();
    Exit::failure(1, format!("{}: {error}", program.display()))
}
