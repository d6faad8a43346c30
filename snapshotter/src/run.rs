//! Assembles the program: start-up in upstream's order, leader election, work, exit.

mod groups;

use std::ffi::OsString;
use std::sync::Arc;

use csi_proto::csi::methods;
use sidecar::controller::link::{Calls, Identity};
use sidecar::controller::{self, Controller, Election, Http, Program, Seat};
use sidecar::flags::{Exit, Values};
use sidecar::kube::connect::Variable;
use sidecar::names::LeaseOwner;

use crate::args::{self, Command, Config};
use crate::control::{self, Groups};
use crate::plan::Driver;
use crate::work::driver::DriverView;

/// Runs csi-snapshotter.
///
/// # Errors
/// The process's exit, unless a signal ends it in an orderly way.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    controller::run(Snapshotter::PROGRAM, &args::SPEC, argv, decide, start).await
}

/// Turns the parsed flags and the environment into a command and warnings.
///
/// # Errors
/// Those of [`args::decide`].
pub fn decide(values: &Values) -> Result<(Command, Vec<String>), Exit> {
    let node = std::env::var("NODE_NAME").ok();
    args::decide(values, node.as_deref())
}

async fn start(seat: Seat, config: Config) -> Result<(), Exit> {
    let mut snapshotter = Snapshotter::new(config);
    let process = &*seat.process;
    let handshake = seat.connect_driver(
        snapshotter.csi_address(),
        snapshotter.calls(),
        Identity::Each(snapshotter.config.timeout),
        snapshotter.election(),
        Snapshotter::is_migrated,
    );
    let handshake = process.unless_ended(handshake).await?;
    handshake.name_calls();
    sidecar::verbose!(2, driver = handshake.name(), "CSI driver name");
    let http = snapshotter.config.http.clone();
    let working = async {
        process.unless_ended(snapshotter.discover(&seat)).await?;
        let view = handshake.into_view::<Driver>(snapshotter.settings());
        let driver = process.unless_ended(view).await?;
        let work = async || Box::pin(snapshotter.work(&seat, &driver)).await;
        seat.lead(snapshotter.election(), Some(&*driver), work)
            .await
    };
    Box::pin(process.serve(http.as_ref(), working)).await
}

/// The controller that creates and deletes snapshots and group snapshots.
#[derive(Debug)]
pub struct Snapshotter {
    config: Config,
    /// Whether group snapshots are served, once known.
    groups: Groups,
}

impl Snapshotter {
    /// A controller with this configuration.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            groups: Groups::Off,
        }
    }
}

impl Controller for Snapshotter {
    type Driver = Driver;

    const PROGRAM: Program = Program {
        name: "csi-snapshotter",
        replaces: "csi-snapshotter v8.7.0",
        crates: &["snapshotter", "csi_snapshotter"],
        owner: LeaseOwner::Snapshotter,
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
            methods: &[
                methods::IDENTITY,
                methods::CONTROLLER,
                methods::GROUP_CONTROLLER,
            ],
            response_limit: None,
        }
    }

    /// No in-tree plugin creates snapshots.
    fn is_migrated(_driver: &str) -> bool {
        false
    }

    fn settings(&self) -> bool {
        matches!(self.groups, Groups::Served(_))
    }

    async fn discover(&mut self, seat: &Seat) -> Result<(), Exit> {
        self.groups = groups::served(seat, &self.config).await?;
        Ok(())
    }

    async fn work(&self, seat: &Seat, driver: &Arc<DriverView>) -> Result<(), Exit> {
        let work = control::work(seat, &self.config, &self.groups, driver);
        Box::pin(work).await
    }
}
