//! The controllers of one process while it leads: watches, workers, sweeps, and the drain.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use sidecar::controller::reactor::Due;
use sidecar::flags::Exit;
use sidecar::kube::access;
use sidecar::kube::api::Api;
use sidecar::kube::events::Worker;
use sidecar::kube::reflect::{Scope, reflect, reflect_all};
use sidecar::names;
use sidecar::retry::RetryPolicy;
use sidecar::slow_set::SWEEP_INTERVAL;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::model::Pairs;
use crate::permission::{self, Uses};
use crate::plan::Settings;
use crate::plan::journal::{Journal, Lost};
use crate::plan::ownership::Pace;
use crate::plan::reactor::{Change, Setup};
use crate::plan::settings::Protection;
use crate::plan::topology::{Term, TopologyIndex};
use crate::run::Parts;
use crate::work::api::{ATTACHMENTS, CLAIMS, CLASSES, CSI_NODES, GRANTS, NODES, VOLUMES};
use crate::work::attributes::look_for_attributes_classes;
use crate::work::capacity::{self, Capacity};
use crate::work::driver::{DriverLink, OwnNode};
use crate::work::events::Events;
use crate::work::executor::{self, Engine, Executor, Pacing};
use crate::work::journal::{Keeper, keep_journal, recover};
use crate::work::protection::sweep_snapshots;

mod journal;

/// How often everything that may be due is looked at again.
const RESYNC: Duration = Duration::from_secs(15 * 60);

/// How long running attempts may go on after a signal: longer than a call takes by default, and less
/// than the thirty seconds that a pod has by default.
const GRACE: Duration = Duration::from_secs(15);

/// For the last write of the journal.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// For events that are on their way when the process ends.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// What is watched beside claims, volumes and classes.
#[derive(Clone, Copy)]
struct Watched {
    attachments: bool,
    nodes: bool,
    grants: bool,
}

/// Works until a signal comes, then finishes what is under way.
///
/// # Errors
/// How the process ends: the driver came back as something else.
pub(crate) async fn work(
    parts: &Parts,
    driver: &Arc<DriverLink>,
    node: Option<OwnNode>,
) -> Result<(), Exit> {
    let journal = journal::open(parts, driver).await;
    let (engine, workers) = engine(parts, driver, node, journal)?;
    let events: Vec<_> = { workers.into_iter() }
        .map(|worker: Worker| tokio::spawn(worker.run()))
        .collect();
    let result = Box::pin(lead(parts, &engine)).await;
    // The recorders go with it, so that the workers know that no more events will come.
    drop(engine);
    let written = async {
        for events in events {
            let _ = events.await;
        }
    };
    let _ = timeout(LAST_EVENTS, written).await;
    result
}

fn engine(
    parts: &Parts,
    driver: &Arc<DriverLink>,
    node: Option<OwnNode>,
    journal: Option<(Journal, Keeper)>,
) -> Result<(Arc<Engine>, [Worker; 2]), Exit> {
    let config = &parts.config;
    let pacing = Pacing {
        threads: config.threads,
        clone_threads: config.clone_threads,
        retry_start: config.retry_start,
        retry_max: config.retry_max,
    };
    let segment = node.as_ref().map(|node| Term::from_csi(&node.topology));
    let places = match (&config.settings.node, &segment) {
        (Some(deployment), Some(segment)) => TopologyIndex::of_node(&deployment.name, segment),
        (_, _) => TopologyIndex::default(),
    };
    let setup = Setup {
        settings: Settings {
            // Without a journal it is as upstream: what was asked is in memory.
            protection: match &journal {
                Some(_) => config.settings.protection,
                None => Protection::Off,
            },
            ..config.settings.clone()
        },
        retention: pacing.retry_max,
        places,
        node: { segment.filter(|segment| !segment.is_empty()) }.map(|segment| {
            let texts = segment.iter().flat_map(|(key, value)| [key, value]);
            Pairs::new(texts.cloned().collect())
        }),
        pace: Pace {
            base: config.ownership.base,
            max: config.ownership.max,
        },
        seed: RandomState::new().hash_one(0_u8),
    };
    let name = driver.current().name.clone();
    let host = names::hostname().unwrap_or_default();
    // In the component of events, as upstream's library has it.
    let process = Uuid::from_bytes(process_bytes()).to_string();
    let (events, workers) = Events::new(&parts.base.client, &name, &host, &process);
    let made = executor::Parts {
        driver: Arc::clone(driver),
        api: Api::new(parts.base.client.clone()),
        setup,
        metrics: parts.metrics.clone(),
        events,
        journal,
    };
    let engine = executor::engine(made, pacing, &parts.base.queues)?;
    engine.depends_on(&parts.base.server);
    if let (Some(config), Some(producer)) = (&config.capacity, &parts.producer) {
        let informers = &engine.shell().informers;
        let capacity = Capacity::new(capacity::Parts {
            origin: producer.origin.clone(),
            config,
            retry: RetryPolicy::new(pacing.retry_start, pacing.retry_max),
            driver: Arc::clone(driver),
            client: &producer.client,
            classes: informers.classes.clone(),
            strings: informers.strings.clone(),
            queues: &parts.base.queues,
            metrics: &producer.room,
        });
        let capacity = capacity?;
        capacity.queue.depends_on(&parts.base.server);
        engine.shell().capacity.get_or_init(|| capacity);
    }
    show_doubts(parts, &engine);
    Ok((engine, workers))
}

