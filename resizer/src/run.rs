//! Puts the parts together: start-up in upstream's order, leadership, work, and the end.

use std::ffi::OsString;
use std::sync::Arc;

use csi_proto::csi::methods;
use sidecar::controller::driver::{self, Identity, Met};
use sidecar::controller::lead::PATIENCE;
use sidecar::controller::{Base, Program};
use sidecar::flags::{self, Exit, Values};
use sidecar::kube::api::Api;
use sidecar::kube::connect::Variable;
use sidecar::kube::discovery;
use sidecar::log;
use sidecar::metrics::CsiOperations;
use sidecar::names::LeaseOwner;

use crate::args::{self, Command, Config};
use crate::control;
use crate::plan::driver::is_migrated;
use crate::work::driver::DriverLink;

const PROGRAM: Program = Program {
    name: "csi-resizer",
    version: match option_env!("CSI_SIDECARS_VERSION") {
        Some(version) => version,
        None => "unknown",
    },
    owner: LeaseOwner::Resizer,
    kubeconfig: Variable::Ignored,
    fatal: 1,
};

/// What everything else is made from.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) base: Base,
}

/// Runs csi-resizer.
///
/// # Errors
/// How the process ends unless a signal ends it in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let values = flags::parse(&args::SPEC, argv)?;
    let config = log::Config::from_flags(&values)?;
    log::init(&config, &["resizer", "csi_resizer"]);
    let (command, warnings) = args::decide(&values)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    match command {
        Command::Version => Err(Exit::version(values.program(), PROGRAM.version)),
        Command::Run(config) => Box::pin(start(&values, *config)).await,
    }
}

async fn start(values: &Values, config: Config) -> Result<(), Exit> {
    let mut parts = Parts {
        config,
        base: Base::new(values, PROGRAM).await?,
    };
    let met = tokio::select! {
        biased;
        met = parts.meet() => met,
        () = parts.base.shutdown.requested() => return Ok(()),
    };
    let (classes, operations, met) = met?;
    parts.config.settings.gates.attributes_class &= classes;
    parts.go_on(&operations, met).await
}

impl Parts {
    /// Whether the API server may have VolumeAttributesClasses, then the driver and its name.
    async fn meet(&self) -> Result<(bool, CsiOperations, Met), Exit> {
        let classes = self.config.attributes_class_given || self.has_classes().await;
        let registry = &self.base.registry;
        let met = Met::meet_counted(self.settings(), registry, is_migrated);
        let (met, operations) = met.await?;
        sidecar::verbose!(2, driver = met.name(), "CSI driver name");
        Ok((classes, operations, met))
    }

    async fn has_classes(&self) -> bool {
        const VERSION: &str = "storage.k8s.io/v1";
        let api = Api::new(self.base.client.clone());
        match discovery::serves(&api, VERSION, "VolumeAttributesClass").await {
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

    fn settings(&self) -> driver::Settings {
        let config = &self.config;
        driver::Settings {
            address: config.csi_address.clone(),
            timeout: config.timeout,
            identity: Identity::Each(config.timeout),
            methods: &[methods::IDENTITY, methods::CONTROLLER, methods::NODE],
            response_limit: None,
            patience: config.election.as_ref().map(|_| PATIENCE),
            mute: 1,
            fence: self.base.fence.clone(),
        }
    }

    /// From the driver's name on.
    async fn go_on(&self, operations: &CsiOperations, met: Met) -> Result<(), Exit> {
        let driver: Arc<DriverLink> = tokio::select! {
            biased;
            driver = met.know(()) => driver?,
            () = self.base.shutdown.requested() => return Ok(()),
        };
        operations.set_driver_name(&driver.current().name);
        let election = self.config.election.as_ref();
        let work = async || Box::pin(control::work(self, &driver)).await;
        let working = self.base.lead(election, &driver, work);
        self.base.serve(self.config.http.as_ref(), working).await
    }
}
