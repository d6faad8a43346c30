//! The controllers of one process while it leads: watches, workers, comparison, and the drain.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sidecar::flags::Exit;
use sidecar::kube::access;
use sidecar::kube::api::Api;
use sidecar::kube::events::{Recorder, Source};
use sidecar::kube::reflect::reflect_all;
use sidecar::names;
use tokio::time::{sleep, timeout};

use crate::permission;
use crate::plan::reactor::Change;
use crate::run::Parts;
use crate::work::api::{ATTACHMENTS, NODES, VOLUMES};
use crate::work::drift;
use crate::work::driver::DriverLink;
use crate::work::executor::{Engine, Executor, Pacing, engine};

/// How long the CSINodes are waited for. Without permission to list them that would be for ever,
/// and detaches do without.
const NODES_PATIENCE: Duration = Duration::from_secs(10);

/// How long running attempts may go on after a signal: less than the thirty seconds that a pod has
/// by default.
const GRACE: Duration = Duration::from_secs(25);

/// Works until a signal comes, then finishes what is under way.
///
/// # Errors
/// How the process ends: the driver came back as something else.
pub(crate) async fn work(parts: &Parts, driver: &Arc<DriverLink>) -> Result<(), Exit> {
    let config = &parts.config;
    let pacing = Pacing {
        threads: config.threads,
        retry_start: config.retry_start,
        retry_max: config.retry_max,
    };
    let api = Api::new(parts.base.client.clone());
    let engine = engine(driver, api, pacing, &parts.base.queues)?;
    engine.depends_on(&parts.base.server);
    let publish = driver.current().abilities.publish;
    let watching = async {
        tokio::select! {
            never = watch(parts, engine.shell(), publish) => never,
            never = driver.whenever_back(|| engine.observe(Change::DriverBack)) => never,
        }
    };
    let advising = advise(parts, engine.shell(), publish);
    let serving = serve(parts, &engine, publish);
    let following = driver.follow();
    tokio::pin!(watching, advising, serving, following);
    tokio::select! {
        biased;
        exit = &mut following => return Err(exit),
        () = parts.base.shutdown.requested() => {}
        () = &mut serving => {}
        never = &mut watching => match never {},
        never = &mut advising => match never {},
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
        never = &mut advising => match never {},
    }
    Ok(())
}

/// Keeps the caches in step with the API server.
async fn watch(parts: &Parts, executor: &Executor, publish: bool) -> Infallible {
    let caches = &executor.informers;
    let resync = Some(parts.config.resync);
    let client = &parts.base.client;
    let attachments = reflect_all(client, ATTACHMENTS, &caches.attachments, resync);
    if !publish {
        return attachments.await;
    }
    tokio::select! {
        never = attachments => never,
        never = reflect_all(client, VOLUMES, &caches.volumes, resync) => never,
        never = reflect_all(client, NODES, &caches.nodes, None) => never,
    }
}

/// Works on what the caches bring, once they are complete.
async fn serve(parts: &Parts, engine: &Arc<Engine>, publish: bool) {
    let caches = &engine.shell().informers;
    caches.attachments.synced().await;
    if publish {
        caches.volumes.synced().await;
        if timeout(NODES_PATIENCE, caches.nodes.synced())
            .await
            .is_err()
        {
            tracing::warn!("Going on without having listed the CSINodes");
        }
    }
    tracing::info!("Starting CSI attacher");
    let config = &parts.config;
    tokio::select! {
        () = engine.serve() => {}
        never = drift::watch(engine, config.reconcile, config.max_entries) => match never {},
    }
}

/// Says which permissions are missing, and writes events if that is permitted.
async fn advise(parts: &Parts, executor: &Executor, publish: bool) -> Infallible {
    let report = access::check(&parts.base.client, &permission::rules(publish)).await;
    if permission::log(report) && publish {
        let source = Source {
            component: format!("csi-attacher/{}", executor.driver.current().name),
            host: names::hostname().unwrap_or_default(),
        };
        let (recorder, worker) = Recorder::new(parts.base.client.clone(), source);
        executor.failure_events.allow(recorder);
        worker.run().await;
    }
    std::future::pending().await
}