/// The gauges of calls in doubt are read off the books.
fn show_doubts(parts: &Parts, engine: &Arc<Engine>) {
    let engine = Arc::downgrade(engine);
    parts.metrics.in_doubt.read_from(move || {
        let engine = engine.upgrade()?;
        let now = Instant::now().into_std();
        engine.turn(|provisioner, _| {
            let in_flight = provisioner.in_flight();
            let requests = in_flight
                .doubts()
                .map(|(_, doubt)| doubt.requests().count());
            let oldest = in_flight.doubts().map(|(_, doubt)| doubt.since).min();
            let oldest = oldest.map(|since| now.saturating_duration_since(since));
            let shown = Some((requests.sum(), oldest.unwrap_or_default()));
            (shown, Due::default())
        })
    });
}

fn process_bytes() -> [u8; 16] {
    let one = RandomState::new().hash_one(0_u8).to_be_bytes();
    let other = RandomState::new().hash_one(1_u8).to_be_bytes();
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(one.into_iter().chain(other)) {
        *to = from;
    }
    bytes
}

async fn lead(parts: &Parts, engine: &Arc<Engine>) -> Result<(), Exit> {
    let executor = engine.shell();
    let driver = &executor.driver;
    let can = driver.current().abilities;
    let settings = &executor.settings;
    let watched = Watched {
        attachments: can.publish,
        nodes: settings.node.is_none()
            && ((can.topology && settings.gates.topology) || parts.config.capacity.is_some()),
        grants: settings.gates.cross_namespace,
    };
    let watching = async {
        tokio::select! {
            never = watch(&parts.base.client, engine, watched) => never,
            never = look_for_attributes_classes(engine) => never,
            never = driver.whenever_back(|| engine.observe(Change::DriverBack)) => never,
            never = executor.look_for_gone_nodes() => never,
        }
    };
    let advising = advise(parts, executor);
    let sweeping = sweep_snapshots(engine, &parts.base.client, parts.config.sweep);
    let mut serving = Box::pin(serve(engine, watched));
    let following = driver.follow();
    let mut keeping = Box::pin(keep_journal(engine));
    tokio::pin!(watching, advising, sweeping, following);
    let mut end = tokio::select! {
        biased;
        lost = &mut keeping => Some(Err(not_leading(&lost))),
        exit = &mut following => Some(Err(exit)),
        () = parts.base.shutdown.requested() => None,
        () = &mut serving => None,
        never = &mut watching => match never {},
        never = &mut sweeping => match never {},
        never = &mut advising => match never {},
    };
    engine.shut_down();
    if let Some(capacity) = executor.capacity.get() {
        capacity.queue.shut_down();
    }
    tokio::select! {
        biased;
        // The driver is not the one that was asked: there is nothing to wait for.
        () = std::future::ready(()), if end.is_some() => {}
        () = engine.drained() => tracing::info!("All running operations have ended"),
        () = &mut serving => {}
        lost = &mut keeping => end = Some(Err(not_leading(&lost))),
        exit = &mut following => end = Some(Err(exit)),
        () = sleep(GRACE) => {
            let running = engine.running();
            tracing::warn!(running, "Ending with operations still running");
        }
        never = &mut watching => match never {},
    }
    // What still runs is cut off here; it stays in the journal for the process that comes next.
    drop(serving);
    drop(keeping);
    if end.is_none() {
        let _ = timeout(LAST_WORDS, executor.flush_journal()).await;
    }
    end.unwrap_or(Ok(()))
}

