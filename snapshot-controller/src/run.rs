//! Start-up: waits for the kinds of the snapshot API, leads, works, and shuts down.

use std::ffi::OsString;

use sidecar::controller::{self, Program, Seat};
use sidecar::flags::Exit;
use sidecar::kube::connect::Variable;
use sidecar::names::LeaseOwner;

use crate::args::{self, Config};
use crate::control::{self, Groups};
use crate::work::kinds;
use crate::work::metrics::Metrics;

/// Name and properties of the program.
pub const PROGRAM: Program = Program {
    name: "snapshot-controller",
    replaces: "snapshot-controller v8.7.0",
    crates: &["snapshot_controller"],
    owner: LeaseOwner::SnapshotController,
    gates: args::GATES,
    kubeconfig: Variable::Ignored,
    fatal: 1,
};

/// Runs snapshot-controller.
///
/// # Errors
/// The exit code and text; none after a signal if the shutdown was clean.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    controller::run(PROGRAM, &args::SPEC, argv, args::decide, start).await
}

async fn start(seat: Seat, config: Config) -> Result<(), Exit> {
    let process = &*seat.process;
    let metrics = Metrics::new(&process.registry)?;
    // The HTTP server starts before anything that may take long.
    let working = async {
        let api = seat.api();
        let kinds = kinds::wait(&api, config.crd_timeout);
        process.unless_ended(kinds).await?;
        let groups = match config.groups {
            true if kinds::groups(&api).await => Groups::Served,
            true => Groups::Awaited,
            false => Groups::Off,
        };
        let work = async || Box::pin(control::work(&seat, &config, groups, &metrics)).await;
        seat.lead(config.election.as_ref(), None, work).await
    };
    Box::pin(process.serve(config.http.as_ref(), working)).await
}
