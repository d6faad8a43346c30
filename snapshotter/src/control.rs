//! The work of a leading process: watches and workers.

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
use crate::work::kinds;

/// The engines of one process: that of single snapshots, and that of group snapshots unless they are off.
type Engines = [Arc<Engine>];

/// Whether the process serves group snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// It does not.
    Off,
    /// Their kinds existed at the start. The value names groups.
    Served(Name),
    /// Their kinds do not exist yet; the process serves them as soon as they appear. The value names groups.
    Awaited(Name),
}

impl Groups {
    fn name(&self) -> Option<&Name> {
        match self {
            Self::Off => None,
            Self::Served(name) | Self::Awaited(name) => Some(name),
        }
    }
}

/// Interval of checks for the kinds if nothing is resynced.
const LOOK: Duration = Duration::from_mins(15);

/// Works until a signal arrives, then finishes the attempts under way.
///
/// # Errors
/// The process's exit: the driver restarted as one that this process cannot work with.
pub(crate) async fn work(
    seat: &Seat,
    config: &Config,
    groups: &Groups,
    driver: &Arc<DriverView>,
) -> Result<(), Exit> {
    let engines = snapshotters(seat, config, groups, driver)?;
    let result = Box::pin(lead(seat, config, groups, &engines)).await;
    drop(engines);
    seat.last_events().await;
    result
}

fn snapshotters(
    seat: &Seat,
    config: &Config,
    groups: &Groups,
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
        engine.traced_by(seat.tracer());
        seat.explained(&engine, Some(&**driver));
        Ok::<_, Exit>(engine)
    };
    let single = of(Kind::Single, &config.settings)?;
    let Some(name) = groups.name() else {
        return Ok(vec![single]);
    };
    let settings = Settings {
        name: name.clone(),
        ..config.settings.clone()
    };
    let grouped = of(Kind::Group, &settings)?;
    if matches!(groups, Groups::Served(_)) {
        know_groups(&single, &grouped);
    }
    Ok(vec![single, grouped])
}

/// Lets the engine of single snapshots look up members in the cache of group contents.
fn know_groups(single: &Engine, grouped: &Engine) {
    let contents = &grouped.shell().informers.contents;
    single.shell().informers.know_groups(contents);
}

async fn lead(
    seat: &Seat,
    config: &Config,
    groups: &Groups,
    engines: &Engines,
) -> Result<(), Exit> {
    let [single, others @ ..] = engines else {
        return Ok(());
    };
    let driver = &single.shell().driver;
    let of = |engine: &Engine| watches(engine.shell(), config.node.as_deref(), config.resync);
    let singles = of(single);
    let grouped: Vec<Watch> = others.iter().flat_map(|engine| of(engine)).collect();
    let rules = permission::rules(matches!(groups, Groups::Served(_)));
    let begin = async || {
        let kinds = watch::kinds(&singles).chain(watch::kinds(&grouped));
        seat.begin(kinds, None).await;
    };
    // Neither waits for the other: the group kinds may be broken while the single ones work, or appear later.
    let serving = async {
        let serving_groups = async {
            if let Some(engine) = others.first() {
                watch::ready(&grouped).await;
                know_groups(single, engine);
                begin().await;
                tracing::info!("Group snapshots are served from now on");
                engine.serve().await;
            }
        };
        let serving_singles = async {
            watch::ready(&singles).await;
            begin().await;
            tracing::info!("Starting CSI snapshotter");
            single.serve().await;
        };
        tokio::join!(serving_singles, serving_groups);
    };
    let back = || {
        for engine in engines {
            engine.observe(Change::DriverBack);
        }
    };
    let watching_groups = async {
        if matches!(groups, Groups::Awaited(_)) {
            let look = Some(config.resync).filter(|period| !period.is_zero());
            kinds::appear(&seat.api(), look.unwrap_or(LOOK)).await;
        }
        seat.watch(&grouped).await
    };
    let background = async {
        tokio::select! {
            never = seat.watch(&singles) => never,
            never = watching_groups => never,
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

/// The watches: contents of the `node` only, if there is one. Classes have no label.
fn watches(shell: &Executor, node: Option<&str>, resync: Duration) -> [Watch; 2] {
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