fn not_leading(lost: &Lost) -> Exit {
    Exit::failure(1, format_args!("Stopped leading: {lost}"))
}

/// Keeps the caches in step with the API server.
async fn watch(client: &Client, engine: &Engine, watched: Watched) -> Infallible {
    let caches = &engine.shell().informers;
    let resync = Some(RESYNC);
    let attachments = async {
        match watched.attachments {
            true => {
                let scope = Scope {
                    relist: true,
                    ..Scope::all(ATTACHMENTS)
                };
                let cache = &caches.attachments;
                tokio::select! {
                    never = reflect(client.clone(), scope, cache.clone(), None) => never,
                    never = cache.whenever_current(|| engine.observe(Change::AttachmentsKnown)) => never,
                }
            }
            false => std::future::pending().await,
        }
    };
    let nodes = async {
        match watched.nodes {
            true => {
                tokio::select! {
                    never = reflect_all(client, NODES, &caches.nodes, None) => never,
                    never = reflect_all(client, CSI_NODES, &caches.csi_nodes, None) => never,
                }
            }
            false => std::future::pending().await,
        }
    };
    let grants = async {
        match watched.grants {
            true => reflect_all(client, GRANTS, &caches.grants, None).await,
            false => std::future::pending().await,
        }
    };
    let capacity = async {
        match engine.shell().capacity.get() {
            Some(capacity) => capacity.watch(client).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        never = reflect_all(client, CLAIMS, &caches.claims, resync) => never,
        never = reflect_all(client, VOLUMES, &caches.volumes, resync) => never,
        never = reflect_all(client, CLASSES, &caches.classes, None) => never,
        never = attachments => never,
        never = nodes => never,
        never = grants => never,
        never = capacity => never,
    }
}

/// Works on what the caches bring, once they are complete.
async fn serve(engine: &Arc<Engine>, watched: Watched) {
    let caches = &engine.shell().informers;
    tokio::join!(
        caches.claims.synced(),
        caches.volumes.synced(),
        caches.classes.synced(),
    );
    if watched.attachments {
        caches.attachments.current().await;
    }
    if watched.nodes {
        tokio::join!(caches.nodes.synced(), caches.csi_nodes.synced());
    }
    if watched.grants {
        caches.grants.synced().await;
    }
    // Before anything is asked of the driver, and after all is known that answers it.
    recover(engine).await;
    tracing::info!("Starting CSI provisioner");
    let workers = async {
        tokio::join!(engine.serve(), produce(engine));
    };
    let forgetting = async {
        loop {
            sleep(SWEEP_INTERVAL).await;
            let now = Instant::now().into_std();
            engine.turn(|provisioner, _| (provisioner.sweep(now), Due::default()));
        }
    };
    tokio::select! {
        () = workers => {}
        never = forgetting => never,
    }
}

/// Says how much room there is where, if that is wanted.
async fn produce(engine: &Engine) {
    if let Some(capacity) = engine.shell().capacity.get() {
        let segments = || {
            engine.turn(|provisioner, _| {
                let segments = provisioner.places().segments();
                (segments.cloned().collect(), Due::default())
            })
        };
        capacity.serve(segments).await;
    }
}

/// Says which permissions are missing.
async fn advise(parts: &Parts, executor: &Executor) -> Infallible {
    let uses = Uses {
        settings: &executor.settings,
        capacity: { parts.config.capacity.as_ref() }.map(|capacity| &*capacity.namespace),
        sweep: parts.config.sweep.is_some(),
        journal: executor.journal.as_ref().map(Keeper::namespace),
    };
    let can = executor.driver.current().abilities;
    let report = access::check(&parts.base.client, &permission::rules(can, &uses)).await;
    report.without_optional().log();
    std::future::pending().await
}
