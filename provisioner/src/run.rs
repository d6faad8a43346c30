//! Puts the parts together: start-up in upstream's order, leadership, work, and the end.

use std::ffi::OsString;
use std::sync::Arc;

use csi_proto::csi::methods;
use sidecar::controller::link::{Calls, Identity};
use sidecar::controller::{self, Program, Seat};
use sidecar::flags::Exit;
use sidecar::kube::connect::Variable;
use sidecar::names::LeaseOwner;
use sidecar::rt::unit_random;
use sidecar::verbose;

use crate::args::{self, Config, Environment, FATAL};
use crate::control::{self, CapacityProducer, Parts};
use crate::plan::driver::is_migrated;
use crate::work::capacity;
use crate::work::discovery;
use crate::work::driver::{self as our_driver, DriverView};
use crate::work::metrics::{Metrics, Room};

const PROGRAM: Program = Program {
    name: "csi-provisioner",
    version: option_env!("CSI_SIDECARS_VERSION"),
    crates: &["provisioner", "csi_provisioner"],
    owner: LeaseOwner::Provisioner,
    kubeconfig: Variable::Overrides,
    fatal: FATAL,
};

/// Runs csi-provisioner.
///
/// # Errors
/// How the process ends unless a signal ends it in good order.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let environment = Environment::new(|name| std::env::var(name).ok());
    let decide = |values: &_| args::decide(values, &environment);
    controller::run(PROGRAM, &args::SPEC, argv, decide, start).await
}

async fn start(seat: Seat, mut config: Config) -> Result<(), Exit> {
    let process = &*seat.process;
    // Of all programs upstream's provisioner alone does.
    process.registry.count_scrapes()?;
    let metrics = Metrics::new(&process.registry)?;
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
        let lacks = !given && discovery::lacks_attributes_class(&seat.api()).await;
        if lacks {
            tracing::info!(
                "The API server has no VolumeAttributesClass, its feature gate is switched off"
            );
        }
        let handshake = connecting.await?;
        Ok((!lacks, handshake))
    };
    let (attributes_class, handshake) = process.unless_ended(meeting).await?;
    config.settings.gates.attributes_class &= attributes_class;
    handshake.name_calls();
    tracing::info!(driver = handshake.name(), "Detected CSI driver");
    let driver: Arc<DriverView> = process.unless_ended(handshake.into_view(())).await?;
    let known = driver.current();
    if let Some(plugin) = known.plugin() {
        verbose!(
            2,
            plugin,
            "The driver serves the volumes of an in-tree plugin"
        );
    }
    config.settings.identity = identity(&config, &known.name);
    let node = match &config.settings.node {
        Some(_) => Some(our_driver::node(&driver).await?),
        None => None,
    };
    let parts = Parts {
        producer: producer(&seat, &config, &known.name).await?,
        seat: &seat,
        config: &config,
        metrics,
        driver: &driver,
        node,
    };
    let work = async || Box::pin(control::work(&parts)).await;
    let working = seat.lead(config.election.as_ref(), Some(&*driver), work);
    process.serve(config.http.as_ref(), working).await
}

/// Prepares what is told about room, if that is wanted.
async fn producer(
    seat: &Seat,
    config: &Config,
    driver: &str,
) -> Result<Option<CapacityProducer>, Exit> {
    let Some(capacity) = &config.capacity else {
        return Ok(None);
    };
    let process = &*seat.process;
    let api = seat.api();
    let node = config.settings.node.as_ref().map(|node| &*node.name);
    let origin = capacity::origin(&api, capacity, driver, node);
    Ok(Some(CapacityProducer {
        origin: process.unless_ended(origin).await?,
        client: seat.another_client(capacity.rate),
        room: Room::new(&process.registry)?,
    }))
}

/// Tells processes apart in the attributes of the volumes they create.
fn identity(config: &Config, driver: &str) -> String {
    let millis = jiff::Timestamp::now().as_millisecond();
    // Below 10,000 by construction; nothing depends on how evenly.
    let random = format!("{:.0}", (unit_random() * 10_000.0).floor());
    match &config.settings.node {
        None => format!("{millis}-{random}-{driver}"),
        Some(node) => format!("{millis}-{random}-{driver}-{}", node.name),
    }
}
