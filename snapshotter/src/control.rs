//! The controller of one process while it leads: watches and workers.

use std::sync::Arc;
use std::time::Duration;

use sidecar::controller::tasks::GRACE;
use sidecar::controller::{Seat, Tasks, Watch, watch};
use sidecar::flags::Exit;
use sidecar::kube::events::Source;
use sidecar::kube::reflect::Scope;
use sidecar::names;
use sidecar::snapshot::MANAGED_BY;

use crate::args::Config;
use crate::permission;
use crate::plan::reactor::Change;
use crate::work::api::{CLASSES, CONTENTS};
use crate::work::driver::DriverView;
use crate::work::executor::{Engine, Pacing, engine};
use crate::work::informers::Informers;

/// Works until a signal comes, then finishes what is under way.
///
/// # Errors
/// How the process ends: the driver came back as something else.
pub(crate) async fn work(
    seat: &Seat,
    config: &Config,
    driver: &Arc<DriverView>,
) -> Result<(), Exit> {
    let engine = snapshotter(seat, config, driver)?;
    let result = Box::pin(lead(seat, config, &engine)).await;
    drop(engine);
    seat.last_events().await;
    result
}

fn snapshotter(
    seat: &Seat,
    config: &Config,
    driver: &Arc<DriverView>,
) -> Result<Arc<Engine>, Exit> {
    let pacing = Pacing {
        workers: config.workers,
        retry_start: config.retry_start,
        retry_max: config.retry_max,
    };
    let events = seat.record_events(Source {
        component: format!("csi-snapshotter {}", driver.current().name),
        host: names::hostname().unwrap_or_default(),
    });
    let by = (pacing, &config.settings);
    let engine = engine(driver, (seat.api(), events), by, seat.queues())?;
    engine.depends_on(&seat.process.server);
    Ok(engine)
}

async fn lead(seat: &Seat, config: &Config, engine: &Arc<Engine>) -> Result<(), Exit> {
    let driver = &engine.shell().driver;
    let informers = &engine.shell().informers;
    let watches = watches(informers, config.node.as_deref(), config.resync);
    let rules = permission::rules();
    let serving = async {
        watch::ready(&watches).await;
        tracing::info!("Starting CSI snapshotter");
        engine.serve().await;
    };
    let background = async {
        tokio::select! {
            never = seat.watch(&watches) => never,
            never = driver.whenever_back(|| engine.observe(Change::DriverBack)) => never,
            never = seat.advise(&rules) => never,
        }
    };
    let tasks = Tasks {
        lost: driver.follow(),
        serving,
        background,
        grace: GRACE,
    };
    tasks.run(engine, &seat.process.shutdown).await
}

/// What is watched: of contents those of the `node`, if there is one. Classes have no label.
fn watches(caches: &Informers, node: Option<&str>, resync: Duration) -> [Watch; 2] {
    let contents = Scope {
        labels: node.map_or_else(String::new, |node| format!("{MANAGED_BY}={node}")),
        ..Scope::all(CONTENTS)
    };
    [
        Watch::of(contents, &caches.contents).resync(resync),
        Watch::all(CLASSES, &caches.classes),
    ]
}
