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
use crate::model::Kind;
use crate::permission;
use crate::plan::Settings;
use crate::plan::reactor::Change;
use crate::plan::settings::Name;
use crate::work::driver::DriverView;
use crate::work::executor::{Engine, Executor, engine};

/// The snapshotters of one process: that of single snapshots, and that of groups if they are served.
type Engines = [Arc<Engine>];
/// What they are of, in this order.
const KINDS: [Kind; 2] = [Kind::Single, Kind::Group];

/// Works until a signal comes, then finishes what is under way. `groups`: how groups are named, if they
/// are served.
///
/// # Errors
/// How the process ends: the driver came back as something else.
pub(crate) async fn work(
    seat: &Seat,
    config: &Config,
    groups: Option<&Name>,
    driver: &Arc<DriverView>,
) -> Result<(), Exit> {
    let engines = snapshotters(seat, config, groups, driver)?;
    let result = Box::pin(lead(seat, config, &engines)).await;
    drop(engines);
    seat.last_events().await;
    result
}

fn snapshotters(
    seat: &Seat,
    config: &Config,
    groups: Option<&Name>,
    driver: &Arc<DriverView>,
) -> Result<Vec<Arc<Engine>>, Exit> {
    let events = seat.record_events(Source {
        component: format!("csi-snapshotter {}", driver.current().name),
        host: names::hostname().unwrap_or_default(),
    });
    let of = |kind, settings: &Settings| {
        let (with, by) = ((seat.api(), events.clone()), (config.pacing, settings));
        let engine = engine(kind, driver, with, by, seat.queues())?;
        engine.depends_on(&seat.process.server);
        Ok::<_, Exit>(engine)
    };
    let mut engines = vec![of(Kind::Single, &config.settings)?];
    if let Some(name) = groups {
        let settings = Settings {
            name: name.clone(),
            ..config.settings.clone()
        };
        engines.push(of(Kind::Group, &settings)?);
    }
    Ok(engines)
}

async fn lead(seat: &Seat, config: &Config, engines: &Engines) -> Result<(), Exit> {
    let Some(driver) = engines.first().map(|engine| &engine.shell().driver) else {
        return Ok(());
    };
    let each = engines.iter().zip(KINDS);
    let watches = each.flat_map(|(engine, kind)| {
        let watches = watches(engine.shell(), config.node.as_deref(), config.resync);
        watches.map(|watch| watch.only_for(kind))
    });
    let watches: Vec<Watch<Kind>> = watches.collect();
    let rules = permission::rules(engines.len() > 1);
    // One does not wait for the other: kinds of groups may be broken where single ones are not.
    let [single, group] = KINDS;
    let serving = async {
        tokio::join!(
            serve(engines.first(), single, &watches),
            serve(engines.get(1), group, &watches)
        );
    };
    let back = || {
        for engine in engines {
            engine.observe(Change::DriverBack);
        }
    };
    let background = async {
        tokio::select! {
            never = seat.watch(&watches) => never,
            never = driver.whenever_back(back) => never,
            never = seat.advise(&rules) => never,
        }
    };
    let tasks = Tasks {
        lost: driver.follow(),
        serving,
        background,
        grace: GRACE,
    };
    tasks.run(engines, &seat.ending).await
}

/// Works as soon as its objects are known.
async fn serve(engine: Option<&Arc<Engine>>, kind: Kind, watches: &[Watch<Kind>]) {
    let Some(engine) = engine else { return };
    watch::ready_for(watches, &kind).await;
    match kind {
        Kind::Single => tracing::info!("Starting CSI snapshotter"),
        Kind::Group => tracing::info!("Group snapshots are served from now on"),
    }
    engine.serve().await;
}

/// What is watched: of contents those of the `node`, if there is one. Classes have no label.
fn watches(shell: &Executor, node: Option<&str>, resync: Duration) -> [Watch<Kind>; 2] {
    let (caches, resources) = (&shell.informers, &shell.resources);
    let contents = Scope {
        labels: node.map_or_else(String::new, |node| format!("{MANAGED_BY}={node}")),
        ..Scope::all(resources.contents.clone())
    };
    [
        Watch::of(contents, &caches.contents).resync(resync),
        Watch::all(resources.classes.clone(), &caches.classes),
    ]
}
