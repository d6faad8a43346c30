//! The controllers of one process while it leads: watches, workers, sweeps, and the drain.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use sidecar::flags::Exit;
use sidecar::kube::access;
use sidecar::kube::api::Api;
use sidecar::kube::events::Worker;
use sidecar::kube::reflect::{Scope, reflect, reflect_all};
use sidecar::names;
use sidecar::retry::RetryPolicy;
use sidecar::slow_set::SWEEP_INTERVAL;
use tokio::sync::SetOnce;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::model::Pairs;
use crate::permission::{self, Uses};
use crate::plan::Settings;
use crate::plan::journal::Lost;
use crate::plan::ownership::Pace;
use crate::plan::settings::Protection;
use crate::plan::topology::{Places, Term};
use crate::run::Parts;
use crate::work::Provisioner;
use crate::work::api::{ATTACHMENTS, CLAIMS, CLASSES, CSI_NODES, GRANTS, NODES, VOLUMES};
use crate::work::capacity::{self, Capacity};
use crate::work::cluster::{Cluster, Pacing};
use crate::work::driver::{DriverLink, OwnNode};
use crate::work::journal::Keeper;
use crate::work::news::News;

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
    let (provisioner, workers) = provisioner(parts, driver, node, journal)?;
    let events: Vec<_> = { workers.into_iter() }
        .map(|worker: Worker| tokio::spawn(worker.run()))
        .collect();
    let result = Box::pin(lead(parts, &provisioner)).await;
    // The recorders go with it, so that the workers know that no more events will come.
    drop(provisioner);
    let written = async {
        for events in events {
            let _ = events.await;
        }
    };
    let _ = timeout(LAST_EVENTS, written).await;
    result
}

fn provisioner(
    parts: &Parts,
    driver: &Arc<DriverLink>,
    node: Option<OwnNode>,
    journal: Option<Keeper>,
) -> Result<(Arc<Provisioner>, [Worker; 2]), Exit> {
    let config = &parts.config;
    let pacing = Pacing {
        threads: config.threads,
        clone_threads: config.clone_threads,
        retry_start: config.retry_start,
        retry_max: config.retry_max,
    };
    let places = match (&config.settings.node, &node) {
        (Some(deployment), Some(node)) => {
            Places::of_node(&deployment.name, &Term::from_csi(&node.topology))
        }
        (_, _) => Places::default(),
    };
    let cluster = Cluster::new(Arc::clone(driver), pacing, &parts.base.queues, places)?;
    cluster.claim_queue.depends_on(&parts.base.server);
    cluster.volume_queue.depends_on(&parts.base.server);
    cluster.source_queue.depends_on(&parts.base.server);
    if let (Some(config), Some(producer)) = (&config.capacity, &parts.producer) {
        let capacity = Capacity::new(capacity::Parts {
            origin: producer.origin.clone(),
            config,
            retry: RetryPolicy::new(pacing.retry_start, pacing.retry_max),
            driver: Arc::clone(driver),
            client: &producer.client,
            classes: cluster.classes.clone(),
            strings: cluster.strings.clone(),
            queues: &parts.base.queues,
            metrics: &producer.room,
        });
        let capacity = capacity?;
        capacity.queue.depends_on(&parts.base.server);
        cluster.capacity.get_or_init(|| capacity);
    }
    show_doubts(parts, &cluster);
    let name = driver.current().name.clone();
    let host = names::hostname().unwrap_or_default();
    // In the component of events, as upstream's library has it.
    let process = Uuid::from_bytes(process_bytes()).to_string();
    let (news, workers) = News::new(&parts.base.client, &name, &host, &process);
    let provisioner = Provisioner {
        cluster,
        driver: Arc::clone(driver),
        api: Api::new(parts.base.client.clone()),
        settings: Settings {
            // Without a journal it is as upstream: what was asked is in memory.
            protection: match &journal {
                Some(_) => config.settings.protection,
                None => Protection::Off,
            },
            ..config.settings.clone()
        },
        journal,
        recovered: SetOnce::new(),
        metrics: parts.metrics.clone(),
        news,
        pace: Pace {
            base: config.ownership.base,
            max: config.ownership.max,
        },
        node: { node.as_ref() }
            .map(|node| Term::from_csi(&node.topology))
            .filter(|segment| !segment.is_empty())
            .map(|segment| {
                let texts = segment.iter().flat_map(|(key, value)| [key, value]);
                Pairs::new(texts.cloned().collect())
            }),
    };
    Ok((Arc::new(provisioner), workers))
}

/// The gauges of calls in doubt are read off the books.
fn show_doubts(parts: &Parts, cluster: &Arc<Cluster>) {
    let books = Arc::downgrade(cluster);
    parts.metrics.in_doubt.read_from(move || {
        let cluster = books.upgrade()?;
        let memory = cluster.memory();
        let requests = memory.doubts().map(|(_, doubt)| doubt.requests().count());
        let oldest = memory.doubts().map(|(_, doubt)| doubt.since).min();
        let now = Instant::now().into_std();
        let oldest = oldest.map(|since| now.saturating_duration_since(since));
        Some((requests.sum(), oldest.unwrap_or_default()))
    });
}

fn process_bytes() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let one = RandomState::new().hash_one(0_u8).to_be_bytes();
    let other = RandomState::new().hash_one(1_u8).to_be_bytes();
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(one.into_iter().chain(other)) {
        *to = from;
    }
    bytes
}

