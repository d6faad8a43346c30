//! Removes finalizers from snapshots that no claim needs any more.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sidecar::controller::execute::execute;
use sidecar::controller::reactor::Due;
use sidecar::controller::{Seat, Watch};
use sidecar::kube::access;
use sidecar::kube::cache::Cache;
use sidecar::verbose;
use tokio::time::sleep;

use super::api::SNAPSHOTS;
use super::discovery::has_snapshots;
use super::executor::{Engine, Executor};
use crate::keys::SNAPSHOT_GROUP;
use crate::model::Snapshot;
use crate::plan::edit;
use crate::plan::request::Reply;

/// Removes such finalizers, at once and then at intervals, if the server has snapshots and the program may list them.
pub async fn sweep_snapshots(engine: &Engine, seat: &Seat, every: Option<Duration>) -> Infallible {
    let executor = engine.shell();
    if let Some(every) = every
        && executor.driver.current().abilities.snapshot
        && has_snapshots(&executor.api).await
        && may_list_snapshots(&seat.client).await
    {
        let cache: Cache<Snapshot> = Cache::new(executor.informers.strings.clone(), |_| {});
        let watches: [Watch; 1] = [Watch::all(SNAPSHOTS, &cache)];
        let watching = seat.watch(&watches);
        let sweeping = async {
            loop {
                // Without the claims no snapshot would seem to be needed, and without the journal those whose claim is
                // deleted while its call may still run.
                tokio::join!(
                    cache.current(),
                    executor.informers.claims.current(),
                    executor.recovered.wait(),
                );
                let mut all: Vec<Arc<Snapshot>> = Vec::new();
                cache.for_each(|_, snapshot| all.push(Arc::clone(snapshot)));
                // Claims come while others are released, so each snapshot is looked at again just before its release.
                for snapshot in orphans(engine, &all) {
                    for one in orphans(engine, &[Arc::new(snapshot)]) {
                        executor.release_snapshot(&one).await;
                    }
                }
                sleep(every).await;
            }
        };
        return tokio::select! {
            never = watching => never,
            never = sweeping => never,
        };
    }
    std::future::pending().await
}

/// Without the permission, which the shipped manifests make optional, there is no sweep, and no error at each interval.
async fn may_list_snapshots(client: &kube::Client) -> bool {
    let rule = access::Rule::required(SNAPSHOT_GROUP, "volumesnapshots", &["list", "watch"]);
    let report = access::check(client, &[rule]).await;
    if !report.missing.is_empty() {
        tracing::info!(
            "Not allowed to list VolumeSnapshots, their stale finalizers are not removed"
        );
    }
    report.missing.is_empty()
}

/// Those of `snapshots` whose finalizer no claim needs any more.
fn orphans(engine: &Engine, snapshots: &[Arc<Snapshot>]) -> Vec<Snapshot> {
    engine.turn(|provisioner, informers| {
        let orphans = provisioner.orphans(snapshots, informers);
        (orphans.into_iter().cloned().collect(), Due::default())
    })
}

impl Executor {
    async fn release_snapshot(&self, snapshot: &Snapshot) {
        let (namespace, name) = (&*snapshot.namespace, &*snapshot.name);
        let request = edit::release_snapshot(namespace, name);
        if let Reply::Write(_, Err(error)) = execute(self, request).await {
            verbose!(2, namespace, name, err = %error, "Cannot remove the finalizer of a snapshot");
        }
    }
}
