//! The controller of one process while it leads: watches and workers.

use sidecar::controller::tasks::GRACE;
use sidecar::controller::{Seat, Tasks, Watch, watch};
use sidecar::flags::Exit;
use sidecar::kube::events::Source;
use sidecar::names;

use crate::args::Config;
use crate::permission;
use crate::work::api::{CLAIMS, CLASSES, CONTENTS, NODES, SNAPSHOTS, VOLUMES};
use crate::work::executor::engine;
use crate::work::informers::Informers;
use crate::work::metrics::Metrics;

/// Works until a signal comes, then finishes what is under way.
///
/// # Errors
/// How the process ends.
pub(crate) async fn work(seat: &Seat, config: &Config, metrics: &Metrics) -> Result<(), Exit> {
    let events = seat.record_events(Source {
        component: "snapshot-controller".to_owned(),
        host: names::hostname().unwrap_or_default(),
    });
    let engine = engine(seat, config, events, metrics)?;
    engine.depends_on(&seat.process.server);
    let watches = watches(&engine.shell().informers, config);
    let serving = async {
        watch::ready(&watches).await;
        tracing::info!("Starting snapshot controller");
        engine.serve().await;
    };
    let rules = permission::rules(config.settings);
    let background = async {
        tokio::select! {
            never = seat.watch(&watches) => never,
            never = seat.advise(&rules) => never,
        }
    };
    let tasks = Tasks {
        lost: std::future::pending(),
        serving,
        background,
        grace: GRACE,
    };
    let result = tasks.run(&engine, &seat.process.shutdown).await;
    drop(watches);
    drop(engine);
    seat.last_events().await;
    result
}

fn watches(caches: &Informers, config: &Config) -> [Watch; 6] {
    [
        Watch::all(SNAPSHOTS, &caches.snapshots).resync(config.resync),
        Watch::all(CONTENTS, &caches.contents).resync(config.resync),
        Watch::all(CLASSES, &caches.classes),
        Watch::all(CLAIMS, &caches.claims).resync(config.resync),
        Watch::all(VOLUMES, &caches.volumes),
        Watch::all(NODES, &caches.nodes).when(config.settings.distributed),
    ]
}
