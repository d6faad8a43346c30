//! The controller of one process while it leads: watches and workers.

use std::time::Duration;

use sidecar::controller::tasks::GRACE;
use sidecar::controller::{Seat, Tasks, Watch, watch};
use sidecar::flags::Exit;
use sidecar::kube::events::Source;
use sidecar::names;

use crate::args::Config;
use crate::permission;
use crate::plan::reactor::Change;
use crate::work::api::{
    CLAIMS, CLASSES, CONTENTS, GROUP_CLASSES, GROUP_CONTENTS, GROUP_SNAPSHOTS, NODES, SNAPSHOTS,
    VOLUMES,
};
use crate::work::executor::{Engine, engine};
use crate::work::informers::Informers;
use crate::work::kinds;
use crate::work::metrics::Metrics;

/// What becomes of group snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// Nothing.
    Off,
    /// Their kinds were there at the start.
    Served,
    /// They are served as soon as their kinds appear.
    Awaited,
}

/// How often kinds are looked for where nothing is looked at again by itself.
const LOOK: Duration = Duration::from_mins(15);

/// Works until a signal comes, then finishes what is under way.
///
/// # Errors
/// How the process ends.
pub(crate) async fn work(
    seat: &Seat,
    config: &Config,
    groups: Groups,
    metrics: &Metrics,
) -> Result<(), Exit> {
    let events = seat.record_events(Source {
        component: "snapshot-controller".to_owned(),
        host: names::hostname().unwrap_or_default(),
    });
    let engine = engine(seat, config, events, metrics)?;
    engine.depends_on(&seat.process.server);
    let watches = watches(&engine.shell().informers, config);
    let group_watches = group_watches(&engine.shell().informers, config);
    let serving = async {
        watch::ready(&watches).await;
        if groups == Groups::Served {
            watch::ready(&group_watches).await;
            serve_groups(&engine);
        }
        tracing::info!("Starting snapshot controller");
        engine.serve().await;
    };
    let rules = permission::rules(config.settings, groups == Groups::Served);
    let api = seat.api();
    let look = if config.resync.is_zero() {
        LOOK
    } else {
        config.resync
    };
    let watching_groups = async {
        match groups {
            Groups::Off => std::future::pending::<()>().await,
            Groups::Served => {}
            Groups::Awaited => kinds::until_groups(&api, look).await,
        }
        let late = async {
            watch::ready(&group_watches).await;
            if groups == Groups::Awaited {
                serve_groups(&engine);
            }
            std::future::pending().await
        };
        tokio::select! {
            never = seat.watch(&group_watches) => never,
            never = late => never,
        }
    };
    let background = async {
        tokio::select! {
            never = seat.watch(&watches) => never,
            never = watching_groups => never,
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
    drop(group_watches);
    drop(engine);
    seat.last_events().await;
    result
}

fn serve_groups(engine: &Engine) {
    for key in engine.shell().informers.serve_groups() {
        engine.observe(Change::Resync(key));
    }
}

fn group_watches(caches: &Informers, config: &Config) -> [Watch; 3] {
    [
        Watch::all(GROUP_SNAPSHOTS, &caches.groups).resync(config.resync),
        Watch::all(GROUP_CONTENTS, &caches.group_contents).resync(config.resync),
        Watch::all(GROUP_CLASSES, &caches.group_classes),
    ]
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
