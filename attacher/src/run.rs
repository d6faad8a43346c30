//! Assembles the program: start-up in upstream's order, leadership, work, and shutdown.

use std::ffi::OsString;
use std::sync::Arc;

use csi_proto::csi::methods;
use migration::TRANSLATOR;
use sidecar::controller::link::{Calls, Identity};
use sidecar::controller::{self, Controller, Election, Http, Program, Seat};
use sidecar::flags::{Exit, Values};
use sidecar::kube::connect::Variable;
use sidecar::names::LeaseOwner;

use crate::args::{self, Command, Config};
use crate::control;
use crate::plan::Driver;
use crate::work::driver::{DriverView, IDENTITY_TIMEOUT, Settings};

/// Runs csi-attacher.
///
/// # Errors
/// Returns the exit, unless a signal ended the process in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    controller::run(Attacher::PROGRAM, &args::SPEC, argv, decide, start).await
}

/// The command that the flags select, and the warnings to log.
///
/// # Errors
/// As [`args::decide`].
pub fn decide(values: &Values) -> Result<(Command, Vec<String>), Exit> {
    args::decide(values)
}

async fn start(seat: Seat, config: Config) -> Result<(), Exit> {
    let attacher = Attacher::new(config)?;
    let process = &*seat.process;
    let handshake = seat.connect_driver(
        attacher.csi_address(),
        attacher.calls(),
        Identity::Together(IDENTITY_TIMEOUT),
        attacher.election(),
        Attacher::is_migrated,
    );
    let handshake = process.unless_ended(handshake).await?;
    handshake.name_calls();
    sidecar::verbose!(2, driver = handshake.name(), "CSI driver name");
    // The HTTP server starts before anything that may take long.
    let working = async {
        let view = handshake.into_view(attacher.settings());
        let driver = process.unless_ended(view).await?;
        let work = async || Box::pin(attacher.work(&seat, &driver)).await;
        seat.lead(attacher.election(), Some(&*driver), work).await
    };
    Box::pin(process.serve(attacher.http(), working)).await
}

/// The attacher controller.
#[derive(Debug)]
pub struct Attacher {
    config: Config,
}

impl Attacher {
    /// An attacher with this configuration.
    ///
    /// # Errors
    /// Rejects zero worker threads, with which it would never do anything.
    pub fn new(config: Config) -> Result<Self, Exit> {
        if config.pacing.workers == 0 {
            let line = "--worker-threads=0: must be greater than zero";
            return Err(Exit::failure(1, line));
        }
        Ok(Self { config })
    }
}

impl Controller for Attacher {
    type Driver = Driver;

    const PROGRAM: Program = Program {
        name: "csi-attacher",
        replaces: "csi-attacher v4.13.0",
        crates: &["attacher", "csi_attacher"],
        owner: LeaseOwner::Attacher,
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
            methods: &[methods::IDENTITY, methods::CONTROLLER],
            response_limit: self.config.response_limit,
        }
    }

    fn is_migrated(driver: &str) -> bool {
        TRANSLATOR.has_moved_to(driver)
    }

    fn settings(&self) -> Settings {
        Settings {
            default_fs_type: self.config.default_fs_type.clone(),
            error_codes: self.config.error_codes,
        }
    }

    async fn work(&self, seat: &Seat, driver: &Arc<DriverView>) -> Result<(), Exit> {
        Box::pin(control::work(seat, &self.config, driver)).await
    }
}
