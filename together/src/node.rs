//! The process of livenessprobe and registrar, beside a driver on a node.
//!
//! It links no Kubernetes client: both programs talk only to the driver and to kubelet, and for
//! `--remove-taint` to the API server through a client with three requests (`sidecar::in_cluster`). This
//! module adds the surrounding process, with one command line and one HTTP server.

mod args;
mod process;
mod routes;

use std::ffi::OsString;

use sidecar::build;
use sidecar::flags::Exit;
use sidecar::in_cluster::{InCluster, user_agent};
use sidecar::log;

use crate::plan::split::{Line, list_of, split_as};
use crate::programs::NODE;
use args::Command;
#[cfg(feature = "controllers")]
pub(crate) use args::prefixed;

/// Name of the binary that contains only this process.
pub(super) const FILE: &str = "csi-node-sidecars";

/// The crates whose log lines carry a controller's name.
static CONTROLLERS: &[(&str, &str)] = &[
    ("livenessprobe", "livenessprobe"),
    ("registrar", "node-driver-registrar"),
];

/// Runs `csi-node-sidecars`.
///
/// # Errors
/// Returns the exit, unless SIGTERM ended the process in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    run_as(FILE, argv).await
}

/// Whether `argv` names only controllers of this process, so that [`run_as`] should run it.
#[must_use]
pub fn is_asked_for(argv: &[OsString]) -> bool {
    let words = argv.iter().skip(1).filter_map(|word| word.to_str());
    let list = list_of(words).unwrap_or_default().split(',').map(str::trim);
    let mut names = list.filter(|name| !name.is_empty()).peekable();
    let is_here = |name: &str| NODE.iter().any(|program| program.is_called(name));
    names.peek().is_some() && names.all(is_here)
}

/// Like [`run`], as part of the binary called `file`.
///
/// # Errors
/// As [`run`].
pub async fn run_as(file: &str, argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let words: Result<Vec<_>, _> = { argv.into_iter() }
        .skip(1)
        .map(OsString::into_string)
        .collect();
    let words = words.map_err(|word| Exit {
        stderr: format!("{file}: {word:?} is no text\n"),
        ..Exit::with_code(2)
    })?;
    let parts = match split_as(file, words.iter().map(String::as_str), NODE)? {
        Line::Version => return Err(Exit::version(file)),
        Line::Help(text) => {
            return Err(Exit {
                stdout: text,
                ..Exit::with_code(0)
            });
        }
        Line::Run(parts) => parts,
    };
    match args::decide(file, parts)? {
        Command::Probe => Ok(()),
        Command::Run(config) => {
            let own = &["together", "csi_node_sidecars"];
            log::init_with_controllers(&config.log, own, CONTROLLERS);
            build::announce(file);
            tracing::info!("Starting");
            let api = InCluster::new(&user_agent(file, build::VERSION));
            Box::pin(process::work(*config, api)).await
        }
    }
}

#[cfg(test)]
mod tests;
