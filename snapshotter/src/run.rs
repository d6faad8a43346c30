//! Puts the parts together: start-up in upstream's order, leadership, work, and the end.

mod groups;

use std::ffi::OsString;

use csi_proto::csi::methods;
use sidecar::controller::link::{Calls, Identity};
use sidecar::controller::{self, Program, Seat};
use sidecar::flags::Exit;
use sidecar::kube::connect::Variable;
use sidecar::names::LeaseOwner;

use crate::args::{self, Config};
use crate::control;
use crate::plan::Driver;

const PROGRAM: Program = Program {
    name: "csi-snapshotter",
    version: option_env!("CSI_SIDECARS_VERSION"),
    crates: &["snapshotter", "csi_snapshotter"],
    owner: LeaseOwner::Snapshotter,
    kubeconfig: Variable::Ignored,
    fatal: 1,
};

/// Runs csi-snapshotter.
///
/// # Errors
/// How the process ends unless a signal ends it in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let node = std::env::var("NODE_NAME").ok();
    let decide = |values: &_| args::decide(values, node.as_deref());
    controller::run(PROGRAM, &args::SPEC, argv, decide, start).await
}

async fn start(seat: Seat, config: Config) -> Result<(), Exit> {
    let process = &*seat.process;
    let calls = Calls {
        timeout: config.timeout,
        methods: &[
            methods::IDENTITY,
            methods::CONTROLLER,
            methods::GROUP_CONTROLLER,
        ],
        response_limit: None,
    };
    let handshake = seat.connect_driver(
        &config.csi_address,
        calls,
        Identity::Each(config.timeout),
        config.election.as_ref(),
        // No plugin of Kubernetes itself takes snapshots.
        |_| false,
    );
    let handshake = process.unless_ended(handshake).await?;
    handshake.name_calls();
    sidecar::verbose!(2, driver = handshake.name(), "CSI driver name");
    let working = async {
        let groups = process.unless_ended(groups::served(&seat, &config)).await?;
        let view = handshake.into_view::<Driver>(groups.is_some());
        let driver = process.unless_ended(view).await?;
        let work = async || {
            let work = control::work(&seat, &config, groups.as_ref(), &driver);
            Box::pin(work).await
        };
        seat.lead(config.election.as_ref(), Some(&*driver), work)
            .await
    };
    Box::pin(process.serve(config.http.as_ref(), working)).await
}
