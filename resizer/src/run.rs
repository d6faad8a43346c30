//! Puts the parts together: start-up in upstream's order, leadership, work, and the end.

use std::ffi::OsString;

use csi_proto::csi::methods;
use sidecar::controller::link::{Calls, Identity};
use sidecar::controller::{self, Program, Seat};
use sidecar::flags::Exit;
use sidecar::kube::api::Api;
use sidecar::kube::connect::Variable;
use sidecar::kube::discovery;
use sidecar::names::LeaseOwner;

use crate::args::{self, Config};
use crate::control;
use crate::plan::Driver;
use crate::plan::driver::is_migrated;

const PROGRAM: Program = Program {
    name: "csi-resizer",
    version: option_env!("CSI_SIDECARS_VERSION"),
    crates: &["resizer", "csi_resizer"],
    owner: LeaseOwner::Resizer,
    kubeconfig: Variable::Ignored,
    fatal: 1,
};

/// Runs csi-resizer.
///
/// # Errors
/// How the process ends unless a signal ends it in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    controller::run(PROGRAM, &args::SPEC, argv, args::decide, start).await
}

async fn start(seat: Seat, mut config: Config) -> Result<(), Exit> {
    let process = &*seat.process;
    let calls = Calls {
        timeout: config.timeout,
        methods: &[methods::IDENTITY, methods::CONTROLLER, methods::NODE],
        response_limit: None,
    };
    let connecting = seat.connect_driver(
        &config.csi_address,
        calls,
        Identity::Each(config.timeout),
        config.election.as_ref(),
        is_migrated,
    );
    let given = config.attributes_class_given;
    let meeting = async {
        let classes = given || has_classes(&seat.api()).await;
        let handshake = connecting.await?;
        sidecar::verbose!(2, driver = handshake.name(), "CSI driver name");
        Ok((classes, handshake))
    };
    let (classes, handshake) = process.unless_ended(meeting).await?;
    config.settings.gates.attributes_class &= classes;
    let driver = process
        .unless_ended(handshake.into_view::<Driver>(()))
        .await?;
    driver.link().name_calls();
    let work = async || Box::pin(control::work(&seat, &config, &driver)).await;
    let working = seat.lead(config.election.as_ref(), Some(&*driver), work);
    process.serve(config.http.as_ref(), working).await
}

/// Whether the API server may have VolumeAttributesClasses.
async fn has_classes(api: &Api) -> bool {
    const VERSION: &str = "storage.k8s.io/v1";
    match discovery::serves(api, VERSION, "VolumeAttributesClass").await {
        Ok(true) => {
            tracing::info!("VolumeAttributesClass v1 API is available");
            true
        }
        Ok(false) => {
            tracing::info!(
                "Disabling VolumeAttributesClass feature gate because the API server does not \
                 serve that kind"
            );
            false
        }
        Err(error) => {
            tracing::error!(
                err = %error,
                "Failed to check VolumeAttributesClass V1 API availability, going on as if it \
                 were there"
            );
            true
        }
    }
}
