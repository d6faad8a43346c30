//! The controllers of one process while it leads: watches, workers, and the drain.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use sidecar::flags::Exit;
use sidecar::kube::access;
use sidecar::kube::api::Api;
use sidecar::kube::events::{Recorder, Source, Worker};
use sidecar::kube::reflect::reflect_all;
use sidecar::names;
use tokio::time::{sleep, timeout};

use crate::permission::{self, watches_classes, watches_pods};
use crate::plan::Kind;
use crate::run::Parts;
use crate::work::Resizer;
use crate::work::api::{CLAIMS, CLASSES, PODS, VOLUMES};
use crate::work::cluster::{Cluster, Pacing};
use crate::work::driver::DriverLink;

/// How long running attempts may go on after a signal: less than the thirty seconds that a pod has
/// by default.
const GRACE: Duration = Duration::from_secs(25);

/// For events that are on their way when the process ends.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// What is watched beside claims and volumes.
#[derive(Clone, Copy)]
struct Watched {
    pods: bool,
    classes: bool,
    resync: Duration,
}

/// Works until a signal comes, then finishes what is under way.
///
/// # Errors
/// How the process ends: the driver came back as something else.
pub(crate) async fn work(parts: &Parts, driver: &Arc<DriverLink>) -> Result<(), Exit> {
    let (resizer, worker) = resizer(parts, driver)?;
    let events = tokio::spawn(worker.run());
    let result = Box::pin(lead(parts, &resizer)).await;
    // The recorder goes with it, so that the worker knows that no more events will come.
    drop(resizer);
    let _ = timeout(LAST_EVENTS, events).await;
    result
}

fn resizer(parts: &Parts, driver: &Arc<DriverLink>) -> Result<(Arc<Resizer>, Worker), Exit> {
    let config = &parts.config;
    let pacing = Pacing {
        workers: config.workers,
        retry_start: config.retry_start,
        retry_max: config.retry_max,
    };
    let settings = &config.settings;
    let cluster = Cluster::new(Arc::clone(driver), pacing, settings, &parts.base.queues)?;
    cluster.queue.depends_on(&parts.base.server);
    let source = Source {
        component: format!("external-resizer {}", driver.current().name),
        host: names::hostname().unwrap_or_default(),
    };
    let (events, worker) = Recorder::new(parts.base.client.clone(), source);
    let resizer = Resizer {
        cluster,
        driver: Arc::clone(driver),
        api: Api::new(parts.base.client.clone()),
        settings: settings.clone(),
        events,
    };
    Ok((Arc::new(resizer), worker))
}

async fn lead(parts: &Parts, resizer: &Arc<Resizer>) -> Result<(), Exit> {
    let (cluster, driver) = (&resizer.cluster, &resizer.driver);
    let can = driver.current().abilities;
    let watched = Watched {
        pods: watches_pods(can, &resizer.settings),
        classes: watches_classes(can, &resizer.settings),
        resync: parts.config.resync,
    };
    let watching = async {
        tokio::select! {
            never = watch(&parts.base.client, cluster, watched) => never,
            never = driver.whenever_back(|| cluster.driver_is_back()) => never,
            never = open(resizer, watched) => never,
            never = advise(parts, resizer) => never,
        }
    };
    let mut serving = Box::pin(resizer.serve());
    let following = driver.follow();
    tokio::pin!(watching, following);
    tokio::select! {
        biased;
        exit = &mut following => return Err(exit),
        () = parts.base.shutdown.requested() => {}
        () = &mut serving => {}
        never = &mut watching => match never {},
    }
    cluster.queue.shut_down();
    tokio::select! {
        biased;
        () = cluster.queue.drained() => tracing::info!("All running operations have ended"),
        () = &mut serving => {}
        exit = &mut following => return Err(exit),
        () = sleep(GRACE) => {
            let running: usize = cluster.queue.lanes().iter().map(|lane| lane.running).sum();
            tracing::warn!(running, "Ending with operations still running");
        }
        never = &mut watching => match never {},
    }
    Ok(())
}

/// Keeps the caches in step with the API server.
async fn watch(client: &Client, cluster: &Cluster, watched: Watched) -> Infallible {
    let pods = async {
        match watched.pods {
            true => reflect_all(client, PODS, &cluster.pods, None).await,
            false => std::future::pending().await,
        }
    };
    let classes = async {
        match watched.classes {
            true => reflect_all(client, CLASSES, &cluster.classes, None).await,
            false => std::future::pending().await,
        }
    };
    tokio::select! {
        never = reflect_all(client, CLAIMS, &cluster.claims, Some(watched.resync)) => never,
        never = reflect_all(client, VOLUMES, &cluster.volumes, None) => never,
        never = pods => never,
        never = classes => never,
    }
}

/// Lets each sort of work begin when the lists that it depends on are complete. The two wait each
/// for itself: without the permission to list pods volumes are still modified.
async fn open(resizer: &Resizer, watched: Watched) -> Infallible {
    let cluster = &resizer.cluster;
    let can = resizer.driver.current().abilities;
    let both = async || {
        tokio::join!(cluster.claims.synced(), cluster.volumes.synced());
    };
    let expand = async {
        both().await;
        if watched.pods {
            cluster.pods.synced().await;
        }
        if can.has(Kind::Expand) {
            tracing::info!("Starting external resizer");
            cluster.open(Kind::Expand);
        }
    };
    let modify = async {
        both().await;
        if watched.classes {
            cluster.classes.synced().await;
            tracing::info!("Starting external resizer for modify volume");
            cluster.open(Kind::Modify);
        }
    };
    tokio::join!(expand, modify);
    std::future::pending().await
}

/// Says which permissions are missing.
async fn advise(parts: &Parts, resizer: &Resizer) -> Infallible {
    let can = resizer.driver.current().abilities;
    let rules = permission::rules(can, &resizer.settings);
    let report = access::check(&parts.base.client, &rules).await;
    report.without_optional().log();
    std::future::pending().await
}
