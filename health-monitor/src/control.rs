//! The controller of a process while it leads: watches and workers.

use std::convert::Infallible;
use std::sync::Arc;

use sidecar::controller::tasks::GRACE;
use sidecar::controller::{Seat, Tasks, Watch, watch};
use sidecar::flags::Exit;
use sidecar::kube::events::Source;
use sidecar::kube::objects::{CLAIMS, VOLUMES};
use sidecar::names;
use tokio::sync::watch as watch_channel;

use crate::args::Config;
use crate::permission;
use crate::plan::mode::Mode;
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
    seat.explained(&engine, Some(&**driver));
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
    let background = async {
        tokio::select! {
            never = seat.watch(&watches) => never,
            never = driver.whenever_back(|| engine.observe(Change::DriverBack)) => never,
            never = open(seat, engine, &watches) => never,
            never = advise(seat, driver) => never,
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

/// Says which permissions are missing for the calls that the driver is asked for, and again when it comes back as one
/// that is asked for others.
async fn advise(seat: &Seat, driver: &DriverView) -> Infallible {
    let mode = watch_channel::Sender::new(driver.current().mode);
    let back = driver.whenever_back(|| {
        let now = driver.current().mode;
        mode.send_if_modified(|mode| std::mem::replace(mode, now) != now);
    });
    tokio::select! {
        never = back => never,
        never = advise_in(seat, mode.subscribe()) => never,
    }
}

async fn advise_in(seat: &Seat, mut mode: watch_channel::Receiver<Mode>) -> Infallible {
    loop {
        let rules = permission::rules(*mode.borrow_and_update());
        tokio::select! {
            // A driver that is back in another mode is logged before its permissions are looked at.
            biased;
            never = seat.advise(&rules) => match never {},
            _ = mode.changed() => {}
        }
    }
}
