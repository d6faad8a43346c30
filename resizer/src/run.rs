//! Assembles the program: start-up in upstream's order, leader election, work, exit.

use std::ffi::OsString;
use std::sync::Arc;

use csi_proto::csi::methods;
use migration::TRANSLATOR;
use sidecar::controller::link::{Calls, Identity};
use sidecar::controller::{self, Controller, Election, Http, Program, Seat};
use sidecar::flags::{Exit, Values};
use sidecar::kube::api::Api;
use sidecar::kube::connect::Variable;
use sidecar::kube::discovery;
use sidecar::names::LeaseOwner;

use crate::args::{self, Command, Config};
use crate::control;
use crate::plan::Driver;
use crate::work::driver::DriverView;

/// Runs csi-resizer.
///
/// # Errors
/// The process's exit, unless a signal ends it in an orderly way.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    controller::run(Resizer::PROGRAM, &args::SPEC, argv, decide, start).await
}

/// Turns the parsed flags into a command and warnings.
///
/// # Errors
/// Those of [`args::decide`].
pub fn decide(values: &Values) -> Result<(Command, Vec<String>), Exit> {
    args::decide(values)
}

async fn start(seat: Seat, config: Config) -> Result<(), Exit> {
    let mut resizer = Resizer::new(config);
    let process = &*seat.process;
    let address = resizer.config.csi_address.clone();
    let election = resizer.config.election.clone();
    let identity = Identity::Each(resizer.config.timeout);
    let calls = resizer.calls();
    let connecting = seat.connect_driver(
        &address,
        calls,
        identity,
        election.as_ref(),
        Resizer::is_migrated,
    );
    let meeting = async {
        resizer.discover(&seat).await?;
        let handshake = connecting.await?;
        sidecar::verbose!(2, driver = handshake.name(), "CSI driver name");
        Ok(handshake)
    };
    let handshake = process.unless_ended(meeting).await?;
    let driver = process
        .unless_ended(handshake.into_view::<Driver>(()))
        .await?;
    driver.link().name_calls();
    let work = async || Box::pin(resizer.work(&seat, &driver)).await;
    let working = seat.lead(resizer.election(), Some(&*driver), work);
    process.serve(resizer.http(), working).await
}

/// The controller that expands and modifies volumes.
#[derive(Debug)]
pub struct Resizer {
    config: Config,
}

impl Resizer {
    /// A controller with this configuration.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config }
    }
}

impl Controller for Resizer {
    type Driver = Driver;

    const PROGRAM: Program = Program {
        name: "csi-resizer",
        replaces: "csi-resizer v2.3.0",
        crates: &["resizer", "csi_resizer"],
        owner: LeaseOwner::Resizer,
        gates: args::GATES,
        kubeconfig: Variable::Ignored,
        fatal: 1,
    };

    fn csi_address(&self) -> &str {
        &self.config.csi_address
    }

    fn election(&self) -> Option<&Election> {
        self.config.election.as_ref()
    }

    fn http(&self) -> Option<&Http> {
        self.config.http.as_ref()
    }

    fn calls(&self) -> Calls {
        Calls {
            timeout: self.config.timeout,
            methods: &[methods::IDENTITY, methods::CONTROLLER, methods::NODE],
            response_limit: None,
        }
    }

    fn is_migrated(driver: &str) -> bool {
        TRANSLATOR.has_moved_to(driver)
    }

    fn settings(&self) {}

    async fn discover(&mut self, seat: &Seat) -> Result<(), Exit> {
        let classes = self.config.attributes_class_given || has_classes(&seat.api()).await;
        self.config.settings.gates.attributes_class &= classes;
        Ok(())
    }

    async fn work(&self, seat: &Seat, driver: &Arc<DriverView>) -> Result<(), Exit> {
        Box::pin(control::work(seat, &self.config, driver)).await
    }
}

/// Whether the API server may serve VolumeAttributesClasses.
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
