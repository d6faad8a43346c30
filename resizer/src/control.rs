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
use crate::plan::reactor::Change;
use crate::run::Parts;
use crate::work::api::{CLAIMS, CLASSES, PODS, VOLUMES};
use crate::work::driver::DriverLink;
use crate::work::executor::{Engine, Pacing, engine};
use crate::work::informers::Informers;

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
    let (engine, worker) = resizer(parts, driver)?;
    let events = tokio::spawn(worker.run());
    let result = Box::pin(lead(parts, &engine)).await;
    // The recorder goes with it, so that the worker knows that no more events will come.
    drop(engine);
    let _ = timeout(LAST_EVENTS, events).await;
    result
}

fn resizer(parts: &Parts, driver: &Arc<DriverLink>) -> Result<(Arc<Engine>, Worker), Exit> {
    let config = &parts.config;
    let pacing = Pacing {
        workers: config.workers,
        retry_start: config.retry_start,
        retry_max: config.retry_max,
    };
    let source = Source {
        component: format!("external-resizer {}", driver.current().name),
        host: names::hostname().unwrap_or_default(),
    };
    let client = &parts.base.client;
    let (events, worker) = Recorder::new(client.clone(), source);
    let with = (Api::new(client.clone()), events);
    let by = (pacing, &config.settings);
    let engine = engine(driver, with, by, &parts.base.queues)?;
    engine.depends_on(&parts.base.server);
    Ok((engine, worker))
}

async fn lead(parts: &Parts, engine: &Arc<Engine>) -> Result<(), Exit> {
    let driver = &engine.shell().driver;
    let (can, settings) = (driver.current().abilities, &parts.config.settings);
    let watched = Watched {
        pods: watches_pods(can, settings),
        classes: watches_classes(can, settings),
        resync: parts.config.resync,
    };
    let watching = async {
        tokio::select! {
            never = watch(&parts.base.client, &engine.shell().informers, watched) => never,
            never = driver.whenever_back(|| engine.observe(Change::DriverBack)) => never,
            never = open(engine, watched) => never,
            never = advise(parts, driver) => never,
        }
    };
    let mut serving = Box::pin(engine.serve());
    let following = driver.follow();
    tokio::pin!(watching, following);
    tokio::select! {
        biased;
        exit = &mut following => return Err(exit),
        () = parts.base.shutdown.requested() => {}
        () = &mut serving => {}
        never = &mut watching => match never {},
    }
    engine.shut_down();
    tokio::select! {
        biased;
        () = engine.drained() => tracing::info!("All running operations have ended"),
        () = &mut serving => {}
        exit = &mut following => return Err(exit),
        () = sleep(GRACE) => {
            let running = engine.running();
            tracing::warn!(running, "Ending with operations still running");
        }
        never = &mut watching => match never {},
    }
    Ok(())
}

/// Keeps the caches in step with the API server.
async fn watch(client: &Client, caches: &Informers, watched: Watched) -> Infallible {
    let pods = async {
        match watched.pods {
            true => reflect_all(client, PODS, &caches.pods, None).await,
            false => std::future::pending().await,
        }
    };
    let classes = async {
        match watched.classes {
            true => reflect_all(client, CLASSES, &caches.classes, None).await,
            false => std::future::pending().await,
        }
    };
    tokio::select! {
        never = reflect_all(client, CLAIMS, &caches.claims, Some(watched.resync)) => never,
        never = reflect_all(client, VOLUMES, &caches.volumes, None) => never,
        never = pods => never,
        never = classes => never,
    }
}

/// Lets each sort of work begin when the lists that it depends on are complete. The two wait each
/// for itself: without the permission to list pods volumes are still modified.
async fn open(engine: &Engine, watched: Watched) -> Infallible {
    let caches = &engine.shell().informers;
    let can = engine.shell().driver.current().abilities;
    let both = async || {
        tokio::join!(caches.claims.synced(), caches.volumes.synced());
    };
    let expand = async {
        both().await;
        if watched.pods {
            caches.pods.synced().await;
        }
        if can.has(Kind::Expand) {
            tracing::info!("Starting external resizer");
            engine.observe(Change::Listed(Kind::Expand));
        }
    };
    let modify = async {
        both().await;
        if watched.classes {
            caches.classes.synced().await;
            tracing::info!("Starting external resizer for modify volume");
            engine.observe(Change::Listed(Kind::Modify));
        }
    };
    tokio::join!(expand, modify);
    std::future::pending().await
}

/// Says which permissions are missing.
async fn advise(parts: &Parts, driver: &DriverLink) -> Infallible {
    let can = driver.current().abilities;
    let rules = permission::rules(can, &parts.config.settings);
    let report = access::check(&parts.base.client, &rules).await;
    report.without_optional().log();
    std::future::pending().await
}
