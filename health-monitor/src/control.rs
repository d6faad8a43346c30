//! The controller of a process while it leads: watches and workers.

use std::convert::Infallible;
use std::sync::Arc;

use sidecar::controller::tasks::GRACE;
use sidecar::controller::{Seat, Tasks, Watch, watch};
use sidecar::flags::Exit;
use sidecar::kube::events::Source;
use sidecar::kube::objects::{CLAIMS, VOLUMES};
use sidecar::names;

use crate::args::Config;
use crate::permission;
use crate::plan::reactor::Change;
use crate::work::driver::DriverView;
use crate::work::executor::{Engine, component, engine};
use crate::work::informers::Informers;
use crate::work::metrics::Metrics;

/// Works until a signal arrives, then finishes the running attempts.
///
/// # Errors
/// Returns the process's exit when the driver came back as one that the health monitor cannot continue with.
pub(crate) async fn work(
    seat: &Seat,
    config: &Config,
    driver: &Arc<DriverView>,
    metrics: Metrics,
) -> Result<(), Exit> {
    let _term = metrics.term();
    let engine = engine(driver, seat.api(), config, metrics, seat.queues())?;
    engine.depends_on(&seat.process.server);
    let recorder = seat.record_events(Source {
        component: component(&driver.current().name),
        host: names::hostname().unwrap_or_default(),
    });
    // A second recorder would behave the same.
    let _ = engine.shell().events.set(recorder);
    let result = Box::pin(lead(seat, driver, &engine)).await;
    drop(engine);
    seat.last_events().await;
    result
}

async fn lead(seat: &Seat, driver: &DriverView, engine: &Arc<Engine>) -> Result<(), Exit> {
    let watches = watches(&engine.shell().informers);
    let rules = permission::rules(driver.current().mode);
    let background = async {
        tokio::select! {
            never = seat.watch(&watches) => never,
            never = driver.whenever_back(|| engine.observe(Change::DriverBack)) => never,
            never = open(seat, engine, &watches) => never,
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

fn watches(caches: &Informers) -> [Watch; 2] {
    [
        Watch::all(CLAIMS, &caches.claims),
        Watch::all(VOLUMES, &caches.volumes),
    ]
}

/// Starts the work once all lists are complete.
async fn open(seat: &Seat, engine: &Engine, watches: &[Watch]) -> Infallible {
    watch::ready(watches).await;
    seat.begin(watch::kinds(watches), None).await;
    tracing::info!("Starting external health monitor");
    engine.observe(Change::Ready);
    std::future::pending().await
}
