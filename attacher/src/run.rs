//! Puts the parts together: start-up in upstream's order, leadership, work, and the end.

use std::ffi::OsString;

use csi_proto::csi::methods;
use sidecar::controller::driver::{self, Identity, Met};
use sidecar::controller::lead::PATIENCE;
use sidecar::controller::{Base, Program};
use sidecar::flags::{self, Exit, Values};
use sidecar::kube::connect::Variable;
use sidecar::log;
use sidecar::metrics::CsiOperations;
use sidecar::names::LeaseOwner;

use crate::args::{self, Command, Config};
use crate::control;
use crate::plan::driver::is_migrated;
use crate::work::driver::{IDENTITY_TIMEOUT, Settings};

const PROGRAM: Program = Program {
    name: "csi-attacher",
    version: match option_env!("CSI_SIDECARS_VERSION") {
        Some(version) => version,
        None => "unknown",
    },
    owner: LeaseOwner::Attacher,
    kubeconfig: Variable::Ignored,
    fatal: 1,
};

/// What everything else is made from.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) base: Base,
}

/// Runs csi-attacher.
///
/// # Errors
/// How the process ends unless a signal ends it in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let values = flags::parse(&args::SPEC, argv)?;
    let config = log::Config::from_flags(&values)?;
    log::init(&config, &["attacher", "csi_attacher"]);
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
    let base = Base::new(values, PROGRAM).await?;
    if config.threads == 0 {
        let line = "--worker-threads=0: must be greater than zero";
        return Err(Exit::failure(1, line));
    }
    let parts = Parts { config, base };
    let (met, operations) = tokio::select! {
        biased;
        met = Met::meet_counted(parts.settings(), &parts.base.registry, is_migrated) => met?,
        () = parts.base.shutdown.requested() => return Ok(()),
    };
    parts.go_on(&operations, met).await
}

impl Parts {
    fn settings(&self) -> driver::Settings {
        let config = &self.config;
        driver::Settings {
            address: config.csi_address.clone(),
            timeout: config.timeout,
            identity: Identity::Together(IDENTITY_TIMEOUT),
            methods: &[methods::IDENTITY, methods::CONTROLLER],
            response_limit: config.response_limit,
            patience: config.election.as_ref().map(|_| PATIENCE),
            mute: 1,
            fence: self.base.fence.clone(),
        }
    }

    /// From the driver's name on: the HTTP server comes before anything that may take long.
    async fn go_on(&self, operations: &CsiOperations, met: Met) -> Result<(), Exit> {
        operations.set_driver_name(met.name());
        sidecar::verbose!(2, driver = met.name(), "CSI driver name");
        let settings = Settings {
            default_fs_type: self.config.default_fs_type.clone(),
            error_codes: self.config.error_codes,
        };
        let working = async {
            let driver = tokio::select! {
                biased;
                driver = met.know(settings) => driver?,
                () = self.base.shutdown.requested() => return Ok(()),
            };
            let election = self.config.election.as_ref();
            let work = async || Box::pin(control::work(self, &driver)).await;
            self.base.lead(election, &driver, work).await
        };
        self.base.serve(self.config.http.as_ref(), working).await
    }
}
