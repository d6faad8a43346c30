//! The controller of one process while it leads: watches and workers.

use std::convert::Infallible;
use std::time::Duration;

use sidecar::controller::tasks::GRACE;
use sidecar::controller::{Seat, Tasks, Watch, watch};
use sidecar::flags::Exit;
use sidecar::kube::events::Source;
use sidecar::names;
use tokio::time::timeout;

use crate::args::Config;
use crate::permission;
use crate::plan::in_flight::Key;
use crate::plan::reactor::Change;
use crate::work::api::{
    CLAIMS, CLASSES, CONTENTS, GROUP_CLASSES, GROUP_CONTENTS, GROUP_SNAPSHOTS, NODES, SNAPSHOTS,
    VOLUMES,
};
use crate::work::executor::{Engine, engine};
use crate::work::informers::Informers;
use crate::work::kinds;
use crate::work::metrics::Metrics;

/// How the controller treats group snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// The feature gate is off: ignores group snapshots.
    Off,
    /// The group kinds existed at the start.
    Served,
    /// The group kinds do not exist yet: serves group snapshots as soon as they do.
    Awaited,
}

/// How long the group kinds may take to be listed before the controller tells users that it does not
/// serve groups. Single snapshots do not wait for them.
const GROUP_LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// How often the controller looks for the group kinds if `--resync-period` is zero.
const GROUP_KINDS_INTERVAL: Duration = Duration::from_mins(15);

/// Works until a signal comes, then finishes the running attempts.
///
/// # Errors
/// The exit code and text.
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
    engine.traced_by(seat.tracer());
    seat.explained(&engine, None);
    let watches = watches(&engine.shell().informers, config);
    let snapshots = snapshot_watch(&engine.shell().informers, config);
    let group_watches = group_watches(&engine.shell().informers, config);
    let serving = async {
        watch::ready(&watches).await;
        watch::ready(&snapshots).await;
        let single = watch::kinds(&watches).chain(watch::kinds(&snapshots));
        let of_groups = (groups != Groups::Off).then(|| watch::kinds(&group_watches));
        seat.begin(single.chain(of_groups.into_iter().flatten()), None)
            .await;
        tracing::info!("Starting snapshot controller");
        engine.serve().await;
    };
    let rules = permission::rules(config.settings, groups == Groups::Served);
    let api = seat.api();
    let look = if config.resync.is_zero() {
        GROUP_KINDS_INTERVAL
    } else {
        config.resync
    };
    let watching_groups = async {
        match groups {
            Groups::Off => std::future::pending::<()>().await,
            Groups::Served => engine.shell().informers.await_groups(),
            Groups::Awaited => kinds::until_groups(&api, look).await,
        }
        tokio::select! {
            never = seat.watch(&group_watches) => never,
            never = serve_groups(&engine, [&watches, &snapshots], &group_watches) => never,
        }
    };
    // Lists VolumeSnapshots after their contents, so that settled ones need no place in the queue.
    let watching_snapshots = async {
        watch::ready(&watches).await;
        seat.watch(&snapshots).await
    };
    let background = async {
        tokio::select! {
            never = seat.watch(&watches) => never,
            never = watching_snapshots => never,
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
    let result = tasks.run(&engine, &seat.ending).await;
    drop((watches, snapshots, group_watches));
    drop(engine);
    seat.last_events().await;
    result
}

/// Serves groups once all other caches are filled, since decisions about groups read all of them.
async fn serve_groups(engine: &Engine, others: [&[Watch]; 2], of_groups: &[Watch]) -> Infallible {
    let informers = &engine.shell().informers;
    let look = |keys: Vec<Key>| {
        for key in keys {
            engine.observe(Change::Resync(key));
        }
    };
    for watches in others {
        watch::ready(watches).await;
    }
    if timeout(GROUP_LIST_TIMEOUT, watch::ready(of_groups))
        .await
        .is_err()
    {
        tracing::warn!("Cannot list the kinds of group snapshots, continuing without them");
        look(informers.give_groups_up());
    }
    watch::ready(of_groups).await;
    look(informers.serve_groups());
    std::future::pending().await
}

fn group_watches(caches: &Informers, config: &Config) -> [Watch; 3] {
    [
        Watch::all(GROUP_SNAPSHOTS, &caches.groups).resync(config.resync),
        Watch::all(GROUP_CONTENTS, &caches.group_contents).resync(config.resync),
        Watch::all(GROUP_CLASSES, &caches.group_classes),
    ]
}

fn snapshot_watch(caches: &Informers, config: &Config) -> [Watch; 1] {
    [Watch::all(SNAPSHOTS, &caches.snapshots).resync(config.resync)]
}

fn watches(caches: &Informers, config: &Config) -> [Watch; 5] {
    [
        Watch::all(CONTENTS, &caches.contents).resync(config.resync),
        Watch::all(CLASSES, &caches.classes),
        Watch::all(CLAIMS, &caches.claims).resync(config.resync),
        Watch::all(VOLUMES, &caches.volumes),
        Watch::all(NODES, &caches.nodes).when(config.settings.distributed),
    ]
}