async fn lead(parts: &Parts, provisioner: &Arc<Provisioner>) -> Result<(), Exit> {
    let cluster = &provisioner.cluster;
    let driver = &provisioner.driver;
    let can = driver.current().abilities;
    let settings = &provisioner.settings;
    let watched = Watched {
        attachments: can.publish,
        nodes: settings.node.is_none()
            && ((can.topology && settings.gates.topology) || parts.config.capacity.is_some()),
        grants: settings.gates.cross_namespace,
    };
    let watching = async {
        tokio::select! {
            never = watch(&parts.base.client, cluster, watched) => never,
            never = provisioner.look_for_attributes_classes() => never,
            never = driver.whenever_back(|| cluster.driver_is_back()) => never,
            never = provisioner.look_for_gone_nodes() => never,
        }
    };
    let advising = advise(parts, provisioner);
    let sweeping = provisioner.sweep_snapshots(&parts.base.client, parts.config.sweep);
    let mut serving = Box::pin(serve(provisioner, watched));
    let following = driver.follow();
    let mut keeping = Box::pin(provisioner.keep_journal());
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
    cluster.claim_queue.shut_down();
    cluster.volume_queue.shut_down();
    cluster.source_queue.shut_down();
    if let Some(capacity) = cluster.capacity.get() {
        capacity.queue.shut_down();
    }
    let drained = async {
        cluster.claim_queue.drained().await;
        cluster.volume_queue.drained().await;
        cluster.source_queue.drained().await;
    };
    tokio::select! {
        biased;
        // The driver is not the one that was asked: there is nothing to wait for.
        () = std::future::ready(()), if end.is_some() => {}
        () = drained => tracing::info!("All running operations have ended"),
        () = &mut serving => {}
        lost = &mut keeping => end = Some(Err(not_leading(&lost))),
        exit = &mut following => end = Some(Err(exit)),
        () = sleep(GRACE) => {
            let running: usize = cluster.claim_queue.lanes().iter().map(|lane| lane.running).sum();
            tracing::warn!(running, "Ending with operations still running");
        }
        never = &mut watching => match never {},
    }
    // What still runs is cut off here; it stays in the journal for the process that comes next.
    drop(serving);
    drop(keeping);
    if end.is_none()
        && let Some(journal) = &provisioner.journal
    {
        let _ = timeout(LAST_WORDS, journal.flush()).await;
    }
    end.unwrap_or(Ok(()))
}

fn not_leading(lost: &Lost) -> Exit {
    Exit::failure(1, format_args!("Stopped leading: {lost}"))
}

/// Keeps the caches in step with the API server.
async fn watch(client: &Client, cluster: &Cluster, watched: Watched) -> Infallible {
    let resync = Some(RESYNC);
    let attachments = async {
        match watched.attachments {
            true => {
                let scope = Scope {
                    relist: true,
                    ..Scope::all(ATTACHMENTS)
                };
                let cache = &cluster.attachments;
                tokio::select! {
                    never = reflect(client.clone(), scope, cache.clone(), None) => never,
                    never = cache.whenever_current(|| cluster.attachments_are_known()) => never,
                }
            }
            false => std::future::pending().await,
        }
    };
    let nodes = async {
        match watched.nodes {
            true => {
                tokio::select! {
                    never = reflect_all(client, NODES, &cluster.nodes, None) => never,
                    never = reflect_all(client, CSI_NODES, &cluster.csi_nodes, None) => never,
                }
            }
            false => std::future::pending().await,
        }
    };
    let grants = async {
        match watched.grants {
            true => reflect_all(client, GRANTS, &cluster.grants, None).await,
            false => std::future::pending().await,
        }
    };
    let capacity = async {
        match cluster.capacity.get() {
            Some(capacity) => capacity.watch(client).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        never = reflect_all(client, CLAIMS, &cluster.claims, resync) => never,
        never = reflect_all(client, VOLUMES, &cluster.volumes, resync) => never,
        never = reflect_all(client, CLASSES, &cluster.classes, None) => never,
        never = attachments => never,
        never = nodes => never,
        never = grants => never,
        never = capacity => never,
    }
}

/// Works on what the caches bring, once they are complete.
async fn serve(provisioner: &Arc<Provisioner>, watched: Watched) {
    let cluster = &provisioner.cluster;
    tokio::join!(
        cluster.claims.synced(),
        cluster.volumes.synced(),
        cluster.classes.synced(),
    );
    if watched.attachments {
        cluster.attachments.current().await;
    }
    if watched.nodes {
        tokio::join!(cluster.nodes.synced(), cluster.csi_nodes.synced());
    }
    if watched.grants {
        cluster.grants.synced().await;
    }
    // Before anything is asked of the driver, and after all is known that answers it.
    provisioner.recover().await;
    tracing::info!("Starting CSI provisioner");
    let workers = async {
        tokio::join!(
            provisioner.serve_claims(),
            provisioner.serve_volumes(),
            provisioner.serve_sources(),
            produce(cluster),
        );
    };
    let forgetting = async {
        loop {
            sleep(SWEEP_INTERVAL).await;
            cluster.memory().sweep(Instant::now().into_std());
        }
    };
    tokio::select! {
        () = workers => {}
        never = forgetting => never,
    }
}

/// Says how much room there is where, if that is wanted.
async fn produce(cluster: &Cluster) {
    if let Some(capacity) = cluster.capacity.get() {
        let segments = || cluster.places().segments().cloned().collect();
        capacity.serve(segments).await;
    }
}

/// Says which permissions are missing.
async fn advise(parts: &Parts, provisioner: &Provisioner) -> Infallible {
    let uses = Uses {
        settings: &provisioner.settings,
        capacity: { parts.config.capacity.as_ref() }.map(|capacity| &*capacity.namespace),
        sweep: parts.config.sweep.is_some(),
        journal: provisioner.journal.as_ref().map(Keeper::namespace),
    };
    let can = provisioner.driver.current().abilities;
    let report = access::check(&parts.base.client, &permission::rules(can, &uses)).await;
    report.without_optional().log();
    std::future::pending().await
}
