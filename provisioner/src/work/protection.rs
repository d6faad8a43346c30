//! Removes finalizers from data sources that nobody needs any more.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sidecar::kube::access;
use sidecar::kube::cache::Cache;
use sidecar::kube::reflect::reflect_all;
use sidecar::queue::Work;
use sidecar::verbose;
use tokio::time::sleep;

use super::api::SNAPSHOTS;
use super::discovery::has_snapshots;
use super::provisioner::Provisioner;
use crate::keys::{CLONE_FINALIZER, SNAPSHOT_GROUP};
use crate::model::{Claim, Snapshot, Text};
use crate::plan::edit::{Applied, Edit};
use crate::plan::outcome::ApiError;
use crate::plan::protection::{self, Release};

impl Provisioner {
    /// Works on cloned claims until the queue is shut down, then waits for what still runs.
    pub async fn serve_sources(self: &Arc<Self>) {
        let serve = self.cluster.source_queue.serve(|work| {
            let this = Arc::clone(self);
            async move { this.work_on_source(work).await }
        });
        serve.await;
    }

    async fn work_on_source(&self, work: Work<Text>) {
        let name = work.key().clone();
        let Some(source) = self.cluster.claims.get(&name) else {
            return work.done();
        };
        let failure = match self.release(&source) {
            Release::None => return work.done(),
            Release::Needed { by } => format!("the claim {by} is still being cloned from it"),
            Release::Due => match self.release_source(&source).await {
                Ok(()) => return work.done(),
                Err(error) if error.is_not_found() => return work.done(),
                Err(error) => error.to_string(),
            },
        };
        let wait = work.retry();
        verbose!(
            2,
            claim = &*name,
            retry_after = ?wait,
            err = failure,
            "The finalizer of a cloned claim stays"
        );
    }

    fn release(&self, source: &Claim) -> Release {
        let mut clones = Vec::new();
        self.cluster.claims.for_each(|_, claim| {
            if protection::clone_source(claim).is_some() {
                clones.push(Arc::clone(claim));
            }
        });
        let busy: Vec<Claim> = self.cluster.memory().busy_claims().cloned().collect();
        protection::release(source, clones.iter().map(|claim| &**claim).chain(&busy))
    }

    async fn release_source(&self, source: &Claim) -> Result<(), ApiError> {
        if self.edit(&Edit::release_claim(source)).await? == Applied::Changed {
            let claim = &*source.key();
            tracing::info!(claim, finalizer = CLONE_FINALIZER, "Removed the finalizer");
        }
        Ok(())
    }

    /// Sweeps finalizers off snapshots, at once and then every so often, if there are snapshots
    /// and they may be listed.
    pub async fn sweep_snapshots(
        &self,
        client: &kube::Client,
        every: Option<Duration>,
    ) -> Infallible {
        if let Some(every) = every
            && self.driver.current().abilities.snapshot
            && has_snapshots(&self.api).await
            && self.may_list_snapshots(client).await
        {
            let cache: Cache<Snapshot> = Cache::new(self.cluster.strings.clone(), |_| {});
            let watching = reflect_all(client, SNAPSHOTS, &cache, None);
            let sweeping = async {
                loop {
                    // Without the claims every snapshot would look as if nobody needed it, and
                    // without the journal one whose claim is gone while its call is not.
                    tokio::join!(
                        cache.current(),
                        self.cluster.claims.current(),
                        self.recovered.wait(),
                    );
                    self.sweep(&cache).await;
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

    /// Without the permission, which the shipped manifests make optional, there is no sweep and no
    /// error again and again.
    async fn may_list_snapshots(&self, client: &kube::Client) -> bool {
        let rule = access::Rule::required(SNAPSHOT_GROUP, "volumesnapshots", &["list", "watch"]);
        let report = access::check(client, &[rule]).await;
        if !report.missing.is_empty() {
            tracing::info!("VolumeSnapshots may not be listed, their finalizers are not swept");
        }
        report.missing.is_empty()
    }

    /// Whether another claim is being filled from the snapshot that `claim` has been filled from.
    pub(super) fn is_shared(&self, snapshot: &Edit, claim: &Claim) -> bool {
        let (claims, busy) = self.known_claims();
        let known = claims.iter().map(|claim| &**claim).chain(&busy);
        let place = (&*snapshot.namespace, &*snapshot.name);
        protection::is_shared(place, claim, known, |claim| self.has_volume(claim))
    }

    /// Whether the PersistentVolume of the claim is there, bound or not.
    fn has_volume(&self, claim: &Claim) -> bool {
        let driver = self.driver.current();
        let name = protection::volume_of(claim, &driver, &self.settings);
        name.is_some_and(|name| self.cluster.volumes.get(&name).is_some())
    }

    /// Claims that are open, and those that may be gone while a volume is made for them.
    fn known_claims(&self) -> (Vec<Arc<Claim>>, Vec<Claim>) {
        let mut claims: Vec<Arc<Claim>> = Vec::new();
        self.cluster
            .claims
            .for_each(|_, claim| claims.push(Arc::clone(claim)));
        let busy = self.cluster.memory().busy_claims().cloned().collect();
        (claims, busy)
    }

    async fn sweep(&self, snapshots: &Cache<Snapshot>) {
        let (claims, busy) = self.known_claims();
        let known = claims.iter().map(|claim| &**claim).chain(&busy);
        let restored = protection::restored(known, |claim| self.has_volume(claim));
        let mut all: Vec<Arc<Snapshot>> = Vec::new();
        snapshots.for_each(|_, snapshot| all.push(Arc::clone(snapshot)));
        for snapshot in protection::orphans(all.iter().map(|one| &**one), &restored) {
            let (namespace, name) = (&*snapshot.namespace, &*snapshot.name);
            if let Err(error) = self.edit(&Edit::release_snapshot(namespace, name)).await {
                verbose!(2, namespace, name, err = %error, "The finalizer of a snapshot stays");
            }
        }
    }
}
