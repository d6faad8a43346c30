//! The work of a leading process: watches and workers.

use std::convert::Infallible;
use std::sync::Arc;

use sidecar::controller::tasks::GRACE;
use sidecar::controller::watch::ready_for;
use sidecar::controller::{Seat, Tasks, Watch, watch};
use sidecar::flags::Exit;
use sidecar::kube::events::Source;
use sidecar::kube::objects::{ATTRIBUTES_CLASSES, CLAIMS, PODS, VOLUMES};
use sidecar::names;

use crate::args::Config;
use crate::permission::{self, watches_classes, watches_pods};
use crate::plan::Kind;
use crate::plan::lifecycle;
use crate::plan::reactor::Change;
use crate::work::driver::DriverView;
use crate::work::executor::{Engine, engine};
use crate::work::informers::Informers;

/// Works until a signal arrives, then finishes the attempts under way.
///
/// # Errors
/// The process's exit: the driver restarted as one that this process cannot work with.
pub(crate) async fn work(
    seat: &Seat,
    config: &Config,
    driver: &Arc<DriverView>,
) -> Result<(), Exit> {
    let engine = resizer(seat, config, driver)?;
    let result = Box::pin(lead(seat, config, &engine)).await;
    drop(engine);
    seat.last_events().await;
    result
}

fn resizer(seat: &Seat, config: &Config, driver: &Arc<DriverView>) -> Result<Arc<Engine>, Exit> {
    let events = seat.record_events(Source {
        component: format!("external-resizer {}", driver.current().name),
        host: names::hostname().unwrap_or_default(),
    });
    let can = driver.current().abilities;
    let modify = watches_classes(can, &config.settings);
    let stages = lifecycle::stages(can.has(Kind::Expand), modify);
    let lifecycle = seat.lifecycle(&driver.current().name, stages);
    let engine = engine(driver, seat.api(), events, config, seat.queues(), lifecycle)?;
    engine.depends_on(&seat.process.server);
    engine.traced_by(seat.tracer());
    seat.explained(&engine, Some(&**driver));
    Ok(engine)
}

async fn lead(seat: &Seat, config: &Config, engine: &Arc<Engine>) -> Result<(), Exit> {
    let driver = &engine.shell().driver;
    let can = driver.current().abilities;
    let watches = watches(
        &engine.shell().informers,
        config,
        watches_pods(can, &config.settings),
        watches_classes(can, &config.settings),
    );
    let rules = permission::rules(can, &config.settings);
    let background = async {
        tokio::select! {
            never = seat.watch(&watches) => never,
            never = driver.whenever_back(|| engine.observe(Change::DriverBack)) => never,
            never = open(seat, engine, config, &watches) => never,
            never = seat.advise(&rules) => never,
        }
    };
    let tasks = Tasks {
        lost: driver.follow(),
        serving: engine.serve(),
        background,
        grace: GRACE,
    };
    tasks.run(engine, &seat.ending).await
}

/// The watches. Each kind of task waits only for its own lists: without the permission to list
/// pods, volumes are still modified.
fn watches(caches: &Informers, config: &Config, pods: bool, classes: bool) -> [Watch<Kind>; 4] {
    [
        Watch::all(CLAIMS, &caches.claims).resync(config.resync),
        Watch::all(VOLUMES, &caches.volumes),
        Watch::all(PODS, &caches.pods)
            .when(pods)
            .only_for(Kind::Expand),
        Watch::all(ATTRIBUTES_CLASSES, &caches.classes)
            .when(classes)
            .only_for(Kind::Modify),
    ]
}

/// Opens the gate of each kind of task once the lists that it depends on are complete.
async fn open(
    seat: &Seat,
    engine: &Engine,
    config: &Config,
    watches: &[Watch<Kind>],
) -> Infallible {
    let can = engine.shell().driver.current().abilities;
    let expand = async {
        ready_for(watches, &Kind::Expand).await;
        seat.begin(watch::kinds(watches), None).await;
        if can.has(Kind::Expand) {
            tracing::info!("Starting external resizer");
            engine.observe(Change::Listed(Kind::Expand));
        }
    };
    let modify = async {
        ready_for(watches, &Kind::Modify).await;
        seat.begin(watch::kinds(watches), None).await;
        if watches_classes(can, &config.settings) {
            tracing::info!("Starting external resizer for modify volume");
            engine.observe(Change::Listed(Kind::Modify));
        }
    };
    tokio::join!(expand, modify);
    std::future::pending().await
}
