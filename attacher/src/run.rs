//! Puts the parts together: start-up in upstream's order, leadership, work, and the end.

use std::ffi::OsString;

use csi_proto::csi::methods;
use sidecar::controller::link::{Calls, Identity};
use sidecar::controller::{self, Program, Seat};
use sidecar::flags::Exit;
use sidecar::kube::connect::Variable;
use sidecar::names::LeaseOwner;

use crate::args::{self, Config};
use crate::control;
use crate::plan::driver::is_migrated;
use crate::work::driver::{IDENTITY_TIMEOUT, Settings};

const PROGRAM: Program = Program {
    name: "csi-attacher",
    version: option_env!("CSI_SIDECARS_VERSION"),
    crates: &["attacher", "csi_attacher"],
    owner: LeaseOwner::Attacher,
    kubeconfig: Variable::Ignored,
    fatal: 1,
};

/// Runs csi-attacher.
///
/// # Errors
/// How the process ends unless a signal ends it in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    controller::run(PROGRAM, &args::SPEC, argv, args::decide, start).await
}

async fn start(seat: Seat, config: Config) -> Result<(), Exit> {
    if config.threads == 0 {
        let line = "--worker-threads=0: must be greater than zero";
        return Err(Exit::failure(1, line));
    }
    let process = &*seat.process;
    let calls = Calls {
        timeout: config.timeout,
        methods: &[methods::IDENTITY, methods::CONTROLLER],
        response_limit: config.response_limit,
    };
    let handshake = seat.connect_driver(
        &config.csi_address,
        calls,
        Identity::Together(IDENTITY_TIMEOUT),
        config.election.as_ref(),
        is_migrated,
    );
    let handshake = process.unless_ended(handshake).await?;
    handshake.name_calls();
    sidecar::verbose!(2, driver = handshake.name(), "CSI driver name");
    let decisions = Settings {
        default_fs_type: config.default_fs_type.clone(),
        error_codes: config.error_codes,
    };
    // The HTTP server comes before anything that may take long.
    let working = async {
        let driver = process.unless_ended(handshake.into_view(decisions)).await?;
        let work = async || Box::pin(control::work(&seat, &config, &driver)).await;
        seat.lead(config.election.as_ref(), Some(&*driver), work)
            .await
    };
    Box::pin(process.serve(config.http.as_ref(), working)).await
}
