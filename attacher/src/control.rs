//! The controllers of a process while it leads: watches, workers, and the comparison with
//! `ListVolumes`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sidecar::controller::tasks::GRACE;
use sidecar::controller::{Seat, Tasks, Watch, watch};
use sidecar::flags::Exit;
use sidecar::kube::events::Source;
use sidecar::kube::objects::{ATTACHMENTS, CSI_NODES, VOLUMES};
use sidecar::names;

use crate::args::Config;
use crate::permission;
use crate::plan::lifecycle::STAGES;
use crate::plan::reactor::Change;
use crate::work::drift;
use crate::work::driver::DriverView;
use crate::work::executor::{Executor, engine};
use crate::work::informers::Informers;

/// How long start-up waits for the list of CSINodes. Without permission to list them it would wait
/// for ever, and detaches work without the list.
const NODES_PATIENCE: Duration = Duration::from_secs(10);

/// Works until a signal arrives, then finishes the running attempts.
///
/// # Errors
/// Returns the process's exit when the driver came back with incompatible capabilities.
pub(crate) async fn work(
    seat: &Seat,
    config: &Config,
    driver: &Arc<DriverView>,
) -> Result<(), Exit> {
    let lifecycle = seat.lifecycle(&driver.current().name, STAGES);
    let engine = engine(driver, seat.api(), config.pacing, seat.queues(), &lifecycle)?;
    engine.depends_on(&seat.process.server);
    engine.traced_by(seat.tracer());
    seat.explained(&engine, Some(&**driver));
    let publish = driver.current().abilities.publish;
    let watches = watches(&engine.shell().informers, config.resync, publish);
    let serving = async {
        watch::ready(&watches).await;
        seat.begin(watch::kinds(&watches), None).await;
        tracing::info!("Starting CSI attacher");
        tokio::select! {
            () = engine.serve() => {}
            never = drift::watch(&engine, config.reconcile, config.max_entries) => match never {},
        }
    };
    let background = async {
        tokio::select! {
            never = seat.watch(&watches) => never,
            never = driver.whenever_back(|| engine.observe(Change::DriverBack)) => never,
            never = advise(seat, engine.shell(), publish) => never,
        }
    };
    let tasks = Tasks {
        lost: driver.follow(),
        serving,
        background,
        grace: GRACE,
    };
    let result = tasks.run(&engine, &seat.ending).await;
    drop(engine);
    seat.last_events().await;
    result
}

/// The watches to run. `publish`: the driver implements publish and unpublish.
fn watches(caches: &Informers, resync: Duration, publish: bool) -> [Watch; 3] {
    [
        Watch::all(ATTACHMENTS, &caches.attachments).resync(resync),
        Watch::all(VOLUMES, &caches.volumes)
            .when(publish)
            .resync(resync),
        Watch::all(CSI_NODES, &caches.nodes)
            .when(publish)
            .within(NODES_PATIENCE, "Continuing without a list of CSINodes"),
    ]
}

/// Logs missing permissions, and enables events if the service account may write them.
async fn advise(seat: &Seat, executor: &Executor, publish: bool) -> Infallible {
    let rules = permission::rules(publish);
    let report = seat.missing(&rules).await;
    if permission::grants_events(&report) && publish {
        let recorder = seat.record_events(Source {
            component: format!("csi-attacher/{}", executor.driver.current().name),
            host: names::hostname().unwrap_or_default(),
        });
        executor.failure_events.allow(recorder);
    }
    seat.advise_after(report, &rules).await
}
